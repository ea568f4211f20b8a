"""A busy relay hushes the trigger, and nobody's wake-up is lost by it: core/wake.h, with the sweep off all through."""

import os
import random
import signal
import threading
import time
from contextlib import contextmanager

import psycopg
import pytest

from process import stays, wait_until
from rows import archive, archives

# Rows without tuples are delivered without a request, so that OpenFGA is not what is measured. Without the trigger nothing wakes the relay.
EMPTY = {}
NO_SWEEP = "--sweep-interval", "24h"
KEY = "8243113856839188480 + 'fga_outbox'::regclass::oid::int8"

# How often a relay has to have hushed and settled. More of it where there is time: RELAY_HAMMER=2000.
HUSHES = int(os.environ.get("RELAY_HAMMER", 25))


class Writers:
    """Clients that insert as fast as the server can for a moment; then each commits a last row only after a while."""

    PLAN = """DO $$ BEGIN
        FOR i IN 1..{rows} LOOP INSERT INTO fga_outbox (payload) VALUES ('{{}}'); COMMIT; END LOOP;
        BEGIN INSERT INTO fga_outbox (payload) VALUES ('{{}}'); {fails} EXCEPTION WHEN division_by_zero THEN NULL; END;
        INSERT INTO fga_outbox (payload) VALUES ('{{}}');
        PERFORM pg_sleep({delay});
    END $$"""

    def __init__(self, database, seed, n=6):
        self.rng = random.Random(seed)
        self.connections = [psycopg.connect(database.url, autocommit=True) for _ in range(n)]

    def burst(self):
        rows = self.rng.randint(50, 150)
        threads = []
        for connection in self.connections:
            plan = self.PLAN.format(rows=rows, delay=self.rng.uniform(0, 0.08), fails="PERFORM 1/0;" if self.rng.random() < 0.2 else "")
            threads.append(threading.Thread(target=connection.execute, args=(plan,)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def close(self):
        for connection in self.connections:
            connection.close()


@pytest.fixture
def writers():
    made = []

    def make(*args, **keywords):
        made.append(Writers(*args, **keywords))
        return made[-1]

    yield make
    for w in made:
        w.close()


def hold_hush(database):
    """A session that hushes the table's trigger, as a busy relay does."""
    connection = psycopg.connect(database.url, autocommit=True)
    wait_until(lambda: connection.execute(f"SELECT pg_try_advisory_lock({KEY})").fetchone()[0])
    return connection


@contextmanager
def listening(database, channel):
    """A function that returns what has been heard on the channel so far."""
    heard = []
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.add_notify_handler(heard.append)
        connection.execute(f"LISTEN {channel}")
        yield lambda: connection.execute("SELECT 1") and heard


def is_hushed(database):
    return database.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'"
                          " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == 1


def rests(relay):
    """Whether a second goes by without a claim."""
    claims = relay.metric("relay_claims_total")
    try:
        stays(lambda: relay.metric("relay_claims_total") == claims, 1)
    except AssertionError:
        return False
    return True


def is_stopped(relay):
    with open(f"/proc/{relay.pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "T"


def until_hushed(relay, database, writers, timeout=20):
    """Bursts until the relay has hushed the trigger at least once: of what there is at once every claim is full, so it does not rest."""
    end = time.monotonic() + timeout
    before = relay.metric("relay_hushes_total")
    while relay.metric("relay_hushes_total") == before:
        assert time.monotonic() < end, relay.text()[-2000:]
        database.execute("INSERT INTO fga_outbox (payload) SELECT '{}' FROM generate_series(1, 3000)")
        writers.burst()


def states(relay):
    return [line["to"] for line in relay.log(msg="wake")]


def hammer(database, clients, relays, hushes):
    n = 0
    while sum(r.metric("relay_hushes_total") for r in relays) < hushes:
        n += 1
        clients.burst()
        wait_until(database.delivered, 15, every=0.002, what=lambda: f"round {n}: {database.pending()} rows wait")


@pytest.mark.slow
def test_no_row_waits_after_bursts_that_end_in_late_commits(db, store, start, writers):
    """Without the settling rows stay behind within a few rounds."""
    seed = int.from_bytes(os.urandom(4), "big")
    print(f"seed {seed}")
    hammer(db, writers(db, seed), [start(db, store, *NO_SWEEP)], HUSHES)


@pytest.mark.slow
def test_the_same_with_two_relays(db, store, start, writers):
    hammer(db, writers(db, 1), [start(db, store, *NO_SWEEP) for _ in range(2)], HUSHES / 2)


def test_a_lone_insert_costs_no_hush(db, store, start):
    relay = start(db, store, *NO_SWEEP)
    for n in range(100):
        db.insert(archive(n))
        wait_until(lambda: relay.metric("relay_rows_delivered_total") == n + 1)  # and then it rests
    assert relay.metric("relay_hushes_total") == 0


def test_the_trigger_notifies_only_while_nobody_hushes(db):
    with listening(db, "fga_outbox") as heard:
        hush = hold_hush(db)
        db.insert(EMPTY)
        hush.close()
        wait_until(lambda: not is_hushed(db))
        db.insert(EMPTY)
        wait_until(heard)
        assert len(heard()) == 1  # they come in the order of the commits
        assert db.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


def test_the_hush_of_one_table_is_not_anothers(db):
    db.execute("CREATE TABLE other (LIKE fga_outbox INCLUDING ALL)")
    db.execute("CREATE TRIGGER relay_notify AFTER INSERT ON other FOR EACH STATEMENT EXECUTE FUNCTION relay_notify('other')")
    with listening(db, "other") as heard, hold_hush(db):
        db.execute("INSERT INTO other (payload) VALUES ('{}')")
        wait_until(heard)


def test_a_row_of_a_relay_that_died_hushing_is_found_by_the_next_one(db, store, start):
    """It met the hush, it commits after the new relay's first claim, and nobody tells of it."""
    hush = hold_hush(db)
    with db.transaction() as late:
        db.insert(archive(1), connection=late)
        hush.close()
        wait_until(lambda: not is_hushed(db))
        relay = start(db, store, *NO_SWEEP)
        ids = db.insert(archive(2))
        db.wait_delivered(*ids)
    db.wait_delivered()
    assert relay.metric("relay_sweeps_total") == 1


def test_the_listening_session_lost_while_it_hushes(db, store, start, writers):
    relay = start(db, store, *NO_SWEEP, "--log-level", "debug")
    clients = writers(db, 2)

    def lost():
        burst = threading.Thread(target=clients.burst)
        burst.start()
        ended = 0
        while burst.is_alive() and not ended:
            ended = db.value("SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory'"
                             " AND mode = 'ExclusiveLock' AND granted")
        burst.join()
        return ended

    for _ in range(5):
        wait_until(lost, 30)
        db.wait_delivered()
        relay.wait_ready()


def test_a_session_that_postgres_does_not_know_to_be_lost_goes_on_hushing(db, cluster, store, start, writers, wire):
    """Its connection is gone for relay and not for Postgres: so relay ends it, before it settles."""
    listeners = []
    wire.hook = lambda m: b"LISTEN" in m.body and listeners.append(m.session)
    relay = start(cluster.url(db.name, port=wire.port), store, *NO_SWEEP)
    clients = writers(db, 7)

    def orphaned():
        burst = threading.Thread(target=clients.burst)
        burst.start()
        while burst.is_alive() and not is_hushed(db):
            pass
        caught = is_hushed(db)
        if caught:
            listeners[-1].orphan()
        burst.join()
        return caught

    wait_until(orphaned, 30)
    db.wait_delivered()
    wait_until(lambda: not is_hushed(db))
    relay.wait_ready()


def test_a_long_writer_is_waited_for(db, store, start, writers):
    """Its row met the hush, and is delivered soon after its commit all the same."""
    relay = start(db, store, *NO_SWEEP, "--log-level", "debug")
    hush = hold_hush(db)
    with db.transaction() as late:
        db.insert(archive(1), connection=late)
        hush.close()
        until_hushed(relay, db, writers(db, 3))
        wait_until(lambda: states(relay)[-1] == "settling")
        since = states(relay).index("hushed")
        stays(lambda: "loud" not in states(relay)[since:], 1)
    db.wait_delivered()
    wait_until(lambda: states(relay)[-1] == "loud")


def test_a_long_writer_elsewhere_is_not(db, store, start, writers):
    relay = start(db, store, *NO_SWEEP, "--log-level", "debug")
    db.execute("CREATE TABLE elsewhere (n int)")
    with db.transaction() as other:
        other.execute("INSERT INTO elsewhere VALUES (1)")
        until_hushed(relay, db, writers(db, 4))
        db.wait_delivered()
        wait_until(lambda: rests(relay), 30)
        wait_until(lambda: states(relay)[-1] == "loud")


def test_another_relay_is_told_of_a_backlog(db, store, start, make_proxy):
    """The one that hushes cannot keep up: its OpenFGA is slow. The other one sleeps, and hears of no row."""
    proxy = make_proxy(store)
    proxy.hook = lambda e: time.sleep(0.05)
    db.execute("ALTER TABLE fga_outbox DISABLE TRIGGER relay_notify")
    other = start(db, store, *NO_SWEEP, "--lanes", "1", "--log-level", "debug")
    wait_until(lambda: states(other)[-1:] == ["loud"])
    other.metric("relay_claims_total")  # when this is answered, the claim that ends the settling is under way
    wait_until(lambda: other.log(msg="lane")[-1]["to"] == "idle")
    db.insert(*archives(range(2000)))
    relay = start(db, store, *NO_SWEEP, "--batch-rows", "5", "--lanes", "1", url=proxy.url)
    wait_until(lambda: relay.metric("relay_hushes_total") > 0, 20)
    wait_until(lambda: other.metric("relay_notifications_total") > 0)
    db.wait_delivered(timeout=60)
    wait_until(lambda: other.metric("relay_rows_delivered_total") > 0)


def test_a_stopped_relay_that_hushes_costs_no_more_than_a_sweep(db, store, start, writers):
    """Nothing tells the others of a relay that stands still with the hush in its hands: their sweep finds the rows."""
    relay = start(db, store, *NO_SWEEP, "--log-level", "debug")
    listener = db.value("SELECT pid FROM pg_stat_activity WHERE application_name = 'relay listen' AND datname = current_database()")
    clients = writers(db, 5)

    def caught():
        burst = threading.Thread(target=clients.burst)
        burst.start()
        while burst.is_alive() and not hushes():
            pass
        relay.signal(signal.SIGSTOP)
        burst.join()
        wait_until(lambda: is_stopped(relay))
        if hushes() and states(relay)[-1] == "hushed":  # nor has it sent what would let it go
            return True
        relay.signal(signal.SIGCONT)
        return False

    def hushes():
        return db.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND pid = %s", listener) == 1

    wait_until(caught, 30)
    start(db, store, "--sweep-interval", "1s")
    with listening(db, "fga_outbox") as heard:
        db.wait_delivered(*db.insert(EMPTY))
        assert not heard()
    relay.signal(signal.SIGCONT)
    db.wait_delivered()


def test_with_the_trigger_of_before_it_hushes_in_vain(db, store, start, writers):
    db.execute("CREATE OR REPLACE FUNCTION relay_notify() RETURNS trigger LANGUAGE plpgsql AS"
               " $$ BEGIN PERFORM pg_catalog.pg_notify(TG_ARGV[0], ''); RETURN NULL; END $$")
    relay = start(db, store, *NO_SWEEP)
    clients = writers(db, 6)
    for _ in range(10):
        clients.burst()
        db.wait_delivered()
    wait_until(lambda: relay.metric("relay_notifications_total") > 0)
