"""Whether notifications really arrive: the canary."""

import pytest

from pgbouncer import Pgbouncer
from process import stays, wait_until
from rows import all_tuples, archives

pytestmark = pytest.mark.asan

SEEN = 'relay_canaries_total{result="seen"}'
LOST = 'relay_canaries_total{result="lost"}'


@pytest.fixture
def pooler(cluster):
    """pooler(mode): PgBouncer in front of the cluster."""
    made = []

    def make(mode):
        made.append(Pgbouncer(cluster, mode))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_canary_comes_back_at_the_start_and_at_every_sweep(db, store, start):
    relay = start(db, store, "--sweep-interval", "100ms")
    wait_until(lambda: relay.metric(SEEN) >= 5)
    assert relay.metric(LOST) == 0
    assert relay.metric("relay_notifications_total") == 0


def test_without_listening_there_is_none(db, store, start):
    relay = start(db, store, "--no-listen", "--sweep-interval", "100ms")
    wait_until(lambda: relay.metric("relay_sweeps_total") >= 5)
    assert relay.metric(SEEN) == relay.metric(LOST) == 0


def test_others_do_not_confuse_it(db, cluster, store, start):
    """Several relays on one database, other channels, and the same channel in another database."""
    relays = [start(db, store, "--sweep-interval", "100ms") for _ in range(3)]
    other = cluster.create()
    for _ in range(20):
        db.execute("NOTIFY something_else, 'x'")
        other.execute("NOTIFY fga_outbox")
    for relay in relays:
        seen = relay.metric(SEEN)
        wait_until(lambda: relay.metric(SEEN) >= seen + 3)
        assert relay.metric(LOST) == 0
        assert relay.metric("relay_notifications_total") == 0
    other.close()


def test_behind_a_transaction_pooler_the_canary_tells_and_the_sweep_delivers(db, store, start, pooler):
    url = pooler("transaction").url(db.name)
    relay = start(url, store, "--sweep-interval", "500ms", ready=False)
    ids = db.insert(*archives(range(150)))
    db.wait_delivered(*ids)
    reasons = relay.wait_not_ready("notifications do not arrive", timeout=20)
    assert "pooler" in reasons
    seen = relay.metric(SEEN)
    db.wait_delivered(*db.insert(*archives(range(150, 200))))

    def goes_on():
        """Now and then a canary comes back, which proves nothing: an alert has to stay, and a hush would be held by somebody else's session."""
        metrics = relay.metrics()
        assert metrics["relay_listening"] == metrics["relay_hushes_total"] == metrics[SEEN] - seen == 0
        return metrics[LOST] >= 3

    wait_until(goes_on, 30)
    warnings = [line for line in relay.log(level="warning") if "notifications do not arrive" in str(line)]
    assert len(warnings) == 1, warnings
    assert store.tuples() == all_tuples(range(200))
    assert db.attempts() == 0


def test_no_prepare_works_behind_a_transaction_pooler_from_the_first_statement(db, store, start, pooler):
    url = pooler("transaction").url(db.name)
    relay = start(url, store, "--sweep-interval", "300ms", "--no-prepare", "--no-listen")
    db.wait_delivered(*db.insert(*archives(range(150))))
    assert relay.metric("relay_reconnections_total") == 0
    assert relay.log(level="warning") == []


def test_behind_a_session_pooler_all_works(db, store, start, pooler):
    relay = start(pooler("session").url(db.name), store, "--sweep-interval", "1h")
    wait_until(lambda: relay.metric(SEEN) == 1)
    db.wait_delivered(*db.insert(*archives(range(20))))
    wait_until(lambda: relay.metric("relay_notifications_total") >= 1)
    stays(lambda: relay.ready() and relay.metric(LOST) == 0, 0.5)


def test_a_mute_connection_is_replaced(db, store, start, toxiproxy, cluster):
    """Nothing arrives any more, and no error either: only the canary can tell."""
    def listeners():
        found = db.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'relay listen' AND datname = current_database()").fetchall()
        return {pid for pid, in found}

    link = toxiproxy.link(cluster.port)
    relay = start(db, store, "--sweep-interval", "500ms", DATABASE_URL=cluster.url(db.name, port=link.port))
    wait_until(lambda: relay.metric(SEEN) >= 1)
    sessions = listeners()
    assert len(sessions) == 1
    mute = [link.add("timeout", stream, timeout=0) for stream in ("downstream", "upstream")]
    wait_until(lambda: relay.metric(LOST) >= 1 or relay.metric("relay_reconnections_total") >= 1, 60)
    for toxic in mute:
        link.remove(toxic)
    relay.wait_ready(timeout=60)
    db.wait_delivered(*db.insert(*archives(range(5))), timeout=20)
    wait_until(lambda: listeners() and not sessions & listeners(), 30)
