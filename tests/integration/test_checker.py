"""A short run of tests/check: random histories on servers of its own, the same seeds each time, so that a change is told from chance.
tests/check alone draws others. See tests/checker/README.md."""

import os
import subprocess
import sys

import pytest

from process import spawn
from relay import BINARY, ROOT

SECONDS = 150  # begins no new history after it; the last one takes up to a minute more


@pytest.mark.slow
@pytest.mark.alone
def test_random_histories_lose_nothing_and_reorder_nothing(tmp_path):
    args = [sys.executable, os.path.join(ROOT, "tests", "check"), "--relay", BINARY, "--keep", tmp_path, "--minutes", str(SECONDS / 60), "--seconds", "20", "--seed", "1"]
    checker = spawn(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output = checker.communicate(timeout=SECONDS + 180)[0].decode()
    finally:
        checker.kill()
        checker.wait()
    assert checker.returncode == 0, output
