"""What stands between a relay and OpenFGA may answer anything. A stub answers in a real OpenFGA's place, for a while: no proxy gives all of
these answers when a test wants it."""

import gzip
import time
from email.utils import formatdate

import pytest

from process import stays, wait_until
from proxy import Raw, Reply
from pulse import Pulse
from relay import PATIENCE
from rows import all_tuples, archives

QUICK = ("--sweep-interval", "300ms", "--min-backoff", "100ms", "--request-timeout", "3s", "--settle-timeout", "300ms")
HTML = {"Content-Type": "text/html"}
KEY = "prx-0123456789abcdef"
MIB = 2**20


def head(status, *headers):
    return "\r\n".join((f"HTTP/1.1 {status} X", *headers, "", "")).encode()


def sized(status, body):
    return head(status, f"Content-Length: {len(body)}") + body


def long(status, start):
    """Ten megabytes, which are more than anybody wants to see."""
    return [head(status, f"Content-Length: {10 * MIB}"), start, *[b"x" * 65536] * (10 * MIB // 65536)]


def endless(start, part, pause=0.0):
    """A function of the parts: each answer takes its own."""
    def parts():
        yield start
        while True:
            time.sleep(pause)
            yield part
    return parts


# What is answered in OpenFGA's place, and what the log must show of it.
ANSWERS = {
    "a long page": (lambda: long(502, b"<html>Bad Gateway"), "<html>Bad Gatewayxxx"),
    "a captive page": (lambda: [sized(200, b"<html>Please log in</html>")], "<html>Please log in</html>"),
    "a long captive page": (lambda: long(200, b"<html>Please log in"), "<html>Please log in"),
    "invalid UTF-8": (lambda: [sized(502, b"B\xe4d \xff\xfe Gateway \xc3")], "Gateway"),
    "a NUL": (lambda: [sized(502, b"Bad\0Gateway")], "Gateway"),
    "a NUL in what seems right": (lambda: [sized(200, b"{}\0")], "200"),
    "JSON and more": (lambda: [sized(200, b'{}{"x":1}')], "200"),
    "control characters": (lambda: [sized(503, b"\x1b[31mred\x1b[0m\r\nlevel=error msg=forged")], "red"),
    "what was sent": (lambda: [sized(502, f"you said {KEY}".encode())], "you said"),
    "an endless body": (endless(head(502, "Content-Type: text/html") + b"<html>no end", b"y" * 65536), "<html>no end"),
    "an endless chunked body": (endless(head(502, "Transfer-Encoding: chunked"), b"4\r\nabcd\r\n" * 5000), "abcdabcd"),
    "an endless slow body": (endless(head(200) + b"{", b" ", 0.1), "no answer"),
    "endless headers": (endless(b"HTTP/1.1 200 OK\r\n", b"".join(b"X-%d: %s\r\n" % (n, b"z" * 1000) for n in range(60))), "no answer"),
    "one endless header": (endless(b"HTTP/1.1 200 OK\r\nX: ", b"z" * 65536), "no answer"),
    "endless interim answers": (endless(b"", b"HTTP/1.1 100 Continue\r\nX-Y: abcdefghij\r\n\r\n" * 1000), "no answer"),
    "less than promised": (lambda: [head(200, "Content-Length: 100") + b"{}"], "no answer"),
    "no HTTP": (lambda: [b"SSH-2.0-OpenSSH_9.2\r\n"], "no answer"),
    "HTTP/0.9": (lambda: [b"{}"], "no answer"),
    "two lengths": (lambda: [head(200, "Content-Length: 2", "Content-Length: 3") + b"{}x"], "OpenFGA"),
    "unasked gzip": (lambda: [sized(200, gzip.compress(b"{}"))], "200"),
    "status 999": (lambda: [sized(999, b"what")], "999"),
    "a redirect": (lambda: [head(307, "Location: http://127.0.0.1:9/write?token=t", "Content-Length: 0")], "http://127.0.0.1:9/write"),
}


@pytest.mark.asan
@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_is_not_openfgas(db, store, make_proxy, start, answer):
    """To a Write, and then to the questions for store and model: nothing is charged, the log shows the start of it, and memory does not grow."""
    make, shown = ANSWERS[answer]
    proxy = make_proxy(store)
    patience = () if shown == "no answer" else ("--request-timeout", "30s")
    relay = start(db, store, *QUICK, *patience, url=proxy.url, FGA_API_TOKEN=KEY)
    db.wait_delivered(*db.insert(*archives(range(10))))
    before = relay.memory()["VmRSS"]
    pulse = Pulse(relay)
    told = []

    def hook(exchange):
        if not exchange.is_write and not told:
            return None
        told.append(exchange)
        raise Raw(make())

    proxy.hook = hook
    ids = db.insert(*archives(range(10, 20)))
    wait_until(lambda: any(not e.is_write for e in told), 20)
    relay.wait_not_ready("openfga", shown)
    assert not db.delivered(*ids)
    grown = relay.memory()["VmHWM"] - before
    proxy.hook = None
    db.wait_delivered(timeout=20)
    relay.wait_ready()
    pulse.stop()
    assert store.tuples() == all_tuples(range(20))
    assert db.attempts() == 0
    assert grown < 8 * MIB * PATIENCE
    assert any(shown in line["reason"] for line in relay.log(level="warning", msg="openfga"))
    assert KEY not in relay.text() and "token=t" not in relay.text()
    assert all(c >= " " for line in relay.text().splitlines() for c in line)


@pytest.mark.parametrize("part", ["line", "all"])
def test_an_answer_in_single_bytes_is_an_answer(db, store, proxy, start, part):
    def hook(exchange):
        if exchange.is_write and not exchange.is_probe:
            store.post("write", {"writes": {"tuple_keys": [dict(zip(("user", "relation", "object"), t)) for t in exchange.tuples]}})
            raise Raw(slowly(sized(200, b"{}") if part == "all" else b"HTTP/1.1 200 OK\r\n"))

    def slowly(text):
        for i in range(len(text)):
            time.sleep(0.002)
            yield text[i:i + 1]
        if part == "line":
            yield b"Content-Length: 2\r\n\r\n{}"

    proxy.hook = hook
    start(db, store, *QUICK, "--request-timeout", "30s", "--lanes", "1", url=proxy.url)
    db.wait_delivered(*db.insert(*archives(range(5))))
    assert len(proxy.writes) == 1
    assert store.tuples() == all_tuples(range(5))


# Whether the wait is believed: for three seconds, not at all, or for longer than a test lasts.
WAITS = {
    "seconds": ("3", 3),
    "blanks around": ("  3  ", 3),
    "date": (None, 3),
    "past date": (formatdate(time.time() - 3600, usegmt=True), 0),
    "negative": ("-5", 0),
    "fraction": ("1.5", 0),
    "junk": ("soon \xe4\xff", 0),
    "empty": ("", 0),
    "absurd": ("99999999999999999999", 0),
    "a year and more": ("40000000", 0),
    "an hour": ("3600", None),
}


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("wait", WAITS)
def test_retry_after(db, store, proxy, start, wait, status):
    """What makes sense is waited for, at most five minutes (tested in unit/test_verdict.c); all else is as if it were not there."""
    value, seconds = WAITS[wait]
    not_before = int(time.time()) + 4
    first = []

    def hook(exchange):
        if exchange.is_write and not exchange.is_probe and not first:
            first.append(exchange.at)
            return Reply(status, "<html>busy</html>", {**HTML, "Retry-After": formatdate(not_before, usegmt=True) if value is None else value})
        return None

    relay = start(db, store, *QUICK, url=proxy.url)
    proxy.hook = hook
    ids = db.insert(*archives(range(3)))
    wait_until(lambda: first)
    if seconds is None:
        relay.wait_not_ready("openfga")
        stays(lambda: not db.delivered(*ids), 4, every=0.1)
        assert relay.reasons()
        relay.stop()
        assert not [line for line in relay.log() if "did not end in time" in line["msg"]]
    else:
        db.wait_delivered(*ids, timeout=20)
        second = proxy.writes[1].at
        if value is None:
            assert second >= time.monotonic() - time.time() + not_before - 0.1
        else:
            assert second - first[0] >= seconds - 0.1
        assert store.tuples() == all_tuples(range(3))
    assert db.attempts() == 0
