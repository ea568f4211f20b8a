"""From a committed row to OpenFGA."""

import json
import time

import pytest

from process import stays, wait_until, within
from proxy import Reply, refusal
from relay import PATIENCE
from rows import all_tuples, archive, archive_tuples, archives, deletes, key, tuples_of, viewer, writes

pytestmark = pytest.mark.asan


@pytest.mark.alone
def test_a_notification_delivers_within_a_second_in_one_request(db, store, proxy, start):
    start(db, store, "--sweep-interval", "1h", url=proxy.url)
    store.write(("user:anne", "member", "organization:acme"))

    def delivers(n):
        db.insert(archive(n))
        wait_until(lambda: store.check("user:anne", "can_read", f"archive:a{n}"))

    within(PATIENCE, delivers)
    db.wait_delivered()
    assert all(sorted(e.tuples) == sorted(archive_tuples(n)) for n, e in enumerate(proxy.writes))
    assert db.attempts() == 0


def test_a_rolled_back_row_is_never_sent(db, store, proxy, start):
    start(db, store, "--sweep-interval", "200ms", url=proxy.url)
    with pytest.raises(RuntimeError):
        with db.transaction() as transaction:
            db.insert(archive(1), connection=transaction)
            raise RuntimeError
    db.insert(archive(2))
    db.wait_delivered()
    stays(lambda: set(proxy.sent()) == set(archive_tuples(2)), 0.5)


def test_an_uncommitted_row_waits_for_its_commit_and_holds_up_nobody(db, store, start):
    start(db, store, "--sweep-interval", "1h")
    with db.transaction() as transaction:
        lower = db.insert(archive(1), connection=transaction)
        higher = db.insert(archive(2))
        db.wait_delivered(*higher)
        assert not store.has(*archive_tuples(1)[0])
    db.wait_delivered(*lower)
    assert store.tuples() == all_tuples([1, 2])


def test_without_the_trigger_the_sweep_delivers(bare_db, store, start):
    relay = start(bare_db, store, "--sweep-interval", "300ms")
    bare_db.insert(archive(1))
    bare_db.wait_delivered()
    assert relay.metric("relay_notifications_total") == 0


def test_the_trigger_dropped_while_running(db, store, start):
    start(db, store, "--sweep-interval", "300ms")
    trigger = db.value("SELECT tgname FROM pg_trigger WHERE tgrelid = 'fga_outbox'::regclass AND NOT tgisinternal")
    db.execute(f'DROP TRIGGER "{trigger}" ON fga_outbox')
    db.insert(archive(1))
    db.wait_delivered()


def test_no_listen_only_sweeps(db, store, start):
    relay = start(db, store, "--no-listen", "--sweep-interval", "300ms")
    db.insert(archive(1))
    db.wait_delivered()
    assert relay.metric("relay_listening") == 0
    assert relay.metric("relay_notifications_total") == 0
    assert not db.value("SELECT exists (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'relay listen')")


def test_what_was_there_before_the_start_is_delivered_at_once(db, store, start):
    db.insert(*archives(range(250)))
    start(db, store, "--sweep-interval", "1h")
    db.wait_delivered()
    assert store.tuples() == all_tuples(range(250))


def test_an_empty_row_is_done_without_a_request(db, store, proxy, start):
    start(db, store, "--sweep-interval", "1h", url=proxy.url)
    ids = db.insert({}, {"writes": []}, {"writes": [], "deletes": []}, {"writes": None})
    db.wait_delivered(*ids)
    assert proxy.writes == []
    assert db.attempts() == 0


@pytest.mark.parametrize("payload, reason", [
    ("null", "null"),
    ('"text"', "string"),
    ("[]", "array"),
    ("17", "number"),
    ('{"writes":{}}', "writes"),
    ('{"writes":[17]}', "writes[0]"),
    ('{"writes":[{"user":17,"relation":"parent","object":"archive:a"}]}', "writes[0].user"),
    ('{"deletes":[{"user":"user:u","relation":"viewer"}]}', "deletes[0]"),
    ('{"writes":[], "writes2":[]}', "writes2"),
    ('{"writes":[{"user":"user:u","relation":"viewer","object":"archive:a","colour":"red"}]}', "colour"),
    ('{"writes":[{"user":"user:u","relation":"viewer","object":"archive:a","condition":{"name":"not_expired","contexts":{}}}]}', "contexts"),
    ('{"writes":[{"user":"user u","relation":"viewer","object":"archive:a"}]}', "writes[0].user"),
    ('{"writes":[{"user":"user:u","relation":"viewer","object":"archive"}]}', "writes[0].object"),
])
def test_a_payload_that_is_not_one_is_refused_here_with_the_field_named(db, store, proxy, start, payload, reason):
    start(db, store, "--sweep-interval", "1h", "--min-backoff", "10m", "--max-backoff", "10m", url=proxy.url)
    bad, good = db.insert(payload, archive(1))
    db.wait_delivered(good)
    wait_until(lambda: db.row(bad)[1] == 1)
    processed, attempts, error = db.row(bad)
    assert processed is None and attempts == 1
    assert reason in error
    assert set(proxy.sent()) == set(archive_tuples(1))


def test_a_row_of_250_tuples(db, store, proxy, start):
    start(db, store, "--sweep-interval", "1h", "--lanes", "1", url=proxy.url)
    tuples = [viewer(f"u{n}", "a") for n in range(250)]
    before, large, after = db.insert(archive(1), writes(*tuples), archive(2))
    db.wait_delivered(before, large, after)
    assert store.tuples() == set(tuples) | all_tuples([1, 2])
    assert all(len(e.tuples) <= 100 for e in proxy.writes)
    assert sorted(proxy.sent()) == sorted(tuples + list(archive_tuples(1)) + list(archive_tuples(2)))
    assert len(proxy.writes) <= 4


def test_a_large_row_is_done_only_when_all_of_it_is(db, store, proxy, start):
    """The last request of three fails: the row stays pending, and comes again whole."""
    tuples = [viewer(f"u{n:03}", "a") for n in range(250)]
    down = [True]
    proxy.hook = lambda e: refusal(503, "unavailable", "later") if down[0] and e.is_write and tuples[-1] in e.tuples else None
    start(db, store, "--sweep-interval", "300ms", "--min-backoff", "100ms", url=proxy.url)
    id, = db.insert(writes(*tuples))
    wait_until(lambda: any(e.status == 503 for e in proxy.writes))
    stays(lambda: not db.delivered(id), 0.3)
    down[0] = False
    db.wait_delivered(id, timeout=30)
    assert store.tuples() == set(tuples)
    assert db.attempts() == 0


def test_requests_are_filled(db, store, proxy, start):
    db.insert(*archives(range(100)))
    start(db, store, "--sweep-interval", "1h", "--lanes", "1", url=proxy.url)
    db.wait_delivered()
    assert [len(e.tuples) for e in proxy.writes] == [100, 100]
    for e in proxy.writes:
        jobs = [t[0] for t in e.tuples if t[2].startswith("archive:")]
        assert sorted(jobs) == sorted(t[2] for t in e.tuples if t[2].startswith("capture_job:")), "a row's tuples travel together"


def test_a_smaller_limit_of_tuples(db, store, proxy, start):
    db.insert(*archives(range(10)))
    start(db, store, "--max-tuples-per-write", "5", "--lanes", "1", url=proxy.url)
    db.wait_delivered()
    assert [len(e.tuples) for e in proxy.writes] == [4] * 5
    assert store.tuples() == all_tuples(range(10))


def test_tuples_are_sorted_in_a_request(db, store, proxy, start):
    db.insert(*archives(range(30, 0, -1)))
    start(db, store, "--lanes", "1", url=proxy.url)
    db.wait_delivered()
    request, = proxy.writes
    assert request.tuples == sorted(request.tuples, key=lambda t: (t[2], t[1], t[0]))


def conditional(n, context=None, name="not_expired"):
    condition = {"name": name}
    if context is not None:
        condition["context"] = context
    return {"writes": [key(f"user:u{n}", "viewer", f"archive:a{n}", condition)]}


def test_large_contexts_bound_a_request_in_bytes(db, store, proxy, start):
    db.insert(*[conditional(n, {"expires_at": "2100-01-01T00:00:00Z", "pad": "x" * 20000}) for n in range(60)])
    start(db, store, url=proxy.url)
    wait_until(lambda: len(proxy.writes) >= 3)
    assert all(len(e.body) <= 410_000 for e in proxy.writes)
    wait_until(lambda: sum(len(e.tuples) for e in proxy.writes) >= 60, 30)
    assert max(len(e.tuples) for e in proxy.writes) > 5


def test_what_a_claim_leaves_for_its_bytes_comes_next(db, store, start):
    """It is locked by that claim, so that another lane does not find it meanwhile; and the sweep is off."""
    start(db, store, "--sweep-interval", "1h", "--batch-bytes", "1KiB")
    for first in range(0, 100, 20):
        db.wait_delivered(*db.insert(*archives(range(first, first + 20))))


def test_a_context_reaches_openfga_as_the_text_it_was(db, store, proxy, start):
    proxy.hook = lambda e: Reply() if e.is_write else None
    start(db, store, url=proxy.url)
    db.insert('{"writes":[{"user":"user:u","relation":"viewer","object":"archive:a","condition":{"name":"not_expired",'
              '"context":{"large":9007199254740993,"fine":0.1000000000000000055511151231257827,"text":"ä\\n\\"","deep":{"list":[1,null,true]}}}}]}')
    db.wait_delivered()
    body, = [e.body.decode() for e in proxy.writes]
    assert "9007199254740993" in body
    assert "0.1000000000000000055511151231257827" in body
    context = json.loads(body)["writes"]["tuple_keys"][0]["condition"]["context"]
    assert context["text"] == 'ä\n"' and context["deep"] == {"list": [1, None, True]}


def test_no_context_is_an_empty_one(db, store, proxy, start):
    start(db, store, url=proxy.url)
    ids = db.insert(conditional(1), conditional(2, {}), conditional(3, {"expires_at": "2100-01-01T00:00:00Z"}))
    db.wait_delivered(*ids)
    found = {t["user"]: t["condition"] for e in proxy.writes for t in json.loads(e.body)["writes"]["tuple_keys"]}
    assert found["user:u1"] == {"name": "not_expired", "context": {}} == found["user:u2"]
    assert found["user:u3"]["context"] == {"expires_at": "2100-01-01T00:00:00Z"}
    assert store.keys(user="user:u3", relation="viewer", object="archive:a3")[0]["condition"]["context"] == {"expires_at": "2100-01-01T00:00:00Z"}


def test_the_last_word_wins_within_a_backlog(db, store, start):
    tuples = [viewer(f"u{n}", "a") for n in range(4)]
    db.insert(
        writes(tuples[0]), deletes(tuples[0]),
        deletes(tuples[1]), writes(tuples[1]),
        writes(tuples[2]), deletes(tuples[2]), writes(tuples[2]), deletes(tuples[2]),
        writes(tuples[3]), writes(tuples[3]), deletes(tuples[3]), writes(tuples[3]),
    )
    start(db, store)
    db.wait_delivered()
    assert store.tuples() == {tuples[1], tuples[3]}


def test_the_last_word_wins_one_by_one(db, store, start):
    """The same tuple again and again, while the relay delivers."""
    start(db, store, "--sweep-interval", "1h")
    t = viewer("u", "a")
    for n in range(60):
        db.insert(writes(t) if n % 2 == 0 else deletes(t))
    db.wait_delivered()
    assert store.tuples() == set()


def test_a_row_that_changes_a_condition(db, store, proxy, start):
    """The same tuple deleted and written by one row: two requests, the delete first."""
    start(db, store, url=proxy.url)
    first = key("user:u", "viewer", "archive:a")
    second = key("user:u", "viewer", "archive:a", {"name": "not_expired", "context": {"expires_at": "2100-01-01T00:00:00Z"}})
    db.insert({"writes": [first]})
    db.wait_delivered()
    db.insert({"writes": [second], "deletes": [first]})
    db.wait_delivered()
    assert [bool(e.deleted) for e in proxy.writes] == [False, True, False]
    stored, = store.keys()
    assert stored["condition"]["name"] == "not_expired"


def test_a_deleted_tuple_may_name_its_condition(db, store, start):
    """OpenFGA does not look at it, and a revocation must not fail for it."""
    written = key("user:u", "viewer", "archive:a", {"name": "not_expired", "context": {"expires_at": "2100-01-01T00:00:00Z"}})
    start(db, store)
    db.insert({"writes": [written]})
    db.wait_delivered()
    assert store.tuples()
    db.insert({"deletes": [written]})
    db.wait_delivered()
    assert store.tuples() == set()


def test_redelivery_is_harmless(db, store, start):
    relay = start(db, store)
    db.insert(archive(1), deletes(viewer("nobody", "a")))
    wait_until(lambda: relay.metric("relay_rows_delivered_total") == 2)  # until then the relay takes them for its own
    db.execute("UPDATE fga_outbox SET processed_at = NULL")
    db.insert({})
    db.wait_delivered()
    assert store.tuples() == all_tuples([1])
    assert db.attempts() == 0


def test_processed_rows_stay(db, store, start):
    """processed_at is when the transaction began that claimed the row, which may be before the row was inserted."""
    before = db.value("SELECT now()")
    start(db, store)
    ids = db.insert(*archives(range(20)))
    db.wait_delivered(*ids)
    assert db.value("SELECT count(*) FROM fga_outbox") == 20
    assert db.value("SELECT count(*) FROM fga_outbox WHERE processed_at >= %s AND processed_at <= now()", before) == 20


def test_every_request_makes_redelivery_harmless(db, store, proxy, start):
    start(db, store, url=proxy.url)
    db.insert(writes(viewer("u", "a")), deletes(viewer("v", "a")))
    db.wait_delivered()
    for e in proxy.writes:
        body = json.loads(e.body)
        assert body["authorization_model_id"] == store.model_id
        for part, option in (("writes", "on_duplicate"), ("deletes", "on_missing")):
            if part in body:
                assert body[part][option] == "ignore" and tuples_of(e.body, part)
