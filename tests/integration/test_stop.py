"""How a relay ends."""

import signal
import threading

import pytest

from process import wait_until
from rows import all_tuples, archives

pytestmark = pytest.mark.asan


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_under_load_ends_cleanly_with_nothing_half_done(db, store, proxy, start, load, number):
    relay = start(db, store, url=proxy.url)
    loading = load(db)
    wait_until(lambda: len(proxy.writes) > 20)
    relay.signal(number)
    assert relay.wait(10) == 0
    numbers = loading.stop()
    accepted = set(proxy.sent())
    assert accepted == store.tuples()
    processed = db.execute("SELECT payload FROM fga_outbox WHERE processed_at IS NOT NULL").fetchall()
    assert {(t["user"], t["relation"], t["object"]) for p, in processed for t in p["writes"]} == accepted, "acked is what was accepted"
    assert db.attempts() == 0
    db.execute("SELECT id FROM fga_outbox FOR UPDATE NOWAIT")
    start(db, store)
    db.wait_delivered()
    assert store.tuples() == all_tuples(numbers)


def test_what_is_in_flight_ends_and_is_acked(db, store, proxy, start):
    entered, leave = threading.Event(), threading.Event()

    def hook(e):
        if e.is_write and not e.is_probe:
            entered.set()
            leave.wait(10)
        return None

    relay = start(db, store, "--max-in-flight", "1", "--batch-rows", "50", url=proxy.url)
    proxy.hook = hook
    db.insert(*archives(range(120)))
    assert entered.wait(15)
    relay.signal(signal.SIGTERM)
    wait_until(lambda: relay.log(msg="stopping"), what=relay.text)
    leave.set()
    assert relay.wait(10) == 0
    assert len(proxy.writes) == 1, "no request was begun after the signal"
    assert db.pending() == 120 - len(proxy.writes[0].tuples) // 2
    assert db.attempts() == 0


def test_the_shutdown_timeout_ends_the_waiting(db, store, proxy, start):
    entered, leave = threading.Event(), threading.Event()

    def hook(e):
        if e.is_write and not e.is_probe:
            entered.set()
            leave.wait(20)
        return None

    relay = start(db, store, "--shutdown-timeout", "500ms", url=proxy.url)
    proxy.hook = hook
    ids = db.insert(*archives(range(3)))
    assert entered.wait(15)
    took = relay.stop()
    leave.set()
    assert 0.4 <= took < 8, "the default"
    assert relay.log(msg="what was in flight did not end in time: its rows stay pending", shutdown_timeout_ms="500")
    assert not db.delivered(*ids)
    assert db.row(ids[0]) == (None, 0, None)


def test_a_second_signal_ends_at_once(db, store, proxy, start):
    entered, leave = threading.Event(), threading.Event()

    def hook(e):
        if e.is_write and not e.is_probe:
            entered.set()
            leave.wait(30)
        return None

    relay = start(db, store, "--shutdown-timeout", "25s", url=proxy.url)
    proxy.hook = hook
    db.insert(*archives(range(3)))
    assert entered.wait(15)
    relay.signal(signal.SIGTERM)
    wait_until(lambda: relay.log(msg="stopping"), what=relay.text)
    relay.signal(signal.SIGTERM)
    assert relay.wait() == 128 + signal.SIGTERM, "that signal's doing, and neither the answer's nor the time-out's"
    leave.set()
    assert db.pending() == 3


def test_an_idle_relay_ends_at_once(db, store, start):
    took = [start(db, store).stop() for _ in range(3)]
    assert min(took) < 2, took  # see within()


def test_it_ends_while_nothing_can_be_reached(cluster, make_fga, start):
    server = make_fga()
    store = server.create_store()
    server.stop()
    took = []
    for _ in range(3):
        relay = start(cluster.url("nowhere", port=1), store, ready=False)
        relay.wait_not_ready()
        took.append(relay.stop())
    assert min(took) < 3, took  # see within()


def test_no_session_is_left_behind(db, store, start):
    relay = start(db, store, "--lanes", "3")
    db.insert(*archives(range(10)))
    db.wait_delivered()
    assert db.backends()
    relay.stop()
    wait_until(lambda: not db.backends())
