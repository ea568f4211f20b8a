"""relay under a service manager: what it says over $NOTIFY_SOCKET, and that a loop that hangs says nothing."""

import contextlib
import os
import re
import signal
import socket
import uuid

import pytest

from process import free_port, stays, wait_until
from rows import archive, archives

pytestmark = pytest.mark.asan

# Twice in this time a pulse is due.
WATCHDOG_USEC = 100_000


class Manager:
    """The other end of a $NOTIFY_SOCKET; at a path, or, without one, of an abstract name."""

    def __init__(self, path=None):
        self.name = str(path) if path else f"@relay-test-{uuid.uuid4()}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind(self.name.replace("@", "\0", 1) if path is None else self.name)
        self.said = []  # each datagram as [(name, value), …]

    def hear(self):
        """Takes what has come; returns how many datagrams that were."""
        n = 0
        while True:
            try:
                text = self.socket.recv(65536).decode()
            except BlockingIOError:
                return n
            assert text.endswith("\n"), text
            self.said.append([tuple(line.split("=", 1)) for line in text.splitlines()])
            n += 1

    def all(self, name):
        self.hear()
        return [value for datagram in self.said for key, value in datagram if key == name]

    def wait_for(self, name, holds=lambda value: True):
        """Waits for NAME=value of which holds(value) is true."""
        wait_until(lambda: any(holds(value) for value in self.all(name)), 20, what=lambda: f"{name} in {self.said}")

    def wait_for_pulses(self, n=3):
        """Waits for n more of them."""
        before = len(self.all("WATCHDOG"))
        wait_until(lambda: len(self.all("WATCHDOG")) >= before + n, 20, what=lambda: f"{n} pulses in {self.said}")

    def variables(self, **extra):
        return {"NOTIFY_SOCKET": self.name, "WATCHDOG_USEC": WATCHDOG_USEC, **extra}


def fill(name):
    """Sends until not even a socket that has sent nothing yet can."""
    sent = 1
    while sent:
        sent = 0
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender, contextlib.suppress(BlockingIOError):
            while True:
                sender.sendto(b"X=1\n", name)
                sent += 1


@pytest.fixture
def manager(tmp_path):
    made = Manager(tmp_path / "notify")
    yield made
    made.socket.close()


def state(relay):
    with open(f"/proc/{relay.pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


def test_it_is_ready_and_pulses_while_it_delivers(db, store, start, manager):
    start(db, store, **manager.variables())
    manager.wait_for("READY", lambda value: value == "1")
    assert manager.said[0][0] == ("READY", "1"), "the first thing that it says"
    manager.wait_for_pulses()
    db.insert(*archives(range(200)))
    db.wait_delivered()
    manager.wait_for("STATUS", lambda value: value == "ready; rows delivered: 200, refused: 0")
    manager.wait_for_pulses()
    assert manager.all("STOPPING") == [] and manager.all("READY") == ["1"]


def test_it_is_ready_and_pulses_while_postgres_is_away(cluster, store, start, manager):
    port = free_port()
    start(cluster.url("ledger", port=port), store, ready=False, **manager.variables())
    manager.wait_for("READY")
    manager.wait_for("STATUS", lambda value: value.startswith("not ready: ") and "postgres: " in value and str(port) in value)
    manager.wait_for_pulses()


@pytest.mark.slow
def test_it_pulses_while_postgres_goes_and_comes_back(own_db, store, start, manager):
    cluster = own_db.cluster
    start(own_db, store, "--sweep-interval", "300ms", **manager.variables())
    manager.wait_for("STATUS", lambda value: value.startswith("ready"))
    cluster.stop(signal.SIGQUIT)
    manager.wait_for("STATUS", lambda value: "not ready: postgres: " in value)
    manager.wait_for_pulses()
    cluster.start()
    own_db.reconnect()
    own_db.insert(archive(1))
    own_db.wait_delivered()
    manager.wait_for("STATUS", lambda value: value.startswith("ready; rows delivered: 1,"))
    assert manager.all("READY") == ["1"]


def test_a_loop_that_hangs_falls_silent(db, store, start, manager):
    relay = start(db, store, **manager.variables())
    manager.wait_for_pulses()
    relay.signal(signal.SIGSTOP)
    wait_until(lambda: state(relay) == "T")
    manager.hear()
    stays(lambda: manager.hear() == 0, 10 * WATCHDOG_USEC / 1e6)
    relay.signal(signal.SIGCONT)
    manager.wait_for_pulses()


def test_a_reload_is_told(db, store, start, manager):
    """Without pulses, so that nothing fills the queue of ten datagrams while this test is not scheduled."""
    relay = start(db, store, **manager.variables(WATCHDOG_USEC=None))
    manager.wait_for("READY")
    relay.signal(signal.SIGHUP)
    wait_until(lambda: len(manager.all("READY")) == 2)
    told = [key for datagram in manager.said for key, value in datagram if key in ("READY", "RELOADING")]
    assert told == ["READY", "RELOADING", "READY"]
    assert re.fullmatch(r"\d+", manager.all("MONOTONIC_USEC")[0])


def test_an_abstract_socket(db, store, start):
    manager = Manager()
    start(db, store, **manager.variables())
    manager.wait_for("READY")
    manager.wait_for_pulses()
    manager.socket.close()


@pytest.mark.parametrize("variables", [{"WATCHDOG_USEC": None}, {"WATCHDOG_PID": os.getpid()}, {"WATCHDOG_USEC": "soon"}],
                         ids=["none", "another", "nonsense"])
def test_without_a_watchdog_it_does_not_pulse_and_says_that_it_stops(db, store, start, manager, variables):
    relay = start(db, store, **manager.variables(**variables))
    manager.wait_for("READY")
    relay.stop()
    assert manager.all("WATCHDOG") == []
    assert manager.all("STOPPING") == ["1"]
    assert int(manager.all("EXTEND_TIMEOUT_USEC")[0]) > 8_000_000, "--shutdown-timeout is 8s"


def test_nobody_reads_and_it_delivers_all_the_same(db, store, start, manager):
    """The queue is full before it begins: READY comes when there is room."""
    fill(manager.name)
    relay = start(db, store, **manager.variables())
    db.insert(archive(1))
    db.wait_delivered()
    wait_until(lambda: relay.log(msg="cannot tell the service manager"), what=relay.text)
    manager.wait_for("READY")
    manager.wait_for_pulses()


@pytest.mark.parametrize("name, reason", [
    ("vsock:2:1234", "NOTIFY_SOCKET"), ("/" + 200 * "x", "NOTIFY_SOCKET"), ("/nonexistent/notify", "No such file")])
def test_a_manager_that_cannot_be_told_is_no_reason_not_to_deliver(db, store, start, name, reason):
    relay = start(db, store, NOTIFY_SOCKET=name, WATCHDOG_USEC=WATCHDOG_USEC)
    db.insert(archive(1))
    db.wait_delivered()
    wait_until(lambda: [line for line in relay.log(msg="cannot tell the service manager") if reason in line["reason"]], what=relay.text)


def test_a_drain_says_nothing(db, store, manager):
    import relay
    done = relay.run("drain", env=relay.environment(db, store, **manager.variables()))
    assert done.returncode == 0 and manager.hear() == 0
