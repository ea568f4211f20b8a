"""tests/bench works, and finds every figure that it promises. How good a figure is, is not asked here: see tests/bench/README.md."""

import json
import math
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest

from process import spawn
from relay import BINARY, ROOT

RUN = os.path.join(ROOT, "tests", "bench", "run")

CONDITIONS = "1,000 processed", "2,000 processed", "2,000 under an old snapshot", "200 parked"

FIGURES = {
    "drain: OpenFGA alone, rows/s",
    "drain: relay, rows/s",
    "drain: relay / OpenFGA alone",
    "drain: 2 relays / one",
    "drain: 4 relays / one",
    "drain: relay's processor time for 100,000 rows, s",
    "drain: relay's peak resident memory, MiB",
    "drain: relay's peak anonymous memory, MiB",
    *(f"latency: relay / direct write, {p}" for p in ("p50", "p99")),
    *(f"latency: {whose}, {p}, ms" for p in ("p50", "p99") for whose in ("direct write", "relay")),
    *(f"insert: {n} clients, {arm}, rows/s" for n in (8, 32) for arm in ("none", "sweep", "trigger")),
    *(f"insert: {n} clients, {arm}, delivered meanwhile, rows/s" for n in (8, 32) for arm in ("sweep", "trigger")),
    *(f"insert: {n} clients, trigger / {base}" for n in (8, 32) for base in ("sweep", "none")),
    *(f"claim: {name}, {unit}" for unit in ("buffers", "ms") for name in ("empty", *CONDITIONS)),
    *(f"claim: {name} / empty, {unit}" for unit in ("buffers", "ms") for name in CONDITIONS),
    *(f"status: {name}, ms" for name in ("empty", "2,000 processed", "2,000 processed, 200 refused")),
    "reconcile: reading 2,000 tuples alone, s",
    "reconcile: 2,000 tuples, s",
    "reconcile: relay / reading alone",
    "reconcile: relay's peak resident memory, MiB",
    *(f"claim: under an old snapshot {when} / first, {unit}" for unit in ("buffers", "ms") for when in ("all through", "last")),
}

PLOTS = {"drain.svg", "latency.svg", "insert.svg", "claim.svg", "claim-through.svg"}


def run(*args):
    """(exit code, stdout, stderr)"""
    process = spawn([sys.executable, RUN, "--build", os.path.dirname(BINARY), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(timeout=400)
    finally:
        process.kill()
        process.wait()
    return process.returncode, out.decode(), err.decode()


def pictures(folder):
    """The plots' texts by their names; each is well-formed."""
    found = {name: (folder / "plots" / name).read_text() for name in os.listdir(folder / "plots")}
    for name, text in found.items():
        assert xml.fromstring(text).tag.endswith("svg"), name
    return found


@pytest.mark.slow
@pytest.mark.alone
def test_a_quick_run_finds_every_figure_and_draws_it(tmp_path):
    code, out, err = run("--quick", "--out", str(tmp_path))
    assert code == 0, err
    data = json.loads((tmp_path / "data.json").read_text())
    assert set(data["figures"]) == FIGURES
    for name, figure in data["figures"].items():
        assert name in out
        # Within a second, a relay that only sweeps need not have delivered anything yet.
        assert all(math.isfinite(value) and (value > 0 or "delivered meanwhile" in name) for value in figure.values()), (name, figure)
        assert figure["low"] <= figure["median"] <= figure["high"], (name, figure)
    drawn = pictures(tmp_path)
    assert set(drawn) == PLOTS
    # Whatever is drawn comes from the data file alone.
    for name in PLOTS:
        (tmp_path / "plots" / name).unlink()
    assert run("plots", "--out", str(tmp_path))[0] == 0
    assert pictures(tmp_path) == drawn


def test_the_plots_in_the_tree_come_from_the_data_beside_them(tmp_path):
    here = os.path.dirname(RUN)
    shutil.copy(os.path.join(here, "data.json"), tmp_path)
    assert run("plots", "--out", str(tmp_path))[0] == 0
    drawn = pictures(tmp_path)
    for name in PLOTS:
        with open(os.path.join(here, "plots", name)) as f:
            assert f.read() == drawn[name], name


def test_an_unknown_measurement_is_a_wrong_command_line():
    code, _, err = run("drian")
    assert code == 2
    assert "drian" in err and "drain" in err
