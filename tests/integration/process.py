"""Processes that cannot outlive the tests, ports that nobody else takes, and waiting for a condition."""

import ctypes
import os
import random
import signal
import socket
import subprocess
import time

PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(signum=signal.SIGKILL):
    """Runs in the child: the kernel sends it `signum` when the process that started it is gone (prctl(2))."""
    libc.prctl(PR_SET_PDEATHSIG, signum)


def spawn(args, *, death=signal.SIGKILL, **keywords):
    """Starts a process in a session of its own; it dies with this one."""
    return subprocess.Popen(
        args, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=lambda: die_with_parent(death), **keywords
    )


def wait_until(condition, timeout=10.0, *, every=0.01, what=None):
    """Polls until condition() is true and returns its value; fails the test after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout} s: {what() if callable(what) else what or condition}")
        time.sleep(every)


def within(seconds, attempt):
    """attempt(n) must be done within `seconds` at least once in three times: other tests share the machine, so one slow time says
    nothing, while three say that it takes longer."""
    took = []
    for n in range(3):
        began = time.monotonic()
        attempt(n)
        took.append(time.monotonic() - began)
        if took[-1] < seconds:
            return
    raise AssertionError(f"took {took} s, not {seconds}")


def stays(condition, seconds, *, every=0.02):
    """Polls for `seconds` and fails as soon as condition() is false: for what must not happen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition()
        time.sleep(every)


# Below the range from which the kernel takes ports for outgoing connections (32768 on), a block a worker.
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
_ports = iter(range(0))


def free_port(host="127.0.0.1"):
    """A port nobody listens on; no two calls of a test run return the same one soon after each other."""
    global _ports
    while True:
        port = next(_ports, None)
        if port is None:
            start = 15000 + _worker % 16 * 1000 + random.randrange(900)
            _ports = iter(range(start, 15000 + (_worker % 16 + 1) * 1000))
            continue
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind((host, port))
            except OSError:
                continue
            return port
