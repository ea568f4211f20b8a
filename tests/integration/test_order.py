"""The last word wins: between lanes, between relays, and beside the ledger's own loop."""

import random
import threading
import time

import pytest

from process import stays, wait_until
from rows import deletes, viewer, writes

HOT = [viewer(f"u{n}", "hot") for n in range(12)]


def flip(db, chance, last, rounds):
    """Rows that write and delete the hot tuples; `last` is what each must be in the end."""
    for _ in range(rounds):
        rows = []
        for t in chance.sample(HOT, 5):
            last[t] = chance.random() < 0.5
            rows.append(writes(t) if last[t] else deletes(t))
        db.insert(*rows)


@pytest.mark.slow
def test_between_relays_of_many_lanes(db, durable_store, start, make_proxy):
    """Claims of a few rows each, so that one tuple's rows are in many hands at once, and slow answers at random. The first answers come
    once a row is held behind them."""
    chance = random.Random(7)
    proxy = make_proxy(durable_store)
    held = threading.Event()

    def slow(e):
        if e.is_write and not e.is_probe:
            held.wait(30)
        time.sleep(chance.random() * 0.01)

    proxy.hook = slow
    flags = ["--batch-rows", "3", "--sweep-interval", "200ms", "--request-timeout", "60s"]
    relays = [start(db, durable_store, *flags, "--lanes", lanes, url=proxy.url) for lanes in ("4", "4", "1")]
    last = {t: False for t in HOT[:5]}
    db.insert(*[writes(t) for t in last])
    db.insert(*[deletes(t) for t in last])
    wait_until(lambda: sum(relay.metric("relay_rows_held_total") for relay in relays) > 0)
    held.set()
    flip(db, chance, last, 120)
    db.wait_delivered(timeout=90)
    assert durable_store.tuples() == {t for t, written in last.items() if written}
    assert db.attempts() == 0
    wait_until(lambda: sum(relay.metric("relay_rows_delivered_total") for relay in relays) >= 610)
    assert sum(relay.metric("relay_rows_delivered_total") for relay in relays) == 610


@pytest.mark.asan
def test_a_row_waits_for_one_that_another_drainer_holds(db, store, start):
    """The ledger's loop has the grant in flight; the revocation must not overtake it, and other rows must not wait."""
    grant, = db.insert(writes(HOT[0]))
    with db.transaction() as other:
        other.execute("SELECT id FROM fga_outbox WHERE processed_at IS NULL ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 100")
        relay = start(db, store, "--sweep-interval", "200ms")
        revocation, free = db.insert(deletes(HOT[0]), writes(HOT[1]))
        db.wait_delivered(free)
        wait_until(lambda: relay.log(msg="row held", id=str(revocation), behind=str(grant)))
        stays(lambda: not db.delivered(revocation), 0.5)
        store.write(HOT[0])
        other.execute("UPDATE fga_outbox SET processed_at = now() WHERE id = %s", [grant])
    db.wait_delivered(revocation)
    assert not store.has(*HOT[0])


@pytest.mark.asan
def test_the_same_operation_does_not_wait(db, store, start):
    held, = db.insert(writes(HOT[0]))
    with db.transaction() as other:
        other.execute("SELECT id FROM fga_outbox WHERE id = %s FOR UPDATE", [held])
        start(db, store, "--sweep-interval", "200ms")
        again, = db.insert(writes(HOT[0]))
        db.wait_delivered(again)
        other.rollback()


@pytest.mark.asan
def test_a_row_comes_at_once_when_the_one_before_it_is_done_in_another_lane(db, store, start, make_proxy):
    """Two lanes, one row a claim: the second row is held while the first is slow, and goes when that is done."""
    proxy = make_proxy(store)

    def slow(e):
        if e.is_write and e.tuples:
            wait_until(lambda: relay.log(msg="row held"))

    proxy.hook = slow
    relay = start(db, store, "--sweep-interval", "1h", "--lanes", "2", "--batch-rows", "1", url=proxy.url)
    first, second = db.insert(writes(HOT[0]), deletes(HOT[0]))
    db.wait_delivered(first, second)
    assert relay.log(msg="row held", id=str(second), behind=str(first))
    assert not store.has(*HOT[0])
    written, deleted = [db.row(id)[0] for id in (first, second)]
    assert written <= deleted


@pytest.mark.asan
def test_a_row_is_marked_before_the_next_one_on_its_tuple_is_sent(db, cluster, store, start, make_proxy):
    """If both went in one transaction and its end were lost, the first one's grant would come back for a while."""
    proxy = make_proxy(store)
    first, second = db.insert(writes(HOT[0]), deletes(HOT[0]))
    marked = []

    def look(e):
        if e.is_write and e.deleted and not e.is_probe:
            with cluster.connect(db.name) as connection:
                marked.append(connection.execute("SELECT processed_at IS NOT NULL FROM fga_outbox WHERE id = %s", [first]).fetchone()[0])

    proxy.hook = look
    start(db, store, "--sweep-interval", "1h", "--lanes", "1", url=proxy.url)
    db.wait_delivered(first, second)
    assert marked == [True]
    assert not store.has(*HOT[0])
