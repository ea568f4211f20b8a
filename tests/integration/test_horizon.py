"""What a claim costs stays the same, and no row is overlooked by it: core/horizon.h, with the sweep off all through."""

import pytest

from postgres import Cluster
from process import stays, wait_until
from rows import archive, archives, unknown

NO_SWEEP = "--sweep-interval", "24h"
DEBUG = "--log-level", "debug"
MANY = 3000
STEP = 500  # rows: fewer are not worth a step
FEW = 20  # their pages


@pytest.fixture(scope="module")
def counting():
    """A cluster that counts what statements touch."""
    made = Cluster("shared_preload_libraries = 'pg_stat_statements'\n")
    yield made
    made.close()


@pytest.fixture
def counted(counting):
    made = counting.create()
    made.create_outbox()
    made.execute("CREATE EXTENSION pg_stat_statements")
    yield made
    made.close()


def buffers(database, relay, n):
    """How many buffers the claims touched that found one fresh row each, n of them."""
    database.execute("SELECT pg_stat_statements_reset()")
    for i in range(n):
        before = relay.metric("relay_rows_delivered_total")  # first: a relay that has not come to rest finds the row by itself
        database.insert(archive(10_000 + i))
        database.execute("NOTIFY fga_outbox")
        wait_until(lambda: relay.metric("relay_rows_delivered_total") > before)
    return database.value("SELECT sum(shared_blks_hit + shared_blks_read) / sum(calls) FROM pg_stat_statements"
                          " WHERE query LIKE '%SKIP LOCKED%' AND query NOT LIKE '%= ANY%'")


def begin(database, store, start, *flags):
    """A relay with all its lanes connected: one that comes later takes the horizon back."""
    relay = start(database, store, *NO_SWEEP, *DEBUG, *flags)
    wait_until(lambda: len(relay.log(msg="postgres connection", to="ready")) >= 5)
    return relay


def horizon(relay):
    """Where claims start, as the relay says itself."""
    said = [line for line in relay.log() if line["msg"] in ("horizon", "horizon taken back")]
    return int(said[-1]["at"]) if said and said[-1]["msg"] == "horizon" else 0


def settled(relay, database):
    """Waits for the step that makes up for what was delivered last: nothing asks for the writers any more."""
    highest = database.value("SELECT max(id) FROM fga_outbox")
    wait_until(lambda: highest - horizon(relay) < STEP, 30, every=0.2, what=lambda: f"{horizon(relay)} of {highest}")
    asked = "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '%virtualtransaction%pg_sequence%'"
    wait_until(lambda: database.value(asked) > 0)

    def quiet():
        before = database.value(asked), relay.metric("relay_claims_total")
        try:
            stays(lambda: (database.value(asked), relay.metric("relay_claims_total")) == before, 1.5)
        except AssertionError:
            return False
        return True

    wait_until(quiet, 30)


def test_delivered_rows_that_an_old_snapshot_keeps_cost_nothing(counted, store, start):
    relay = begin(counted, store, start)
    at_first = buffers(counted, relay, 20)
    with counted.transaction() as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM fga_outbox")
        counted.execute("INSERT INTO fga_outbox (payload) SELECT '{}' FROM generate_series(1, %s)", MANY)
        counted.execute("NOTIFY fga_outbox")
        counted.wait_delivered(timeout=30)
        settled(relay, counted)
        assert buffers(counted, relay, 20) < at_first + FEW


def test_refused_rows_at_the_head_cost_nothing(counted, store, start):
    relay = begin(counted, store, start, "--min-backoff", "10m", "--max-backoff", "10m")
    at_first = buffers(counted, relay, 20)
    counted.insert(*(unknown(n) for n in range(MANY // 3)))
    counted.execute("NOTIFY fga_outbox")
    wait_until(lambda: counted.value("SELECT count(*) FROM fga_outbox WHERE attempts > 0") == MANY // 3, 60)
    settled(relay, counted)
    assert buffers(counted, relay, 20) < at_first + FEW


def test_a_late_commit_below_it_is_found_at_once(db, store, start):
    """Its id was drawn before thousands of others', which are delivered long since."""
    relay = start(db, store, *NO_SWEEP)
    with db.transaction() as late:
        ids = db.insert(archive(0), connection=late)
        for n in range(4):
            db.execute("INSERT INTO fga_outbox (payload) SELECT '{}' FROM generate_series(1, %s)", MANY)
            wait_until(lambda: relay.metric("relay_rows_delivered_total") == (n + 1) * MANY, 30)
    db.wait_delivered(*ids)


@pytest.mark.parametrize("change", [
    "ALTER SEQUENCE fga_outbox_id_seq CACHE 50",
    "ALTER SEQUENCE fga_outbox_id_seq INCREMENT -1 MINVALUE -1000000 START -1 RESTART -1",
    "ALTER SEQUENCE fga_outbox_id_seq OWNED BY NONE",
], ids=["cached", "falling", "not the column's own"])
def test_where_ids_do_not_rise_it_is_off(db, store, start, change):
    """A session that has drawn its ids ahead uses the lower ones later."""
    db.execute(change)
    start(db, store, *NO_SWEEP)
    with db.transaction() as slow:
        slow.execute("INSERT INTO fga_outbox (payload) VALUES ('{}')")
        slow.commit()
        for _ in range(3):
            db.execute("INSERT INTO fga_outbox (payload) SELECT '{}' FROM generate_series(1, %s)", MANY)
            db.wait_delivered(timeout=30)
        ids = db.insert(*archives(range(10)), connection=slow)
        slow.commit()
        db.wait_delivered(*ids)
