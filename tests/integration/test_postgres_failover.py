"""A primary and its streaming standby: the primary away, back, gone for good, and hanging."""

import signal

import pytest

from faults import QUICK, all_is_well, complains
from postgres import Cluster, Database, Standby
from rows import archive, archives


@pytest.fixture
def pair():
    """(primary, standby)"""
    primary = Cluster()
    standby = None
    try:
        standby = Standby(primary)
        yield primary, standby
    finally:
        if standby is not None:
            standby.close()
        primary.close()


def both(database, attributes, *servers):
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return f"postgres://postgres@{hosts}/{database.name}?sslmode=disable&target_session_attrs={attributes}"


def on(server, database):
    """The same database on another server."""
    return Database(server, database.name)


@pytest.mark.slow
def test_the_primary_away_and_back_and_then_gone_for_good(pair, store, start):
    primary, standby = pair
    db = primary.create()
    db.create_outbox()
    relay = start(both(db, "read-write", primary, standby), store, *QUICK)
    db.wait_delivered(*db.insert(*archives(range(3))))
    db.insert(archive(3))
    db.reconnect()
    primary.stop(signal.SIGQUIT)
    complains(relay, "read-only", "no server in DATABASE_URL takes writes", "promote", timeout=30)
    primary.start()
    all_is_well(db, store, relay, range(4))
    relay.signal(signal.SIGSTOP)  # so that the last row is on the standby before anybody delivers it
    db.insert(archive(4))
    standby.wait_replayed(db)
    db.reconnect()
    primary.stop(signal.SIGQUIT)
    standby.promote()
    relay.signal(signal.SIGCONT)
    now = on(standby, db)
    all_is_well(now, store, relay, range(5))
    now.wait_delivered(*now.insert(archive(5)))
    now.reconnect()


def test_a_standby_alone_is_told_and_serves_once_it_is_promoted(pair, store, start):
    """Named without target_session_attrs: it lets the relay in, and refuses to LISTEN and every claim."""
    primary, standby = pair
    db = primary.create()
    db.create_outbox()
    db.insert(archive(0))
    standby.wait_replayed(db)
    relay = start(standby.url(db.name), store, *QUICK, ready=False)
    complains(relay, "target_session_attrs=read-write")
    standby.promote()
    now = on(standby, db)
    all_is_well(now, store, relay, range(1))
    now.reconnect()
    db.reconnect()


def test_a_primary_that_hangs_does_not_keep_it_from_the_standby(pair, store, start):
    """Its machine stands still: it takes connections, and says nothing. A try ends by its own time, and the next one begins with the
    other host."""
    primary, standby = pair
    db = primary.create()
    db.create_outbox()
    db.insert(archive(0))
    standby.wait_replayed(db)
    db.reconnect()
    primary.process.send_signal(signal.SIGSTOP)
    try:
        standby.promote()
        relay = start(both(db, "read-write", primary, standby), store, *QUICK, "--connect-timeout", "1s", ready=False)
        now = on(standby, db)
        all_is_well(now, store, relay, range(1))
        now.reconnect()
    finally:
        primary.process.send_signal(signal.SIGCONT)
