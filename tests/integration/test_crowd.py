"""Many drainers at once, and drainers that are killed."""

import itertools
import random
import signal
import threading
from collections import Counter

import pytest

from process import wait_until
from rows import all_tuples, archive_tuples, archives, deletes, viewer, writes

ROWS = 20_000


def fill(database, n, first=0):
    database.execute(
        """INSERT INTO fga_outbox (payload)
           SELECT jsonb_build_object('writes', jsonb_build_array(
             jsonb_build_object('user', 'capture_job:j' || n, 'relation', 'parent', 'object', 'archive:a' || n),
             jsonb_build_object('user', 'organization:acme', 'relation', 'parent', 'object', 'capture_job:j' || n)))
           FROM generate_series(%s::int, %s::int) n ORDER BY n""", first, first + n - 1)


@pytest.mark.slow
def test_three_relays_and_the_ledgers_loop_send_no_row_twice(db, durable_fga, durable_store, make_proxy, start, ledger):
    """The first answers come when all four are at work."""
    proxies = [make_proxy(durable_store) for _ in range(4)]
    at_work = threading.Event()

    def wait_for_all(e):
        if e.is_write and not e.is_probe and not at_work.is_set():
            wait_until(lambda: all(proxy.writes for proxy in proxies), 25)
            at_work.set()

    for proxy in proxies:
        proxy.hook = wait_for_all
    flags = ["--sweep-interval", "1s", "--request-timeout", "60s"]
    relays = [start(db, durable_store, *flags, "--lanes", lanes, url=proxy.url) for lanes, proxy in zip(("1", "1", "2"), proxies)]
    loop = ledger(db, durable_store, url=proxies[3].url)
    fill(db, 2000)
    wait_until(lambda: db.value("SELECT count(processed_at) FROM fga_outbox") > 500, 30)
    durable_fga.analyze()
    for first in range(2000, ROWS, 3000):
        fill(db, 3000, first)
    db.wait_delivered(timeout=120)
    loop.stop()
    sent = Counter(t for proxy in proxies for t in proxy.sent())
    assert [t for t, n in sent.items() if n > 1] == []
    assert set(sent) == all_tuples(range(ROWS)) == durable_store.tuples()
    assert all(e.status == 200 for proxy in proxies for e in proxy.writes)
    assert db.value("SELECT count(*) FROM fga_outbox WHERE attempts <> 0 OR last_error IS NOT NULL") == 0
    def shares():
        return [relay.metric("relay_rows_delivered_total") for relay in relays] + [loop.delivered]

    wait_until(lambda: sum(shares()) >= ROWS)
    assert sum(shares()) == ROWS and min(shares()) > 0, shares()


@pytest.mark.slow
def test_a_relay_killed_in_the_middle_of_5000_rows_and_another_one(db, durable_fga, durable_store, make_proxy, start):
    """Ten Writes are answered, enough for a batch; those behind them reach OpenFGA, and the relay is dead when they are answered."""
    proxy = make_proxy(durable_store)
    numbers = itertools.count()
    killed = threading.Event()

    def ten_only(e):
        if e.is_write and not e.is_probe and next(numbers) >= 10:
            killed.wait(60)

    proxy.hook = ten_only
    first = start(db, durable_store, "--sweep-interval", "1h", "--request-timeout", "60s", url=proxy.url)
    fill(db, 5000)
    wait_until(lambda: db.value("SELECT count(processed_at) FROM fga_outbox") > 0)
    first.kill()
    killed.set()
    wait_until(lambda: not proxy.open)
    delivered = db.value("SELECT count(processed_at) FROM fga_outbox")
    assert 0 < delivered < 5000
    durable_fga.analyze()
    start(db, durable_store, "--sweep-interval", "500ms", url=proxy.url)
    db.wait_delivered(timeout=60)
    assert durable_store.tuples() == all_tuples(range(5000))
    assert db.attempts() == 0
    # Between a Write and its ack lie at most a batch of each of the four lanes: no more can have been sent again.
    assert len(proxy.sent()) - 10_000 <= 4 * 200


@pytest.mark.slow
def test_a_relay_killed_at_random_loses_nothing_and_revives_nothing(db, durable_store, make_proxy, start):
    """Tuples written and deleted again and again while the relay is killed and replaced: the last word on each wins. The next one comes
    when OpenFGA has carried out what the killed one sent: a first try that is late may land behind a later row (README)."""
    chance = random.Random(3)
    proxy = make_proxy(durable_store)
    tuples = [viewer(f"u{n}", "hot") for n in range(12)]
    last = {}
    for _ in range(15):
        relay = start(db, durable_store, "--sweep-interval", "200ms", url=proxy.url)
        for _ in range(10):
            rows = []
            for t in chance.sample(tuples, 5):
                last[t] = chance.random() < 0.5
                rows.append(writes(t) if last[t] else deletes(t))
            db.insert(*rows)
        wait_until(lambda: relay.metric("relay_requests_total{verdict=\"delivered\"}") > chance.randrange(20), every=0.001)
        relay.kill()
        wait_until(lambda: not db.backends() and not proxy.open)
    start(db, durable_store, "--sweep-interval", "200ms")
    db.wait_delivered(timeout=60)
    assert durable_store.tuples() == {t for t, written in last.items() if written}
    assert db.attempts() == 0


def test_a_row_that_somebody_holds_is_left_to_them_and_waited_for_by_nobody(db, store, start):
    """A drainer that stopped in the middle: other rows pass, and its rows are free as soon as it is gone."""
    held = db.insert(*archives(range(5)))
    with db.transaction() as other:
        other.execute("SELECT id, payload FROM fga_outbox WHERE processed_at IS NULL ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 100")
        start(db, store, "--sweep-interval", "300ms")
        free = db.insert(*archives(range(5, 10)))
        db.wait_delivered(*free)
        assert db.pending() == len(held)
        assert not store.has(*archive_tuples(0)[0])
        other.rollback()
    db.wait_delivered()
    assert store.tuples() == all_tuples(range(10))


def test_rows_of_a_stopped_relay_are_taken_by_another_after_it_is_killed(db, store, make_proxy, start):
    """SIGSTOP in the middle of a Write: it holds its rows; once killed, they are free."""
    proxy = make_proxy(store)
    stuck = start(db, store, url=proxy.url)
    proxy.hook = lambda e: stuck.signal(signal.SIGSTOP) if e.is_write and not e.is_probe and len(proxy.writes) == 1 else None
    db.insert(*archives(range(3)))
    wait_until(lambda: store.tuples() == all_tuples(range(3)))
    other = start(db, store, "--sweep-interval", "200ms")
    later = db.insert(*archives(range(3, 6)))
    db.wait_delivered(*later)
    assert db.pending() == 3
    stuck.kill()
    db.wait_delivered(timeout=10)
    wait_until(lambda: other.metric("relay_rows_delivered_total") >= 6)
    assert other.metric("relay_rows_delivered_total") == 6
