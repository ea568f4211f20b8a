"""Processes that cannot outlive the tests, ports that nobody else takes, and waiting for a condition."""

import ctypes
import itertools
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
    """Polls until condition() is true and returns its value; fails the test after `timeout` seconds, when one more look was in vain."""
    deadline = time.monotonic() + timeout
    while True:
        last = time.monotonic() >= deadline
        value = condition()
        if value:
            return value
        if last:
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
    """Polls for `seconds`, and once after them, and fails as soon as condition() is false: for what must not happen."""
    deadline = time.monotonic() + seconds
    while True:
        last = time.monotonic() >= deadline
        assert condition()
        if last:
            return
        time.sleep(every)


# Below the range from which the kernel takes ports for outgoing connections (32768 on), a block a worker, gone round from a random place.
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
_block = 15000 + _worker % 16 * 1000
_first = random.randrange(1000)
_ports = itertools.cycle([*range(_block + _first, _block + 1000), *range(_block, _block + _first)])


def free_port(host="127.0.0.1"):
    """A port nobody listens on; no two calls of a test run return the same one soon after each other."""
    for port in _ports:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind((host, port))
            except OSError:
                continue
            return port
