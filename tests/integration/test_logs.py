"""What the relay says: one line per thing that matters, never a secret, never a flood."""

import json
import re

import pytest

from process import stays, wait_until
from proxy import Reply
from rows import archive, archives, unknown

pytestmark = pytest.mark.asan

LEVELS = {"debug", "info", "warning", "error"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.mark.parametrize("format", ["logfmt", "json"])
def test_every_line_is_valid(db, store, proxy, start, format):
    relay = start(db, store, "--log-format", format, "--log-level", "debug", "--sweep-interval", "200ms", "--min-backoff", "100ms", url=proxy.url)
    db.insert(*archives(range(30)), unknown('"quoted" \\ and =\tü'), "null")
    wait_until(lambda: db.value("SELECT count(*) FROM fga_outbox WHERE processed_at IS NOT NULL OR attempts > 0") == 32)
    proxy.hook = lambda e: Reply(503, '<html lang="en">\nsorry = "\\"</html>', {"Content-Type": "text/html"})
    relay.wait_not_ready()
    relay.stop()
    lines = relay.log()
    assert len(lines) > 5 and relay.text().endswith("\n")
    for line in lines:
        assert TIME.fullmatch(line["time"]) and line["level"] in LEVELS and line["msg"]
    assert {"info", "warning"} <= {line["level"] for line in lines}


def test_levels(db, store, start):
    relay = start(db, store, "--log-level", "error")
    db.insert(archive(1), unknown(1))
    wait_until(lambda: db.attempts() >= 1)
    relay.stop()
    assert all(line["level"] == "error" for line in relay.log())


def test_no_payload_above_debug(db, store, start):
    relay = start(db, store, "--log-level", "info")
    db.insert(*archives(range(20)))
    db.wait_delivered()
    relay.stop()
    assert "capture_job:j7" not in relay.text()


def test_no_secret_at_debug(cluster, db, make_fga, make_proxy, start):
    """The password, the token, and a payload's text: looked for in all that can be read from outside, while all kinds of things go wrong."""
    token, password = "preshared-5up3r-s3cret", "pg-p4ssw0rd-s3cret"
    server = make_fga(keys=[token])
    store = server.create_store()
    proxy = make_proxy(store)
    url = cluster.url(db.name, password=password)
    relay = start(url, store, "--log-level", "debug", "--sweep-interval", "200ms", "--min-backoff", "50ms", url=proxy.url, FGA_API_TOKEN=token)
    db.insert(archive(1), unknown(1))
    wait_until(lambda: db.attempts() >= 1)
    echo = Reply(503, json.dumps({"headers": f"Authorization: Bearer {token}", "code": "x", "message": f"Bearer {token}"}))
    proxy.hook = lambda e: echo
    db.insert(archive(2))
    relay.wait_not_ready()
    proxy.hook = None
    db.wait_delivered(*[id for id, in db.execute("SELECT id FROM fga_outbox WHERE attempts = 0").fetchall()], timeout=30)
    lost = relay.metric("relay_reconnections_total")
    db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
    wait_until(lambda: relay.metric("relay_reconnections_total") > lost)
    relay.wait_ready()
    pages = "".join(relay.request("GET", page)[2] for page in ("/readyz", "/metrics"))
    errors = str(db.execute("SELECT last_error FROM fga_outbox").fetchall())
    with open(f"/proc/{relay.pid}/cmdline") as f:
        command = f.read()
    relay.stop()
    for secret in (token, password):
        assert secret not in relay.text() + pages + errors + command


def test_no_flood_while_openfga_is_away(db, store, proxy, start):
    relay = start(db, store, "--sweep-interval", "100ms", "--min-backoff", "20ms", "--max-backoff", "50ms", "--settle-timeout", "100ms", url=proxy.url)
    proxy.hook = lambda e: Reply(503, "", {})
    db.insert(*archives(range(200)))
    relay.wait_not_ready()
    stays(lambda: len(relay.text().splitlines()) < 60, 4, every=0.1)


def test_no_flood_while_postgres_is_away(store, cluster, start):
    relay = start(cluster.url("ledger", port=1), store, "--sweep-interval", "100ms", "--min-backoff", "20ms", ready=False)
    relay.wait_not_ready()
    stays(lambda: len(relay.text().splitlines()) < 40, 3, every=0.1)
    assert relay.cpu_seconds() < 1


def test_it_says_that_it_started_is_ready_and_ended(db, store, start):
    relay = start(db, store)
    relay.stop()
    said = [line["msg"] for line in relay.log(level="info")]
    assert len(said) >= 3
    assert "0.1.0" in relay.text()
