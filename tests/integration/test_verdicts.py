"""What an answer of OpenFGA means, seen from outside: a proxy answers in its place."""

import json
import threading
import time
from email.utils import formatdate

import pytest

from process import stays, wait_until
from proxy import Drop, Lose, Reply, refusal
from rows import all_tuples, archive, archives, deletes, viewer, writes

pytestmark = pytest.mark.asan

QUICK = ("--sweep-interval", "300ms", "--min-backoff", "100ms", "--max-backoff", "500ms")


def times(n, reply):
    """A hook that answers the first n Writes itself."""
    left = [n]

    def hook(exchange):
        if exchange.is_write and not exchange.is_probe and left[0] > 0:
            left[0] -= 1
            if isinstance(reply, type):
                raise reply
            return reply
        return None

    return hook


@pytest.mark.parametrize("reply, n", [
    (Reply(502, "<html>Bad Gateway</html>", {"Content-Type": "text/html"}), 3),
    (Reply(503, "", {}), 3),
    (refusal(504, "deadline_exceeded", "timeout"), 3),
    (Reply(200, "<html>Please log in</html>", {"Content-Type": "text/html"}), 3),
    (Reply(302, "", {"Location": "http://127.0.0.1:1/login"}), 3),
    (refusal(500, "internal_error", "Internal Server Error"), 1),
    (refusal(400, "cancelled", "cancelled"), 3),
    (refusal(409, "Aborted", "transactional write failed due to conflict: tuple inserted by another transaction"), 3),
    (Drop, 3),
], ids=["502", "503", "504", "captive page", "redirect", "500", "cancelled", "race", "dropped"])
def test_the_destinations_fault_is_tried_again_and_charged_to_nobody(db, store, proxy, start, reply, n):
    proxy.hook = times(n, reply)
    start(db, store, *QUICK, "--settle-timeout", "100ms", url=proxy.url)
    ids = db.insert(archive(1))
    db.wait_delivered(*ids)
    assert len(proxy.writes) == n + 1
    assert db.row(ids[0])[1:] == (0, None)
    assert store.tuples() == all_tuples([1])


@pytest.mark.parametrize("header", ["seconds", "date"])
def test_retry_after_is_honoured(db, store, proxy, start, header):
    not_before = int(time.time()) + 3  # a date has whole seconds
    value = "2" if header == "seconds" else formatdate(not_before, usegmt=True)
    proxy.hook = times(1, refusal(429, "rate_limit_exceeded", "slow down", **{"Retry-After": value}))
    relay = start(db, store, *QUICK, url=proxy.url)
    db.insert(archive(1))
    wait_until(lambda: any("429" in line["reason"] for line in relay.log(msg="openfga", to="backoff")))  # until then another lane may send
    db.insert(archive(2))
    db.wait_delivered()
    first, second = [e.at for e in proxy.writes[:2]]
    if header == "seconds":
        assert second - first >= 1.9
    else:
        assert second >= time.monotonic() - time.time() + not_before - 0.1
    assert db.attempts() == 0


def test_nonsense_in_retry_after_is_ignored(db, store, proxy, start):
    proxy.hook = times(1, refusal(429, "rate_limit_exceeded", "slow down", **{"Retry-After": "tomorrow"}))
    start(db, store, *QUICK, url=proxy.url)
    db.insert(archive(1))
    db.wait_delivered()


def test_413_splits(db, store, proxy, start):
    """A proxy that takes at most ten tuples: all rows arrive, and none is charged."""
    proxy.hook = lambda e: Reply(413, "<html>Too large</html>", {"Content-Type": "text/html"}) if e.is_write and len(e.tuples) > 10 else None
    db.insert(*archives(range(60)))
    start(db, store, *QUICK, url=proxy.url)
    db.wait_delivered(timeout=20)
    assert store.tuples() == all_tuples(range(60))
    assert db.attempts() == 0


def test_a_servers_smaller_limit_is_learnt(db, make_fga, make_proxy, start):
    server = make_fga(flags=["--max-tuples-per-write", "20"])
    store = server.create_store()
    proxy = make_proxy(store)
    start(db, store, *QUICK, url=proxy.url)
    db.insert(*archives(range(100)))
    db.wait_delivered(timeout=20)
    refused = [e for e in proxy.writes if e.status == 400]
    assert refused
    db.insert(*archives(range(100, 300)))
    db.wait_delivered(timeout=20)
    assert [e for e in proxy.writes if e.status == 400] == refused, "it is asked for once"
    assert store.tuples() == all_tuples(range(300))
    assert db.attempts() == 0


def test_an_over_long_request_is_split_and_so_is_an_over_long_row(db, store, proxy, start):
    def hook(e):
        if e.is_write and len(e.body) > 3000:
            return refusal(500, "resource_exhausted", "grpc: received message larger than max (700000 vs. 616448)")
        return None

    proxy.hook = hook
    large = [viewer(f"{n:03}" + "x" * 300, "d") for n in range(12)]
    ids = db.insert(*archives(range(20)), writes(*large))
    start(db, store, *QUICK, url=proxy.url)
    db.wait_delivered(*ids)
    assert store.tuples() == all_tuples(range(20)) | set(large)
    assert db.attempts() == 0


def test_an_error_that_lasts_for_one_row_only_is_that_rows(db, store, proxy, start):
    """An internal error while the probe says that all is well: the row at fault is found, and the others arrive."""
    poison = viewer("poison", "a")
    proxy.hook = lambda e: refusal(500, "internal_error", "Internal Server Error") if e.is_write and poison in e.tuples else None
    bad, *good = db.insert(writes(poison), *archives(range(10)))
    start(db, store, *QUICK, "--settle-timeout", "100ms", url=proxy.url)
    db.wait_delivered(*good, timeout=20)
    wait_until(lambda: db.row(bad)[1] >= 1)
    assert all(db.row(id)[1] == 0 for id in good)
    assert store.tuples() == all_tuples(range(10))


def test_a_late_write_brings_nothing_back(db, store, proxy, start):
    """The first Write times out, and OpenFGA carries it out a second later: the delete that follows it must come last all the same."""
    t = viewer("u", "a")

    def hook(e):
        if proxy.writes and e is proxy.writes[0]:
            threading.Event().wait(1.5)
        return None

    proxy.hook = hook
    start(db, store, *QUICK, "--request-timeout", "300ms", "--settle-timeout", "8s", url=proxy.url)
    db.insert(writes(t))
    wait_until(lambda: proxy.writes)
    db.insert(deletes(t))
    db.wait_delivered(timeout=60)
    wait_until(lambda: proxy.writes[0].status == 200, what="it to be carried out")
    assert store.tuples() == set()
    assert db.attempts() == 0


def test_a_write_that_is_sent_twice_brings_nothing_back(db, store, proxy, start):
    """The kept connection ends, and the client sends the Write again by itself: what was sent first is carried out last of all."""
    t = viewer("u", "a")

    def hook(e):
        if [w for w in proxy.writes if w.tuples == [t]][:1] == [e]:
            proxy.cut()
            threading.Event().wait(1.5)
        return None

    relay = start(db, store, *QUICK, "--lanes", "1", "--settle-timeout", "8s", url=proxy.url)
    db.wait_delivered(*db.insert(archive(1)))
    proxy.hook = hook
    db.insert(writes(t))
    wait_until(lambda: len(proxy.writes) > 1)
    db.insert(deletes(t))
    db.wait_delivered(timeout=60)
    first, second = (e for e in proxy.writes if e.tuples == [t] and not e.deleted)
    assert second.status == 200 and relay.metric('relay_requests_total{verdict="retry"}') == 0
    wait_until(lambda: first.status == 200, what="it to be carried out")
    assert store.tuples() == all_tuples([1])
    assert db.attempts() == 0


def test_a_lost_answer_is_asked_for_again(db, store, proxy, start):
    """Carried out, and its answer lost: delivered once more, harmlessly."""
    proxy.hook = times(1, Lose)
    start(db, store, *QUICK, "--settle-timeout", "100ms", url=proxy.url)
    db.insert(archive(1))
    db.wait_delivered()
    assert [e.status for e in proxy.writes] == [200, 200]
    assert store.tuples() == all_tuples([1])
    assert db.attempts() == 0


def test_a_request_that_hangs_times_out(db, store, proxy, start):
    def hook(e):
        if proxy.writes and e is proxy.writes[0]:
            threading.Event().wait(3)
        return None

    proxy.hook = hook
    start(db, store, *QUICK, "--request-timeout", "500ms", "--settle-timeout", "100ms", url=proxy.url)
    db.insert(archive(1))
    db.wait_delivered(timeout=10)
    assert len(proxy.writes) >= 2
    assert db.attempts() == 0


def test_a_store_deleted_while_running_and_mended(db, memory_fga, make_proxy, start):
    """A deleted store accepts Writes and loses them: so it is asked for at every sweep, and nothing is claimed until it is there."""
    store = memory_fga.create_store()
    other = memory_fga.create_store()
    proxy = make_proxy(store)
    relay = start(db, store, *QUICK, url=proxy.url)
    db.insert(archive(1))
    db.wait_delivered()
    gone = [True]

    def hook(e):
        if not gone[0] and f"/stores/{store.id}" in e.path:
            e.path = e.path.replace(store.id, other.id)
            e.body = e.body.replace(store.model_id.encode(), other.model_id.encode())
            e.path = e.path.replace(store.model_id, other.model_id)
        return None

    proxy.hook = hook
    store.delete()
    relay.wait_not_ready(store.id)
    ids = db.insert(archive(2))
    stays(lambda: not db.delivered(*ids), 1)
    assert db.attempts() == 0
    gone[0] = False
    relay.wait_ready()
    db.wait_delivered(*ids)
    assert other.tuples() == all_tuples([2])


def test_a_refused_configuration_halts_and_resumes_by_itself(db, store, proxy, start):
    proxy.hook = lambda e: refusal(403, "forbidden", "the principal is not authorized") if e.is_write else None
    relay = start(db, store, *QUICK, url=proxy.url, ready=False)
    ids = db.insert(*archives(range(10)))
    reasons = relay.wait_not_ready("403")
    assert "not authorized" in reasons or "forbidden" in reasons
    began, writes_sent = time.monotonic(), len(proxy.writes)
    stays(lambda: len(proxy.writes) - writes_sent <= 8 * max(1, time.monotonic() - began), 1)
    assert db.attempts() == 0
    proxy.hook = None
    db.wait_delivered(*ids)
    relay.wait_ready()


@pytest.mark.parametrize("path", ["stores", "model"])
def test_nothing_is_claimed_before_store_and_model_have_answered(db, store, proxy, start, path):
    def hook(e):
        if e.method == "GET" and ("authorization-models" in e.path) == (path == "model"):
            return Reply(503, "", {})
        return None

    proxy.hook = hook
    relay = start(db, store, *QUICK, url=proxy.url, ready=False)
    ids = db.insert(archive(1))
    relay.wait_not_ready("503")
    assert not proxy.writes
    proxy.hook = None
    db.wait_delivered(*ids)


def test_the_answers_are_counted_by_verdict(db, store, proxy, start):
    proxy.hook = times(2, Reply(503, "", {}))
    relay = start(db, store, *QUICK, "--settle-timeout", "100ms", url=proxy.url)
    db.insert(archive(1))
    db.wait_delivered()
    db.insert(json.dumps(writes(("spaceship:s", "parent", "archive:a"))))
    wait_until(lambda: db.attempts() >= 1)
    names = 'relay_requests_total{verdict="rejected"}', "relay_rows_delivered_total", "relay_rows_rejected_total"
    metrics = wait_until(lambda: all((m := relay.metrics())[name] >= 1 for name in names) and m)
    assert metrics['relay_requests_total{verdict="retry"}'] == 2
    assert metrics['relay_requests_total{verdict="delivered"}'] == 1
    assert metrics["relay_rows_delivered_total"] == 1
    assert metrics["relay_tuples_delivered_total"] == 2
    assert metrics["relay_rows_rejected_total"] >= 1
