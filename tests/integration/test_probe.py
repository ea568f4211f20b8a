"""What the probe answers to machines, and what it does with everything else."""

import json
import re
import socket

import pytest

from process import wait_until
from proxy import Reply, refusal
from relay import environment, raw, run
from rows import archive, archives, unknown

pytestmark = pytest.mark.asan


def test_each_path(db, store, start):
    relay = start(db, store)
    status, headers, text = relay.request("GET", "/livez")
    assert status == 200
    for page in ("/readyz", "/healthz"):
        status, headers, text = relay.request("GET", page)
        assert status == 200 and headers["content-type"].startswith("application/json")
        answer = json.loads(text)
        assert answer["ready"] is True and answer["reasons"] == []
    status, headers, text = relay.request("GET", "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")


def test_head_is_get_without_its_body(db, store, start):
    relay = start(db, store)
    for page in ("/livez", "/readyz", "/healthz", "/metrics"):
        status, _, text = relay.request("HEAD", page)
        assert (status, text) == (200, "")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "BREW"])
def test_no_other_method(db, store, start, method):
    relay = start(db, store)
    answer = raw(relay.port, f"{method} /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert not answer.startswith(b"HTTP/1.1 2"), answer
    relay.wait_ready()


def test_no_other_page(db, store, start):
    relay = start(db, store)
    for page in ("/readyz/", "/metrics/x", "/../etc/passwd", "/%00", "/livezz"):
        assert relay.request("GET", page)[0] == 404
    assert relay.request("GET", "/readyz?verbose=1")[0] == 200


def test_limits(db, store, start):
    relay = start(db, store)
    line = b"GET /" + b"x" * 1_000_000 + b" HTTP/1.1\r\n\r\n"
    assert not raw(relay.port, line).startswith(b"HTTP/1.1 2")
    headers = b"GET /livez HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 1000) for n in range(1000)) + b"\r\n"
    assert not raw(relay.port, headers).startswith(b"HTTP/1.1 2")
    body = b"GET /livez HTTP/1.1\r\nContent-Length: 100000000\r\n\r\n" + b"z" * 200_000
    assert not raw(relay.port, body).startswith(b"HTTP/1.1 2")
    for nonsense in (b"\x00" * 100, b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00"):
        raw(relay.port, nonsense, timeout=0.3)
    relay.wait_ready()
    assert relay.memory()["VmHWM"] < 300 * 2**20


def test_many_silent_connections_do_not_stop_it(db, store, start):
    relay = start(db, store)
    silent = [socket.create_connection(("127.0.0.1", relay.port)) for _ in range(200)]
    try:
        assert relay.ready()
        db.insert(archive(1))
        db.wait_delivered()
    finally:
        for s in silent:
            s.close()


def test_ipv6(db, store, start):
    relay = start(db, store, host="::1")
    assert relay.request("GET", "/livez")[0] == 200
    port = relay.port
    assert run("healthcheck", "--http-listen", f"[::1]:{port}", env=environment()).returncode == 0


def test_an_address_that_is_taken(db, store, start):
    relay = start(db, store)
    done = run("run", "--http-listen", f"127.0.0.1:{relay.port}", env=environment(db, store))
    assert done.returncode == 2
    assert str(relay.port) in done.stderr


def test_healthcheck(db, store, start, proxy):
    relay = start(db, store, "--sweep-interval", "200ms", url=proxy.url)
    address = f"127.0.0.1:{relay.port}"
    assert run("healthcheck", "--http-listen", address, env=environment()).returncode == 0
    assert run("healthcheck", env=environment(RELAY_HTTP_LISTEN=address)).returncode == 0
    assert run("healthcheck", env=environment(RELAY_HTTP_LISTEN=f"0.0.0.0:{relay.port}")).returncode == 0
    proxy.hook = lambda e: refusal(404, "store_id_not_found", "Store ID not found")
    relay.wait_not_ready("store")
    done = run("healthcheck", "--http-listen", address, env=environment())
    assert done.returncode == 1 and "store" in (done.stdout + done.stderr).lower()
    relay.stop()
    assert run("healthcheck", "--http-listen", address, env=environment()).returncode == 1


SAMPLE = re.compile(r'^[a-z_]+(\{[a-z_]+="[^"\\]*"\})? (NaN|[+-]?Inf|[0-9.eE+-]+)$')


def test_metrics_are_prometheus_text(db, store, start):
    relay = start(db, store)
    db.insert(*archives(range(10)), unknown(1))
    wait_until(lambda: db.pending() == 1 and db.attempts() >= 1)
    wait_until(lambda: relay.metric("relay_rows_delivered_total") >= 10)
    text = relay.request("GET", "/metrics")[2]
    families, typed = [], {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            families.append(line.split()[2])
        elif line.startswith("# TYPE "):
            typed[line.split()[2]] = line.split()[3]
        else:
            assert SAMPLE.match(line), line
            name = re.match(r"[a-z_]+", line).group()
            family = families[-1]
            assert name == family or (typed[family] == "histogram" and name in (f"{family}_bucket", f"{family}_sum", f"{family}_count")), line
    assert len(families) == len(set(families)) == len(typed)
    metrics = relay.metrics()
    for family in ("relay_request_duration_seconds", "relay_row_age_seconds"):
        buckets = [v for k, v in metrics.items() if k.startswith(family + "_bucket")]
        assert buckets == sorted(buckets) and buckets[-1] == metrics[family + "_count"] > 0
    assert metrics["relay_row_age_seconds_count"] == 10 == metrics["relay_rows_delivered_total"]


def test_pending_and_the_oldest_age_are_told(db, store, start, proxy):
    relay = start(db, store, "--sweep-interval", "200ms", "--min-backoff", "5s", url=proxy.url)
    proxy.hook = lambda e: Reply(503, "", {}) if e.is_write else None
    db.execute("INSERT INTO fga_outbox (payload, created_at) VALUES (%s, now() - interval '1 hour')", json.dumps(archive(1)))
    db.insert(archive(2))
    wait_until(lambda: relay.metric("relay_rows_pending") == 2)
    assert 3600 <= relay.metric("relay_oldest_pending_age_seconds") < 3700
    proxy.hook = None
    db.wait_delivered(timeout=20)
    wait_until(lambda: relay.metric("relay_rows_pending") == 0)
    assert relay.metric("relay_oldest_pending_age_seconds") == 0


def test_readyz_says_what_is_missing(empty_db, store, start):
    relay = start(empty_db, store, "--sweep-interval", "200ms", ready=False)
    relay.wait_not_ready("fga_outbox")
    status, _, text = relay.request("GET", "/healthz")
    assert status == 503 and json.loads(text)["ready"] is False
    assert relay.request("HEAD", "/readyz")[0] == 503
    assert relay.request("GET", "/livez")[0] == 200
    assert relay.metric("relay_ready") == 0
    empty_db.create_outbox()
    relay.wait_ready()
    assert relay.metric("relay_ready") == 1
