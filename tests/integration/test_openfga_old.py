"""OpenFGA 1.9.5 does not know the options that make redelivery harmless, and refuses a request for one tuple that is there already, or
gone already: relay says so once, and delivers all the same, down to single tuples where it must."""

import json
import random
import threading

import pytest

import openfga
from process import stays, wait_until
from proxy import Drop, Lose, refusal
from rows import all_tuples, archive, archives, deletes, key, unknown, viewer, writes

pytestmark = pytest.mark.asan

QUICK = ("--sweep-interval", "300ms", "--min-backoff", "100ms", "--max-backoff", "500ms", "--settle-timeout", "200ms")
WARNING = "1.10"
LATER = {"name": "not_expired", "context": {"expires_at": "2100-01-01T00:00:00Z"}}
EARLIER = {"name": "not_expired", "context": {"expires_at": "2030-01-01T00:00:00Z"}}


@pytest.fixture(scope="module")
def old_fga(cluster):
    made = openfga.Server(database=cluster.create(prefix="openfga"), binary=openfga.old(), flags=openfga.PATIENT)
    yield made
    made.close()


@pytest.fixture
def store(old_fga):
    return old_fga.create_store()


def warnings(relay):
    return [line for line in relay.log(level="warning") if WARNING in line["msg"]]


def stored(store):
    """{(user, relation, object): its condition or None}"""
    return {(t["user"], t["relation"], t["object"]): t.get("condition") for t in store.keys()}


def replay(payloads):
    """What the rows leave behind, one after the other."""
    left = {}
    for payload in payloads:
        for t in payload.get("deletes", []):
            left.pop((t["user"], t["relation"], t["object"]), None)
        for t in payload.get("writes", []):
            left[t["user"], t["relation"], t["object"]] = t.get("condition")
    return left


def test_it_is_recognised_and_said_once(db, store, start):
    relay = start(db, store, *QUICK)
    db.insert(archive(1))
    db.wait_delivered()
    sweeps = relay.metric("relay_sweeps_total")
    wait_until(lambda: relay.metric("relay_sweeps_total") > sweeps + 2)
    assert len(warnings(relay)) == 1
    status, answer = relay.readyz()
    assert status == 200
    assert len(answer["warnings"]) == 1 and "upgrade" in answer["warnings"][0] and WARNING in answer["warnings"][0]


def test_a_server_of_today_is_not_warned_of(db, memory_fga, start):
    relay = start(db, memory_fga.create_store(), *QUICK)
    assert relay.readyz()[1]["warnings"] == []
    assert not warnings(relay)


def test_an_upgrade_is_noticed(db, cluster, start, make_fga):
    server = make_fga(database=cluster.create(prefix="openfga"), binary=openfga.old())
    store = server.create_store()
    relay = start(db, store, *QUICK)
    db.insert(archive(1))
    db.wait_delivered()
    assert relay.readyz()[1]["warnings"]
    server.stop()
    server.binary = openfga.current()
    server.migrate()
    ids = db.insert(archive(1), archive(2))
    relay.wait_not_ready("openfga")
    server.start()
    db.wait_delivered(*ids)
    wait_until(lambda: relay.readyz()[1]["warnings"] == [])
    assert len(warnings(relay)) == 1
    assert store.tuples() == all_tuples([1, 2])


def test_a_version_that_cannot_be_asked_for_is_asked_for_later(db, store, make_proxy, start):
    """It keeps nothing waiting."""
    proxy = make_proxy(store)

    def hook(e):
        if e.is_probe:
            raise Drop

    proxy.hook = hook
    relay = start(db, store, *QUICK, url=proxy.url)
    db.insert(archive(1))
    db.wait_delivered()
    assert not warnings(relay)
    proxy.hook = None
    wait_until(lambda: warnings(relay))


def test_rows_that_are_there_already(db, store, start):
    """All of a batch twice, and a third time together with new rows: delivered, and charged to nobody."""
    rows = archives(range(50))
    start(db, store, *QUICK)
    for more in (rows, rows, rows + archives(range(50, 60))):
        db.insert(*more)
        db.wait_delivered(timeout=20)
    assert store.tuples() == all_tuples(range(60))
    assert db.attempts() == 0


def test_deletes_of_what_is_gone_already(db, store, start):
    tuples = [viewer(f"u{n}", "a") for n in range(60)]
    start(db, store, *QUICK)
    for more in ([writes(t) for t in tuples], [deletes(t) for t in tuples[::2]], [deletes(t) for t in tuples]):
        db.insert(*more)
        db.wait_delivered(timeout=20)
    assert store.tuples() == set()
    assert db.attempts() == 0


def test_a_row_that_is_half_there(db, store, start):
    """Its own halves go one by one."""
    store.write(("organization:acme", "parent", "capture_job:j1"), viewer("gone", "a"))
    start(db, store, *QUICK)
    ids = db.insert(archive(1), {**writes(viewer("new", "a")), **deletes(viewer("gone", "a"), viewer("never", "a"))})
    db.wait_delivered(*ids)
    assert store.tuples() == all_tuples([1]) | {viewer("new", "a")}
    assert db.attempts() == 0


def test_a_bad_row_among_good_ones(db, store, start):
    """Some of the good ones are there already."""
    start(db, store, *QUICK)
    db.insert(*archives(range(0, 40, 3)))
    db.wait_delivered()
    rows = archives(range(40))
    rows.insert(17, unknown(1))
    ids = db.insert(*rows)
    bad = ids.pop(17)
    db.wait_delivered(*ids, timeout=20)
    wait_until(lambda: db.row(bad)[1] >= 1)
    assert "spaceship" in db.row(bad)[2]
    assert db.value("SELECT count(*) FROM fga_outbox WHERE attempts > 0") == 1
    assert store.tuples() == all_tuples(range(40))


def test_killed_between_the_answer_and_the_mark(db, store, make_proxy, start):
    """Carried out, and the relay is gone before it could mark the rows: the next one sends all of them again."""
    proxy = make_proxy(store)
    first = []
    done = threading.Event()

    def hook(e):
        if not e.is_write or e.is_probe or done.is_set():
            return None
        done.set()
        store.post("write", json.loads(e.body))
        first[0].kill()
        raise Drop

    changed = viewer("changed", "a")
    gone = viewer("gone", "a")
    store.post("write", {"writes": {"tuple_keys": [key(*changed, EARLIER), key(*gone)]}})
    proxy.hook = hook
    first.append(start(db, store, *QUICK, url=proxy.url))
    db.insert(*archives(range(20)), deletes(gone), {"deletes": [key(*changed)], "writes": [key(*changed, LATER)]})
    wait_until(lambda: first[0].process.poll() is not None, 20)
    assert db.pending() == 22
    start(db, store, *QUICK, url=proxy.url)
    db.wait_delivered(timeout=20)
    assert stored(store) == {**{t: None for t in all_tuples(range(20))}, changed: LATER}
    assert db.attempts() == 0


def test_an_answer_that_was_lost(db, store, make_proxy, start):
    proxy = make_proxy(store)
    lost = []

    def hook(e):
        if e.is_write and not e.is_probe and len(lost) < 2:
            lost.append(e)
            raise Lose

    proxy.hook = hook
    start(db, store, *QUICK, url=proxy.url)
    db.insert(*archives(range(30)))
    db.wait_delivered(timeout=20)
    assert lost
    assert store.tuples() == all_tuples(range(30))
    assert db.attempts() == 0


def with_parameters(model):
    model["conditions"]["not_expired"]["parameters"].update({
        "n": {"type_name": "TYPE_NAME_LIST", "generic_types": [{"type_name": "TYPE_NAME_DOUBLE"}]},
        "m": {"type_name": "TYPE_NAME_MAP", "generic_types": [{"type_name": "TYPE_NAME_ANY"}]},
    })


def test_conditions(db, store, start):
    """The answer "already exists" does not say with which condition: the same one is delivery, another one is that row's fault."""
    same, other, none = (viewer(name, "a") for name in ("same", "other", "none"))
    rich = {"name": "not_expired", "context": {"expires_at": "2100-01-01T00:00:00Z", "n": [1, 2.5, 1e21], "m": {"ü": True, "deep": {"x": [1, "2"]}}}}
    store.write_model(with_parameters)
    start(db, store, *QUICK)
    first = [{"writes": [key(*same, rich)]}, {"writes": [key(*other, EARLIER)]}, writes(none), {"writes": [key(*viewer("bare", "a"), {"name": "not_expired"})]}]
    db.insert(*first)
    db.wait_delivered()
    again = db.insert(*first)
    db.wait_delivered(*again)
    changed, plain, conditional, good = db.insert(
        {"writes": [key(*other, LATER)]}, writes(same), {"writes": [key(*none, LATER)]}, archive(1)
    )
    db.wait_delivered(good)
    bad = (changed, plain, conditional)
    wait_until(lambda: all(db.row(id)[1] >= 1 for id in bad))
    assert all("different condition" in db.row(id)[2] for id in bad), db.report()
    assert db.value("SELECT count(*) FROM fga_outbox WHERE attempts > 0") == 3
    behind, = db.insert(deletes(other))
    stays(lambda: not db.delivered(behind), 0.5)
    assert stored(store) == {**replay(first + [archive(1)]), viewer("bare", "a"): {"name": "not_expired", "context": {}}}, "as it was"
    db.execute("UPDATE fga_outbox SET payload = %s WHERE id = %s", json.dumps({"deletes": [key(*other)], "writes": [key(*other, LATER)]}), changed)
    db.wait_delivered(changed, behind)
    assert other not in stored(store)


def test_a_tuple_that_cannot_be_read(db, store, make_proxy, start):
    """A stub answers the question how the tuple stands: no real server refuses that alone. Nothing is delivered unseen, nobody charged."""
    t = viewer("u", "a")
    store.write(t)
    proxy = make_proxy(store)
    proxy.hook = lambda e: refusal(500, "internal_error", "Internal Server Error") if e.path.endswith("/read") else None
    relay = start(db, store, *QUICK, url=proxy.url)
    ids = db.insert(writes(t))
    wait_until(lambda: [e for e in proxy.exchanges if e.path.endswith("/read")])
    relay.wait_not_ready("internal_error")
    assert not db.delivered(*ids)
    proxy.hook = None
    db.wait_delivered(*ids)
    assert db.attempts() == 0


@pytest.mark.slow
def test_a_history_is_as_its_replay(db, store, make_proxy, start):
    """Adding, removing and changing twenty tuples in full batches, sent twice now and then, by two relays, one of which comes and
    goes."""
    chance = random.Random(5)
    proxy = make_proxy(store)

    def hook(e):
        if e.is_write and not e.is_probe and chance.random() < 0.1:
            raise Lose

    proxy.hook = hook
    hot = [viewer(f"u{n}", "hot") for n in range(20)]
    rows, conditions = [], {}
    for n in range(300):
        t = chance.choice(hot)
        action = chance.random()
        if action < 0.4:
            rows.append(archive(n % 60))
        elif action < 0.6:
            rows.append(deletes(t))
            conditions.pop(t, None)
        elif t in conditions and action < 0.8:
            rows.append({"writes": [key(*t, conditions[t])]})
        else:
            conditions[t] = chance.choice([None, EARLIER, LATER])
            rows.append({"deletes": [key(*t)], "writes": [key(*t, conditions[t])]})
    flags = (*QUICK, "--lanes", "2")
    start(db, store, *flags, url=proxy.url)
    for first in range(0, 300, 100):
        mortal = start(db, store, *flags, url=proxy.url)
        delivered = db.value("SELECT count(*) FROM fga_outbox WHERE processed_at IS NOT NULL")
        db.insert(*rows[first:first + 100])
        wait_until(lambda: db.value("SELECT count(*) FROM fga_outbox WHERE processed_at IS NOT NULL") > delivered + 5, 30)
        mortal.stop()
    db.wait_delivered(timeout=60)
    assert stored(store) == replay(rows)
    assert db.attempts() == 0
