"""docker/up on a Docker engine: the images, the Compose file, the row's way, and docker/down."""

import json
import os
import re
import shutil
import urllib.request

import pytest

import containers
from process import wait_until
from relay import ROOT

pytestmark = [
    pytest.mark.docker,
    pytest.mark.xdist_group("compose"),  # one after the other: they share what docker/up started
    pytest.mark.skipif(shutil.which("docker") is None, reason="no Docker on this machine"),
]

PROJECT = f"relaytest{os.getpid()}"


def images(project):
    return {"RELAY_IMAGE": f"{project}-relay", "RELAY_SETUP_IMAGE": f"{project}-setup"}


MAX_ADDED_BYTES = 40 << 20  # what relay's image may add to Debian's


def run(*command, check=True, **extra):
    return containers.run(*command, check=check, **{**images(PROJECT), "COMPOSE_PROJECT_NAME": PROJECT, "RELAY_SWEEP_INTERVAL": "1h", **extra})


def up(**extra):
    return run(f"{ROOT}/docker/up", **extra)


def ours(kind):
    """Ids of containers (ps -aq), volumes or networks (ls -q) of the project."""
    listing = {"container": ["ps", "-aq"], "volume": ["volume", "ls", "-q"], "network": ["network", "ls", "-q"]}[kind]
    return run("docker", *listing, "--filter", f"label=com.docker.compose.project={PROJECT}").stdout.split()


def inspect(name):
    return json.loads(run("docker", "inspect", name).stdout)[0]


def container(service):
    """The service's container; not one of a `compose run`."""
    id, = run("docker", "ps", "-aq", "--filter", f"label=com.docker.compose.project={PROJECT}",
              "--filter", f"label=com.docker.compose.service={service}", "--filter", "label=com.docker.compose.oneoff=False").stdout.split()
    return id


def status(service):
    """proc(5)'s status of the service's first process, as a dictionary."""
    with open(f"/proc/{inspect(container(service))['State']['Pid']}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f)


def sql(statement):
    return run("docker", "exec", container("postgres"), "psql", "-qXAt", "-U", "postgres", "-d", "ledger", "-c", statement).stdout.strip()


def took(output):
    """Milliseconds from each row's commit to its delivery."""
    return [int(ms) for ms in re.findall(r"delivered and acknowledged (\d+) ms after its commit", output)]


def down(project):
    """Takes a project down with all that it has."""
    run(f"{ROOT}/docker/down", "-v", COMPOSE_PROJECT_NAME=project)
    run("docker", "rmi", *images(project).values(), check=False)


def dead_runs():
    """The projects of runs that were killed: their process is gone, their containers or images are not."""
    names = run("docker", "ps", "-a", "--format", '{{.Label "com.docker.compose.project"}}').stdout
    names += run("docker", "images", "--format", "{{.Repository}}").stdout
    return containers.dead(names.splitlines(), "relaytest")


@pytest.fixture(scope="module")
def first():
    """What docker/up printed."""
    for project in dead_runs():
        down(project)
    try:
        yield up().stdout
    finally:
        down(PROJECT)
        assert [ours(kind) for kind in ("container", "volume", "network")] == [[], [], []]


def test_a_row_on_its_way(first, capsys):
    lines = first.splitlines()
    asked = [line for line in lines if "may user:anne read archive:" in line]
    assert len(asked) == 2 and '"allowed":false' in asked[0] and '"allowed":true' in asked[1], first
    assert lines[-1] == "up: allowed: true"
    # No sweep would have come for an hour: the notification did it.
    assert len(took(first)) == 2 and max(took(first)) < 2000, first
    assert sql("SELECT count(*), count(processed_at), sum(attempts) FROM fga_outbox") == "2|2|0"
    with capsys.disabled():
        print(f"\ndelivered after {took(first)} ms")


def test_the_probe_through_the_published_port(first):
    url, = re.findall(r"http://127\.0\.0\.1:\d+/readyz", first)
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.status == 200 and json.loads(answer.read())

    def metrics():
        with urllib.request.urlopen(url.replace("readyz", "metrics"), timeout=10) as answer:
            return answer.read().decode()

    wait_until(lambda: "\nrelay_rows_delivered_total 2\n" in metrics(), what=metrics)
    assert inspect(container("relay"))["State"]["Health"]["Status"] == "healthy"


def test_every_port_is_the_machines_own(first):
    for service in ("postgres", "openfga", "relay"):
        for bindings in inspect(container(service))["NetworkSettings"]["Ports"].values():
            assert all(binding["HostIp"] == "127.0.0.1" for binding in bindings or [])


def test_relay_runs_with_nothing_it_does_not_need(first):
    of = status("relay")
    assert of["Name"] == "relay"  # the process itself, no shell before it
    assert set(of["Uid"].split()) == {"10001"} and set(of["Gid"].split()) == {"10001"}
    assert all(int(of[f"Cap{kind}"], 16) == 0 for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb"))
    assert of["NoNewPrivs"].strip() == "1"
    relay = container("relay")
    written = run("docker", "exec", "--user", "root", relay, "touch", "/etc/x", check=False)
    assert written.returncode != 0 and "Read-only file system" in written.stderr
    assert inspect(relay)["RestartCount"] == 0


def test_relays_role_is_the_least(first):
    assert sql("SELECT usename FROM pg_stat_activity WHERE application_name LIKE 'relay%' GROUP BY 1") == "relay"
    granted = "SELECT string_agg(privilege_type, ',' ORDER BY 1) FROM information_schema.table_privileges WHERE grantee = 'relay' AND table_name = 'fga_outbox'"
    assert sql(granted) == "SELECT"


def test_the_image_is_small(first, capsys):
    size = inspect(images(PROJECT)["RELAY_IMAGE"])["Size"]
    base = inspect(containers.BASE)["Size"]
    with capsys.disabled():
        print(f"\nrelay's image: {size / 1e6:.1f} MB, {(size - base) / 1e6:.1f} MB on top of Debian's")
    assert size - base < MAX_ADDED_BYTES
    assert inspect(images(PROJECT)["RELAY_IMAGE"])["Config"]["User"] == "10001:10001"


def test_the_image_holds_no_compiler_and_none_of_the_sources(first):
    found = run("docker", "run", "--rm", "--entrypoint", "sh", images(PROJECT)["RELAY_IMAGE"], "-c",
                "for p in gcc cc cmake curl psql git; do command -v $p; done; find / -xdev -name '*.c' -o -xdev -name 'relay*.h'; true").stdout
    assert found == ""


def test_stop_is_clean(first):
    relay = container("relay")
    run("docker", "stop", relay)
    assert inspect(relay)["State"]["ExitCode"] == 0
    run("docker", "start", relay)


def test_up_again_while_it_is_up(first):
    again = up().stdout
    assert again.splitlines()[-1] == "up: allowed: true"
    assert sql("SELECT count(*), count(processed_at), sum(attempts) FROM fga_outbox") == "4|4|0"


def test_up_fails_with_the_reason(first):
    done = run(f"{ROOT}/docker/up", check=False, RELAY_SWEEP_INTERVAL="nonsense")
    assert done.returncode != 0 and "allowed: true" not in done.stdout
    assert "FAILED" in done.stderr and "nonsense" in done.stderr, done.stderr


def test_down_keeps_the_data_unless_told(first):
    run(f"{ROOT}/docker/down")
    assert ours("container") == [] and len(ours("volume")) == 1
    assert up().stdout.splitlines()[-1] == "up: allowed: true"
    assert int(sql("SELECT count(*) FROM fga_outbox")) >= 6
