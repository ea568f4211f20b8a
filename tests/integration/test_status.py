"""relay status: what it counts, within which bounds, and what it says when it cannot know."""

import json
import os
import pty
import signal
import subprocess

import pytest

from process import free_port, spawn, wait_until
from proxy import refusal
from relay import BINARY, environment, run
from rows import archive, deletes, key, unknown, viewer

pytestmark = pytest.mark.asan

NOBODY = "127.0.0.1:1"  # where no relay listens
PATIENT = {"RELAY_CONNECT_TIMEOUT": "20s"}  # a machine that has much to do is slow, and not what is looked for
NONE = {"id": None, "age_seconds": None, "complete": True}


def count(rows, at_least=False):
    return {"rows": rows, "at_least": at_least}


def status(database, *flags, http_listen=NOBODY, expect=0, **extra):
    done = run("status", "--http-listen", http_listen, *flags, env=environment(database, **{**PATIENT, **extra}))
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    return done.stdout if expect == 0 else done.stderr


def figures(database, *flags, **keywords):
    lines = status(database, "--json", *flags, **keywords).splitlines()
    assert len(lines) == 1
    return json.loads(lines[0])


def test_an_empty_outbox(bare_db):
    found = figures(bare_db)
    for name in ("pending", "delivered_minute", "delivered_hour", "delivered_day", "refused"):
        assert found[name] == count(0)
    assert found["oldest_pending"] == found["oldest_pending_delete"] == NONE
    assert found["refused_reasons"] == [] and found["sessions"] == []
    assert found["relay"] == "no answer" and NOBODY in found["relay_problem"]
    assert found["relay_parked"] is found["relay_held"] is found["relay_in_flight"] is None


def test_what_a_relay_leaves(db, store, start):
    """Three rows are refused for two reasons, a delete is held behind one of them, and one is delivered."""
    relay = start(db, store, "--sweep-interval", "1h", "--min-backoff", "1h", "--max-backoff", "1h")
    t = viewer("u", "a")
    first, second = db.insert(unknown(1), unknown(2))
    wait_until(lambda: db.attempts() == 2)
    third, = db.insert({"writes": [key(*t, {"name": "unheard_of", "context": {}})]})
    wait_until(lambda: db.attempts() == 3)
    held, good = db.insert(deletes(t), archive(1))
    db.wait_delivered(good)
    wait_until(lambda: relay.metric("relay_rows_parked") == 4)
    db.execute("UPDATE fga_outbox SET created_at = created_at - interval '1 hour' WHERE id = %s", first)

    found = figures(db, http_listen=f"127.0.0.1:{relay.port}")
    assert found["table"] == '"fga_outbox"'
    assert (found["pending"], found["refused"]) == (count(4), count(3))
    assert found["oldest_pending"]["id"] == first and found["oldest_pending_delete"]["id"] == held
    assert found["oldest_pending"]["age_seconds"] >= 3600 > found["oldest_pending_delete"]["age_seconds"] >= 0
    assert found["delivered_hour"] == found["delivered_day"] == count(1)
    assert found["refused_reasons"][0] == {"reason": "type 'spaceship' not found", "rows": 2, "ids": [first, second]}
    assert found["refused_reasons"][1]["ids"] == [third]
    assert found["listening"] == count(1)
    assert {"application_name": "relay listen", "user": "postgres", "sessions": 1, "listens": True} in found["sessions"]
    assert sum(s["sessions"] for s in found["sessions"] if s["application_name"].startswith("relay lane")) >= 1
    assert (found["relay"], found["relay_problem"]) == ("ready", "")
    assert (found["relay_parked"], found["relay_held"], found["relay_in_flight"]) == (4, 1, 0)

    text = status(db, http_listen=f"127.0.0.1:{relay.port}")
    lines = text.splitlines()
    assert any(line.split() == ["pending", "4"] for line in lines)
    assert any(f"id {first}, {second}" in line and "type 'spaceship' not found" in line for line in lines)
    assert any(line.startswith("oldest pending delete") and f"id {held}" in line for line in lines)


def test_a_relay_that_is_not_ready(db, store, start, proxy):
    relay = start(db, store, "--sweep-interval", "200ms", url=proxy.url)
    proxy.hook = lambda e: refusal(404, "store_id_not_found", "Store ID not found")
    relay.wait_not_ready("store")
    found = figures(db, http_listen=f"127.0.0.1:{relay.port}")
    assert found["relay"] == "not ready" and "store" in found["relay_problem"].lower()
    assert found["relay_parked"] == found["relay_held"] == 0


def test_delivered_counts_by_when_it_was_marked(bare_db):
    """The row of the last minute lies ahead, so that a slow machine makes no difference."""
    for age in ("-10 minutes", "30 minutes", "3 hours", "4 hours", "3 days"):
        bare_db.execute(f"INSERT INTO fga_outbox (payload, created_at, processed_at) VALUES ('{{}}', now() - interval '9 days', now() - interval '{age}')")
    found = figures(bare_db)
    assert [found[f"delivered_{name}"] for name in ("minute", "hour", "day")] == [count(1), count(2), count(4)]
    assert found["pending"] == count(0)


def scans(database):
    """(sequential scans, rows that came by an index)"""
    return database.execute("SELECT seq_scan, idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'fga_outbox'").fetchone()


def test_bounds_and_no_sequential_scan(bare_db):
    """More rows than are counted: processed a minute ago and before that days ago, pending, and refused."""
    bare_db.execute("INSERT INTO fga_outbox (payload, processed_at) SELECT '{}', now() - interval '9 days' FROM generate_series(1, 20000)")
    bare_db.execute("INSERT INTO fga_outbox (payload, processed_at) SELECT '{}', now() - interval '30 minutes' FROM generate_series(1, 20005)")
    bare_db.execute("VACUUM ANALYZE fga_outbox")
    assert bare_db.execute("SELECT pg_stat_reset()")
    before = scans(bare_db)[0]
    found = figures(bare_db)
    assert [found[f"delivered_{name}"] for name in ("minute", "hour", "day")] == [count(0), count(20000, True), count(20000, True)]
    wait_until(lambda: not bare_db.backends())  # a session has counted all when it has ended
    wait_until(lambda: scans(bare_db)[1] >= 20000)
    assert scans(bare_db)[0] == before and scans(bare_db)[1] <= 21000 + 10

    bare_db.execute("DELETE FROM fga_outbox WHERE processed_at > now() - interval '1 day' AND id > (SELECT max(id) - 10 FROM fga_outbox)")
    found = figures(bare_db)
    assert found["delivered_hour"] == count(19995), "those below the bound are old"
    bare_db.execute("INSERT INTO fga_outbox (payload) SELECT '{}' FROM generate_series(1, 10001)")
    bare_db.insert(deletes(viewer("u", "a")))
    assert figures(bare_db)["oldest_pending_delete"] == {"id": None, "age_seconds": None, "complete": False}
    bare_db.execute("UPDATE fga_outbox SET attempts = 1 WHERE processed_at IS NULL")
    found = figures(bare_db)
    assert (found["pending"], found["refused"]) == (count(10002), count(10000, True))
    assert found["refused_reasons"][0]["reason"] == "no reason is given"
    bare_db.execute("INSERT INTO fga_outbox (payload) SELECT '{}' FROM generate_series(1, 90000)")
    assert figures(bare_db)["pending"] == count(100000, True)
    assert "at least 100000" in status(bare_db)


def test_payloads_of_any_kind(bare_db):
    bare_db.insert("null", "5", '"deletes"', "[]", '["deletes"]', '{"deletes": null}', '{"deletes": 5}', '{"deletes": {}}', '{"deletes": []}')
    assert figures(bare_db)["oldest_pending_delete"] == NONE
    last, = bare_db.insert(deletes(viewer("u", "a")))
    assert figures(bare_db)["oldest_pending_delete"]["id"] == last


def test_a_reason_cannot_write_to_the_terminal(bare_db):
    bare_db.insert(archive(1))
    bare_db.execute("UPDATE fga_outbox SET attempts = 1, last_error = E'\\033[2Jgone\\n' || repeat('x', 2000)")
    text = status(bare_db)
    assert "\033" not in text and "gone" in text and all(len(line) < 300 for line in text.splitlines())


@pytest.mark.parametrize("name, sql", [("FGA_Outbox", "fga_outbox"), ('"My ""Out"" Box\'s"', '"My ""Out"" Box\'s"'), ('audit."Select"', 'audit."Select"')])
def test_any_table_name(empty_db, name, sql):
    empty_db.execute("CREATE SCHEMA audit")
    empty_db.create_outbox(sql, index="pending_idx")
    empty_db.insert(archive(1), archive(2))
    assert figures(empty_db, "--table", name)["pending"] == count(2)
    assert figures(empty_db, RELAY_TABLE=name)["pending"] == count(2)


def test_no_table_no_right_and_nobody_there(empty_db, bare_db):
    assert "relay install" in status(empty_db, expect=2)
    role = f"nobody_{bare_db.name}"
    bare_db.execute(f"CREATE ROLE {role} LOGIN")
    try:
        said = status(bare_db.cluster.url(bare_db.name, user=role), expect=2)
        assert "permission denied" in said and "relay install --role" in said
        bare_db.execute(f"GRANT SELECT ON fga_outbox TO {role}")
        assert figures(bare_db.cluster.url(bare_db.name, user=role))["pending"] == count(0)
    finally:
        bare_db.execute(f"DROP OWNED BY {role}")
        bare_db.execute(f"DROP ROLE {role}")
    assert status(f"postgres://postgres@127.0.0.1:{free_port()}/x", expect=3)


@pytest.mark.parametrize("flags", [["--lanes", "3"], ["--json=yes"], ["--http-listen", "nowhere"], ["--table", 'a"b'], ["extra"]])
def test_a_wrong_command_line(bare_db, flags):
    assert status(bare_db, *flags, expect=2)


def watch(database, *flags, stdout=subprocess.PIPE):
    args = [BINARY, "status", "--watch", "--http-listen", NOBODY, *flags]
    return spawn(args, env=environment(database, **PATIENT), stdout=stdout, stderr=subprocess.PIPE)


def test_watching_goes_on_until_sigint(bare_db):
    watching = watch(bare_db, "--json")
    try:
        assert json.loads(watching.stdout.readline())["pending"] == count(0)
        bare_db.insert(archive(1))
        wait_until(lambda: json.loads(watching.stdout.readline())["pending"] == count(1), 30)
        bare_db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'relay status' AND datname = current_database()")
        wait_until(lambda: b"lost Postgres" in watching.stderr.readline(), 30)  # after what libpq itself may have to say
        assert json.loads(watching.stdout.readline())["pending"] == count(1)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(10) == 0
    finally:
        watching.kill()
        watching.communicate()


def test_watching_on_a_terminal_redraws(bare_db):
    ours, its = pty.openpty()
    watching = watch(bare_db, stdout=its)
    os.close(its)
    seen = b""
    try:
        while seen.count(b"in flight") < 2:
            seen += os.read(ours, 65536)
        before, first, second = seen.split(b"\033[H\033[J")[:3]  # there may be more
        assert before == b"" and first.count(b"in flight") == second.count(b"in flight") == 1
    finally:
        watching.kill()
        watching.communicate()
        os.close(ours)


def test_help_names_every_field_of_the_json(bare_db):
    found = figures(bare_db)
    text = run("status", "--help", env=environment()).stdout
    at = [text.index(f"\n{name} (") for name in found]
    assert at == sorted(at) and len(at) > 10
    assert max(len(line) for line in text.splitlines()) <= 100
