"""What bad rows cost, and what is said of them."""

import collections
import signal
import threading

import pytest

from process import wait_until
from proxy import refusal
from rows import all_tuples, archive, archives, deletes, key, unknown, viewer, writes

pytestmark = pytest.mark.asan

SUSPECT = "the authorization model is the suspect"
NEVER = ("--sweep-interval", "1h", "--min-backoff", "5m")


def conditional(n, context):
    return {"writes": [key(f"user:u{n}", "viewer", f"archive:c{n}", {"name": "not_expired", "context": context})]}


def refused(db):
    return db.value("SELECT count(*) FROM fga_outbox WHERE processed_at IS NULL AND attempts > 0 AND last_error IS NOT NULL")


def times_sent(proxy):
    return collections.Counter(t for e in proxy.writes for t in set(e.tuples))


@pytest.mark.parametrize("bad", [unknown(1), conditional(1, {"unheard_of": 1})], ids=["type", "one tuple"])
def test_one_bad_row_among_a_hundred_costs_its_neighbours_one_request_more(db, store, proxy, start, bad):
    rows = archives(range(99))
    rows.insert(40, bad)
    ids = db.insert(*rows)
    start(db, store, *NEVER, "--lanes", "1", url=proxy.url)
    bad_id = ids.pop(40)
    db.wait_delivered(*ids)
    wait_until(lambda: db.row(bad_id)[1] == 1)
    tuples = times_sent(proxy)
    assert max(tuples[t] for t in all_tuples(range(99))) <= 2
    assert len(proxy.writes) <= 4, [len(e.tuples) for e in proxy.writes]
    assert [e for e in proxy.writes if len(e.tuples) == 1], "it went alone"
    assert db.attempts() == 1


def test_without_a_name_it_is_found_by_halving(db, store, proxy, start):
    """OpenFGA names the tuple, so a proxy refuses in its place."""
    poison = viewer("poison", "a")
    proxy.hook = lambda e: refusal(400, "validation_error", "one of them is wrong") if e.is_write and poison in e.tuples else None
    rows = archives(range(49))
    rows.insert(20, writes(poison))
    ids = db.insert(*rows)
    start(db, store, *NEVER, "--lanes", "1", url=proxy.url)
    bad_id = ids.pop(20)
    db.wait_delivered(*ids)
    wait_until(lambda: db.row(bad_id)[1] == 1)
    assert len(proxy.writes) <= 1 + 2 * 6
    assert max(times_sent(proxy)[t] for t in all_tuples(range(49)) if t[2].startswith("archive:")) <= 1 + 6


def test_a_refused_row_goes_alone_from_then_on(db, store, proxy, start):
    relay = start(db, store, *NEVER, url=proxy.url)
    bad = db.insert(*[unknown(n) for n in range(5)])
    wait_until(lambda: refused(db) == 5)
    before = len(proxy.writes)
    good = db.insert(*archives(range(20)))
    relay.signal(signal.SIGHUP)
    db.wait_delivered(*good)
    wait_until(lambda: db.value("SELECT min(attempts) FROM fga_outbox WHERE id = ANY(%s)", bad) == 2)
    after = proxy.writes[before:]
    assert all(len(e.tuples) == 1 for e in after if any("spaceship" in t[0] for t in e.tuples))
    assert all(e.status == 200 for e in after if len(e.tuples) > 1)


@pytest.mark.parametrize("head", [False, True], ids=["among them", "before them"])
def test_as_many_bad_rows_as_good_ones_leave_the_good_ones_together(db, store, proxy, start, head):
    """A good row is in three requests at most, and these are full enough. That the model lacks the type is found out once."""
    good, bad = archives(range(200)), [unknown(n) for n in range(200)]
    rows = bad + good if head else [row for pair in zip(bad, good) for row in pair]
    ids = db.insert(*rows)
    start(db, store, *NEVER, "--lanes", "1", url=proxy.url)
    db.wait_delivered(*(ids[200:] if head else ids[1::2]), timeout=30)
    accepted = [e for e in proxy.writes if e.status == 200]
    assert len(accepted) <= 12, [len(e.tuples) for e in accepted]
    assert max(times_sent(proxy)[t] for t in all_tuples(range(200))) <= 3
    assert len([e for e in proxy.writes if e.status == 400 and len(e.tuples) > 1]) <= 2
    wait_until(lambda: refused(db) == 200, 30)
    assert db.attempts() == 200
    assert store.tuples() == all_tuples(range(200))


def test_refused_rows_leave_lanes_and_requests_to_the_others(db, store, proxy, start):
    """While refused rows are tried again, new rows get through though no refusal is answered at all."""
    relay = start(db, store, *NEVER, "--request-timeout", "60s", url=proxy.url)
    db.insert(*[unknown(n) for n in range(60)])
    wait_until(lambda: refused(db) == 60)
    release = threading.Event()

    def hook(e):
        if e.is_write and any(t[0].startswith("spaceship:") for t in e.tuples):
            release.wait(60)
        return None

    proxy.hook = hook
    before = len(proxy.writes)
    relay.signal(signal.SIGHUP)
    wait_until(lambda: len(proxy.writes) > before)
    good = db.insert(*archives(range(10)))
    db.wait_delivered(*good)
    assert not [e for e in proxy.writes[before:] if e.status == 400], "they were all under way"
    release.set()
    wait_until(lambda: db.value("SELECT min(attempts) FROM fga_outbox WHERE attempts > 0") == 2, 20)


def without_archives(model):
    model["type_definitions"] = [t for t in model["type_definitions"] if t["type"] in ("user", "organization")]


@pytest.mark.parametrize("named", [True, False], ids=["FGA_MODEL_ID", "the latest"])
def test_a_wrong_model_is_said_to_be_the_suspect_once(db, store, start, named):
    wrong = store.write_model(without_archives)
    relay = start(db, store, *NEVER, FGA_MODEL_ID=wrong if named else None)
    db.insert(*archives(range(150)))
    wait_until(lambda: refused(db) == 150, 30)
    db.insert(*archives(range(200, 260)))
    wait_until(lambda: refused(db) == 210, 30)
    relay.signal(signal.SIGHUP)
    wait_until(lambda: db.value("SELECT min(attempts) FROM fga_outbox") == 2, 30)
    said, = wait_until(lambda: [line for line in relay.log(level="warning") if SUSPECT in line["msg"]])
    assert said["reason"] == "type 'capture_job' not found"
    assert int(said["refused"]) >= 20 and said["delivered"] == "0"
    assert said["model"] == (wrong if named else "latest")
    assert "SIGHUP" in said["hint"] and ("FGA_MODEL_ID" in said["hint"]) == named
    if not named:
        store.write_model()
        relay.signal(signal.SIGHUP)
        db.wait_delivered(timeout=20)


def test_some_bad_rows_among_many_good_ones_accuse_nobody(db, store, start):
    relay = start(db, store, "--sweep-interval", "200ms", "--min-backoff", "100ms", "--max-backoff", "200ms")
    for round in range(4):
        rows = archives(range(100 * round, 100 * round + 100))
        ids = db.insert(*rows[:50], *[unknown(10 * round + n) for n in range(10)], *rows[50:])
        db.wait_delivered(*ids[:50], *ids[60:])
    wait_until(lambda: db.value("SELECT min(attempts) FROM fga_outbox WHERE processed_at IS NULL") >= 5, 20)
    assert not [line for line in relay.log() if SUSPECT in line["msg"]]


def test_unreadable_rows_are_not_the_models_fault(db, store, start):
    relay = start(db, store, *NEVER)
    db.insert(*["null"] * 60)
    wait_until(lambda: refused(db) == 60)
    assert not [line for line in relay.log() if SUSPECT in line["msg"]]


def test_a_repeated_tuple_is_written_once(db, store, proxy, start):
    t, other = viewer("u", "a"), viewer("v", "a")
    start(db, store, *NEVER, url=proxy.url)
    ids = db.insert(writes(t, t, other), deletes(t, t))
    db.wait_delivered(*ids)
    assert [sorted(e.tuples) for e in proxy.writes] == [sorted([t, other]), []]
    assert [e.deleted for e in proxy.writes] == [[], [t]]
    assert store.tuples() == {other}
    assert db.attempts() == 0


def test_a_tuple_repeated_with_another_condition_is_refused(db, store, proxy, start):
    """Which one is meant is not said: neither is written."""
    first = key(*viewer("u", "a"))
    second = key(*viewer("u", "a"), {"name": "not_expired", "context": {}})
    start(db, store, *NEVER, url=proxy.url)
    bad, good = db.insert({"writes": [first, second]}, archive(1))
    db.wait_delivered(good)
    wait_until(lambda: db.row(bad)[1] == 1)
    assert "writes[1]" in db.row(bad)[2]
    assert store.tuples() == all_tuples([1])


def test_a_row_that_deletes_and_writes_many_tuples(db, store, proxy, start):
    """Larger than a request, and every tuple in both lists: all deletes come before the first write."""
    old = [viewer(f"u{n:03}", "a") for n in range(120)]
    start(db, store, *NEVER, url=proxy.url)
    db.insert(writes(*old))
    db.wait_delivered()
    before = len(proxy.writes)
    condition = {"name": "not_expired", "context": {"expires_at": "2100-01-01T00:00:00Z"}}
    db.insert({"writes": [key(*t, condition) for t in old], "deletes": [key(*t) for t in old]})
    db.wait_delivered()
    sent = [(len(e.deleted), len(e.tuples)) for e in proxy.writes[before:]]
    assert sent == [(100, 0), (20, 0), (0, 100), (0, 20)]
    assert {t["user"]: t["condition"]["name"] for t in store.keys()} == {t[0]: "not_expired" for t in old}
    assert db.attempts() == 0


def test_a_row_of_more_bytes_than_a_request(db, store, proxy, start):
    """Fewer tuples than a request may have, but more bytes than it is given: whole tuples in each, and marked when all are accepted."""
    context = {"expires_at": "2100-01-01T00:00:00Z"}
    users = [f"user:{n:02}" + "x" * 490 for n in range(90)]
    row = {"writes": [key(user, "viewer", f"archive:{'ü' * 120}{n}", {"name": "not_expired", "context": context}) for n, user in enumerate(users)]}
    start(db, store, *NEVER, url=proxy.url)
    id, = db.insert(row)
    db.wait_delivered(id)
    assert len(proxy.writes) > 1 and all(len(e.body) <= 400_000 for e in proxy.writes)
    assert sorted(t[0] for t in proxy.sent()) == sorted(users)
    assert {t["user"] for t in store.keys()} == set(users)
    assert db.attempts() == 0
