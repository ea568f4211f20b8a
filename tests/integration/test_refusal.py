"""One bad row harms only itself."""

import json
import signal

import pytest

from process import stays, wait_until, within
from relay import PATIENCE
from rows import all_tuples, archive, archive_tuples, archives, deletes, unknown, viewer, writes

pytestmark = pytest.mark.asan


@pytest.mark.alone
def test_150_bad_rows_at_the_head_hold_up_no_good_one(db, store, start):
    relay = start(db, store, "--sweep-interval", "1h")

    def good_one_behind_them(n):
        good = db.insert(*[unknown(150 * n + k) for k in range(150)], archive(n))[-1]
        db.wait_delivered(good)

    within(PATIENCE, good_one_behind_them)
    bad = db.pending()
    assert bad % 150 == 0 and bad > 0
    wait_until(lambda: db.value("SELECT count(*) FROM fga_outbox WHERE attempts >= 1 AND last_error LIKE '%spaceship%'") == bad)
    assert db.pending() == bad
    assert store.tuples() == all_tuples(range(bad // 150))
    wait_until(lambda: relay.metric("relay_rows_parked") == bad)
    assert relay.ready()


def test_good_rows_are_not_charged_for_a_bad_one_among_them(db, store, start):
    rows = archives(range(40))
    rows.insert(17, unknown(1))
    ids = db.insert(*rows)
    start(db, store, "--sweep-interval", "1h", "--min-backoff", "5m")
    bad = ids.pop(17)
    db.wait_delivered(*ids)
    wait_until(lambda: db.row(bad)[1] == 1)
    assert db.attempts() == 1
    assert store.tuples() == all_tuples(range(40))


def test_a_parked_row_is_tried_again_at_a_falling_rate(db, store, proxy, start):
    start(db, store, "--sweep-interval", "1h", "--min-backoff", "100ms", "--max-backoff", "10s", url=proxy.url)
    bad, = db.insert(unknown(1))
    wait_until(lambda: db.row(bad)[1] >= 5, 20)
    at = [e.at for e in proxy.writes]
    gaps = [b - a for a, b in zip(at, at[1:])]
    assert all(gap >= 0.045 for gap in gaps), gaps
    wait_until(lambda: len(proxy.writes) == db.row(bad)[1])  # one may be under way


def test_it_heals_when_the_model_learns_the_type(db, store, start):
    start(db, store, "--sweep-interval", "300ms", "--min-backoff", "100ms", "--max-backoff", "300ms", FGA_MODEL_ID=None)
    bad, = db.insert(writes(("user:u", "pilot", "spaceship:s")))
    wait_until(lambda: db.row(bad)[1] >= 1)

    def with_spaceship(model):
        model["type_definitions"].append({
            "type": "spaceship", "relations": {"pilot": {"this": {}}},
            "metadata": {"relations": {"pilot": {"directly_related_user_types": [{"type": "user"}]}}},
        })

    store.write_model(with_spaceship)
    db.wait_delivered(bad)
    assert store.has("user:u", "pilot", "spaceship:s")


def test_a_later_row_on_the_same_tuple_waits_and_others_do_not(db, store, proxy, start):
    """The write of a tuple is refused for its condition; the delete after it must not overtake it."""
    t = viewer("u", "a")
    refused = {"writes": [{"user": t[0], "relation": t[1], "object": t[2], "condition": {"name": "unheard_of", "context": {}}}]}
    start(db, store, "--sweep-interval", "200ms", "--min-backoff", "100ms", "--max-backoff", "200ms", url=proxy.url)
    first, = db.insert(refused)
    wait_until(lambda: db.row(first)[1] >= 1)
    second, other = db.insert(deletes(t), archive(1))
    db.wait_delivered(other)
    stays(lambda: not db.delivered(second), 1)
    assert db.row(second)[1:] == (0, None)
    assert not any(e.deleted for e in proxy.writes)
    db.execute("UPDATE fga_outbox SET payload = %s WHERE id = %s", json.dumps(writes(t)), first)
    db.wait_delivered(first, second)
    assert store.tuples() == all_tuples([1])


def test_the_same_when_both_came_in_one_batch(db, store, start):
    t = viewer("u", "a")
    refused = {"writes": [{"user": t[0], "relation": t[1], "object": t[2], "condition": {"name": "unheard_of", "context": {}}}]}
    first, second, other = db.insert(refused, deletes(t), archive(1))
    start(db, store, "--sweep-interval", "200ms", "--min-backoff", "100ms", "--max-backoff", "200ms")
    db.wait_delivered(other)
    wait_until(lambda: db.row(first)[1] >= 2)
    assert db.row(second) == (None, 0, None)


def test_last_error_is_short_valid_text(db, store, start):
    long = "ü" * 200
    start(db, store, "--sweep-interval", "1h")
    bad, = db.insert(writes((f"user:{long}", "viewer", f"spaceship:{long[:100]}")))
    wait_until(lambda: db.row(bad)[1] >= 1)
    error = db.row(bad)[2]
    assert 0 < len(error.encode()) <= 1024 and "�" not in error and "\n" not in error


def test_a_refused_row_is_not_taken_by_a_claim_that_was_on_its_way(db, store, start):
    """Eight lanes claim while another one refuses and parks: the row waits for its time all the same."""
    start(db, store, "--lanes", "8", "--batch-rows", "2", "--sweep-interval", "50ms", "--min-backoff", "5m")
    for n in range(100):
        db.insert(unknown(n))
    wait_until(lambda: db.value("SELECT min(attempts) FROM fga_outbox") == 1)
    stays(lambda: db.attempts() == 100, 0.5)


def test_after_a_restart_every_row_is_tried_afresh(db, store, start):
    first = start(db, store, "--min-backoff", "5m")
    bad, = db.insert(unknown(1))
    wait_until(lambda: db.row(bad)[1] == 1)
    first.stop()
    start(db, store, "--min-backoff", "5m")
    wait_until(lambda: db.row(bad)[1] == 2)


def test_a_refused_row_that_somebody_else_delivered_is_forgotten(db, store, proxy, start):
    relay = start(db, store, "--sweep-interval", "200ms", "--min-backoff", "100ms", "--max-backoff", "200ms", url=proxy.url)
    bad, = db.insert(unknown(1))
    wait_until(lambda: db.row(bad)[1] >= 1)
    db.execute("UPDATE fga_outbox SET processed_at = now() WHERE id = %s", bad)
    wait_until(lambda: relay.metric("relay_rows_parked") == 0)
    sent = len(proxy.writes)
    stays(lambda: len(proxy.writes) == sent, 0.6)


def test_the_log_names_the_row_and_the_reason(db, store, start):
    relay = start(db, store)
    bad, = db.insert(unknown(1))
    wait_until(lambda: db.row(bad)[1] >= 1)
    wait_until(lambda: any(str(bad) in (line.get("id", "") + " " + line.get("ids", "")).split() and "spaceship" in line.get("reason", "")
                           for line in relay.log()), what=relay.text)


def test_a_mix_of_everything(db, store, start):
    """Bad and good rows and large ones in one backlog: the good ones arrive, the bad ones know why."""
    rows = []
    for n in range(300):
        rows.append(unknown(n) if n % 10 == 3 else "null" if n % 10 == 7 else archive(n))
    ids = db.insert(*rows)
    start(db, store, "--sweep-interval", "1h")
    good = [n for n in range(300) if n % 10 not in (3, 7)]
    db.wait_delivered(*[ids[n] for n in good], timeout=20)
    wait_until(lambda: db.value("SELECT count(*) FROM fga_outbox WHERE processed_at IS NULL AND attempts > 0 AND last_error IS NOT NULL") == 60)
    assert store.tuples() == all_tuples(good)
    assert archive_tuples(0)[0] in store.tuples()


def test_sighup_tries_refused_rows_at_once(db, store, start):
    relay = start(db, store, "--sweep-interval", "1h", "--min-backoff", "5m")
    bad, = db.insert(unknown(1))
    wait_until(lambda: db.row(bad)[1] == 1)
    relay.signal(signal.SIGHUP)
    wait_until(lambda: db.row(bad)[1] == 2)
