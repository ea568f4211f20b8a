"""The relay's sessions ended or cancelled in whatever they are doing, and held up by what a role or somebody's lock brings with it."""

import time

import pytest

from faults import QUICK, Gate, all_is_well, complains, locked, sessions, wait_connected, waiting_for_a_lock, with_rows
from process import stays, wait_until
from rows import archives

RECONNECTIONS = "relay_reconnections_total"


def end(database, how, pids):
    assert pids
    for pid in pids:
        database.execute(f"SELECT pg_{how}_backend(%s)", pid)


def wait_lost(relay, before):
    wait_until(lambda: relay.metric(RECONNECTIONS) > before, what=relay.text)


def cancelled(database):
    """How many statements of the relay's a cancel has met, as the server's log has it before the relay is told."""
    with open(f"{database.cluster.folder}/log", errors="replace") as log:
        return sum(f" {database.name} ERROR:  canceling statement due to user request" in line for line in log)


@pytest.mark.parametrize("how", ["terminate", "cancel"])
@pytest.mark.parametrize("state", ["idle", "listening", "claiming", "writing", "marking", "committing"])
def test_a_session_ended_in_each_state(db, store, proxy, start, state, how):
    # A sweep would wait for the lock as well, and whoever is behind it sends no claim.
    sweep = ("--sweep-interval", "1h") if state == "claiming" else ()
    relay = start(db, store, *QUICK, *sweep, url=proxy.url)
    wait_connected(db, relay)
    before = relay.metric(RECONNECTIONS)
    if state in ("idle", "listening"):
        end(db, how, sessions(db, f"application_name = 'relay {'listen' if state == 'listening' else 'lane 1'}'"))
        db.insert(*archives(range(3)))
        busy = False
    elif state == "claiming":
        with locked(db, "ACCESS EXCLUSIVE") as other:
            db.insert(*archives(range(3)), connection=other)
            db.execute("NOTIFY fga_outbox")
            end(db, how, wait_until(lambda: waiting_for_a_lock(db, "WITH mine%")))
            wait_lost(relay, before)
        busy = True
    elif state == "writing":
        gate = Gate(proxy)
        db.insert(*archives(range(3)))
        gate.wait_entered()
        end(db, how, wait_until(lambda: with_rows(db)))
        if how == "terminate":
            wait_lost(relay, before)
        gate.open()
        busy = False
    elif state == "marking":
        gate = Gate(proxy)
        db.insert(*archives(range(3)))
        gate.wait_entered()
        with locked(db, "SHARE"):
            gate.open()
            end(db, how, wait_until(lambda: waiting_for_a_lock(db, "UPDATE%")))
            wait_lost(relay, before)
        busy = True
    else:
        db.execute("CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END'")
        db.execute("CREATE CONSTRAINT TRIGGER hold AFTER UPDATE ON fga_outbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold()")
        db.execute("SELECT pg_advisory_lock(1)")
        db.insert(*archives(range(3)))
        end(db, how, wait_until(lambda: waiting_for_a_lock(db, "COMMIT")))
        wait_lost(relay, before)
        db.execute("SELECT pg_advisory_unlock(1)")
        busy = True
    all_is_well(db, store, relay, range(3))
    wait_until(lambda: len(db.backends()) == 5, 30, what=lambda: f"four lanes and the listener to be back: {db.backends()}")
    if how == "cancel" and not busy:
        # Nothing of the rows ran that could be cancelled, but a sweep may have.
        wait_until(lambda: relay.metric(RECONNECTIONS) - before == cancelled(db), what="no session to be lost but by a cancelled statement")
        assert state != "writing" or cancelled(db) == 0
        assert len(proxy.sent()) == 6, "sent once"


@pytest.fixture
def role(db):
    """A role of its own with what `relay install` grants."""
    name = f"role_{db.name}"
    db.execute(f"CREATE ROLE {name} LOGIN")
    db.execute(f"GRANT SELECT, UPDATE (processed_at, attempts, last_error) ON fga_outbox TO {name}")
    yield name
    db.execute(f"DROP OWNED BY {name}")
    db.execute(f"DROP ROLE {name}")


def test_the_limits_of_its_role_do_not_hinder_it(db, cluster, store, proxy, role, start):
    """The relay waits longer than each of them allows: idle, for a claim's and a mark's lock, and for OpenFGA."""
    for limit in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout"):
        db.execute(f"ALTER ROLE {role} SET {limit} = '300ms'")
    relay = start(cluster.url(db.name, user=role), store, *QUICK, "--sweep-interval", "1h", url=proxy.url)
    wait_connected(db, relay)
    before = relay.metric(RECONNECTIONS)
    stays(relay.ready, 1)
    gate = Gate(proxy)
    with locked(db, "ACCESS EXCLUSIVE") as other:
        db.insert(*archives(range(3)), connection=other)
        db.execute("NOTIFY fga_outbox")
        pids = wait_until(lambda: waiting_for_a_lock(db, "WITH mine%"))
        stays(lambda: set(pids) <= set(waiting_for_a_lock(db, "WITH mine%")), 0.7)
    gate.wait_entered()
    pids = wait_until(lambda: with_rows(db))
    stays(lambda: set(pids) <= set(with_rows(db)), 0.7)
    with locked(db, "SHARE"):
        gate.open()
        pids = wait_until(lambda: waiting_for_a_lock(db, "UPDATE%"))
        stays(lambda: set(pids) <= set(waiting_for_a_lock(db, "UPDATE%")), 0.7)
    all_is_well(db, store, relay, range(3))
    assert relay.metric(RECONNECTIONS) == before
    assert len(proxy.sent()) == 6, "sent once"


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_the_isolation_of_its_role_does_not_hinder_it(db, cluster, store, role, start, level):
    """In these, a claim fails of every row that somebody marked since its snapshot was taken; the relay asks for READ COMMITTED."""
    db.execute(f"ALTER ROLE {role} SET default_transaction_isolation = '{level}'")
    url = cluster.url(db.name, user=role)
    relays = [start(url, store, *QUICK, "--batch-rows", "5", "--lanes", "8") for _ in range(2)]
    for relay in relays:
        wait_connected(db, relay, 18)
    before = [relay.metric(RECONNECTIONS) for relay in relays]
    for first in range(0, 600, 20):
        db.insert(*archives(range(first, first + 20)))
    for relay in relays:
        all_is_well(db, store, relay, range(600))
    assert [relay.metric(RECONNECTIONS) for relay in relays] == before, relays[0].text()[-2000:]


@pytest.mark.slow
def test_the_table_locked_for_ten_seconds(db, store, start):
    relay = start(db, store, *QUICK)
    began = time.monotonic()
    with locked(db, "ACCESS EXCLUSIVE") as other:
        db.insert(*archives(range(5)), connection=other)
        complains(relay, "lock", "pg_locks")
        stays(lambda: relay.request("GET", "/livez")[0] == 200, 10 - (time.monotonic() - began), every=0.1)
    all_is_well(db, store, relay, range(5))
    assert len(relay.log(level="warning")) < 30, "said, and not for ever"
