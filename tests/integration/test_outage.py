"""An outage is nobody's fault: rows stay pending and delivery resumes by itself."""

import signal
import time

import pytest

from process import stays, wait_until
from rows import all_tuples, archive, archives

def listener(database, ended):
    """The pid of the session that listens and is not one of these, which may still be there for a moment; 0 while there is none."""
    found = database.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'relay listen' AND pid <> ALL(%s)", list(ended)
    ).fetchall()
    return found[0][0] if found else 0


def test_the_listening_backend_terminated_twenty_times(db, store, start):
    # One lane: its connections to Postgres and to OpenFGA are made when the first row is delivered, and there are no others.
    relay = start(db, store, "--sweep-interval", "1h", "--min-backoff", "50ms", "--lanes", "1")
    db.insert(archive(0))
    db.wait_delivered()
    descriptors = relay.descriptors()
    number = 1
    ended = []
    for _ in range(20):
        ended.append(wait_until(lambda: listener(db, ended)))
        db.execute("SELECT pg_terminate_backend(%s)", ended[-1])
        db.insert(archive(number), archive(number + 1))
        wait_until(lambda: listener(db, ended))
        db.insert(archive(number + 2))
        number += 3
    db.wait_delivered()
    assert store.tuples() == all_tuples(range(number))
    relay.wait_ready()
    wait_until(lambda: relay.descriptors() <= descriptors, 10, what=lambda: f"{relay.descriptors()} descriptors, at first {descriptors}")
    assert relay.metric("relay_reconnections_total") >= 20
    assert relay.cpu_seconds() < 3
    assert relay.metric("relay_claims_total") < 500


def test_every_session_terminated(db, store, start, load):
    """The lanes' sessions as well, under load."""
    start(db, store, "--sweep-interval", "500ms", "--min-backoff", "50ms", "--lanes", "2")
    loading = load(db)
    for _ in range(10):
        wait_until(lambda: len(db.backends()) >= 2)
        for pid, _, _ in db.backends():
            db.execute("SELECT pg_terminate_backend(%s)", pid)
    numbers = loading.stop()
    db.wait_delivered(timeout=20)
    assert all_tuples(numbers) <= store.tuples()
    assert db.attempts() == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_postgres_restarted_under_load(own_db, store, start, load, how):
    db = own_db
    relay = start(db, store, "--sweep-interval", "500ms", "--min-backoff", "100ms", ready=False)
    loading = load(db)
    wait_until(lambda: loading.n > 200)
    db.cluster.stop(how)
    db.reconnect()
    relay.wait_not_ready("postgres")
    assert relay.request("GET", "/livez")[0] == 200
    db.cluster.start()
    before = loading.n
    wait_until(lambda: loading.n > before + 200)
    numbers = loading.stop()
    db.wait_delivered(timeout=30)
    relay.wait_ready()
    assert all_tuples(numbers) <= store.tuples()
    assert db.attempts() == 0


@pytest.mark.slow
def test_openfga_stopped_for_five_seconds_under_load(db, durable_fga, durable_store, start, load):
    relay = start(db, durable_store, "--sweep-interval", "1s", "--min-backoff", "200ms")
    loading = load(db)
    wait_until(lambda: loading.n > 200)
    durable_fga.stop()
    stopped = time.monotonic()
    relay.wait_not_ready("openfga")
    idle, spent = time.monotonic(), relay.cpu_seconds()
    stays(lambda: relay.request("GET", "/livez")[0] == 200, 5 - (time.monotonic() - stopped), every=0.2)
    assert relay.cpu_seconds() - spent < 1 + (time.monotonic() - idle) / 10, "nothing can be done"
    durable_fga.start()
    before = loading.n
    wait_until(lambda: loading.n > before + 200)
    numbers = loading.stop()
    db.wait_delivered(timeout=30)
    relay.wait_ready()
    assert durable_store.tuples() == all_tuples(numbers)
    assert db.attempts() == 0
    warnings = [line for line in relay.log() if line["level"] in ("warning", "error")]
    assert 1 <= len(warnings) <= 20, "said, and not for ever"


def test_openfga_away_at_the_start(db, make_fga, start):
    server = make_fga()
    store = server.create_store()
    server.stop()
    relay = start(db, store, "--sweep-interval", "300ms", "--min-backoff", "100ms", ready=False)
    ids = db.insert(archive(1))
    relay.wait_not_ready("openfga", str(server.port))
    assert not db.delivered(*ids) and db.attempts() == 0


def test_postgres_away_at_the_start(own_db, store, start):
    db = own_db
    db.insert(archive(1))
    db.reconnect()
    db.cluster.stop()
    relay = start(db, store, "--sweep-interval", "300ms", "--min-backoff", "100ms", ready=False)
    relay.wait_not_ready("postgres")
    db.cluster.start()
    relay.wait_ready()
    db.wait_delivered()
    assert store.tuples() == all_tuples([1])


def test_openfga_cut_off_in_the_middle(db, store, toxiproxy, start):
    """Connections reset again and again while rows are delivered: nothing lost, nobody charged."""
    link = toxiproxy.link(store.server.port)
    start(db, store, "--sweep-interval", "300ms", "--min-backoff", "50ms", "--settle-timeout", "200ms", url=f"http://127.0.0.1:{link.port}")
    for first in range(0, 500, 50):
        db.insert(*archives(range(first, first + 50)))
        link.enable(False)
        link.enable(True)
    db.wait_delivered(timeout=20)
    assert store.tuples() == all_tuples(range(500))
    assert db.attempts() == 0


def test_openfga_that_swallows_everything(db, store, toxiproxy, start):
    """No answer and no close: the request times out, and after the link heals all arrives."""
    link = toxiproxy.link(store.server.port)
    flags = ("--sweep-interval", "300ms", "--min-backoff", "50ms", "--request-timeout", "500ms", "--settle-timeout", "200ms")
    relay = start(db, store, *flags, url=f"http://127.0.0.1:{link.port}")
    toxic = link.add("timeout", timeout=0)
    ids = db.insert(*archives(range(20)))
    relay.wait_not_ready("openfga")
    assert not db.delivered(*ids)
    link.remove(toxic)
    db.wait_delivered(*ids)
    assert store.tuples() == all_tuples(range(20))
    assert db.attempts() == 0


def test_postgres_cut_off(db, store, cluster, toxiproxy, start):
    """Every connection closed and refused for a moment, again and again."""
    link = toxiproxy.link(cluster.port)
    relay = start(cluster.url(db.name, port=link.port), store, "--sweep-interval", "500ms", "--min-backoff", "50ms")
    for n in range(10):
        db.insert(archive(2 * n))
        link.enable(False)
        db.insert(archive(2 * n + 1))
        link.enable(True)
        relay.wait_ready()
    db.wait_delivered()
    assert store.tuples() == all_tuples(range(20))


def test_slow_links_deliver_all_the_same(db, store, cluster, toxiproxy, start):
    postgres, openfga = toxiproxy.link(cluster.port), toxiproxy.link(store.server.port)
    postgres.add("latency", latency=30)
    openfga.add("latency", latency=50)
    start(cluster.url(db.name, port=postgres.port), store, "--sweep-interval", "1h", url=f"http://127.0.0.1:{openfga.port}")
    db.insert(*archives(range(300)))
    db.wait_delivered(timeout=10)
    assert store.tuples() == all_tuples(range(300))
