"""relay drain: deliver what is pending, and end."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from pgbouncer import Pgbouncer
from process import free_port, stays, wait_until
from relay import environment, run
from rows import all_tuples, archive, archives, deletes, tuples_of, unknown, viewer, writes

pytestmark = pytest.mark.asan


def drain(database, store, *flags, url=None, **extra):
    return run("drain", *flags, env=environment(database, store, url, **extra))


def test_0_when_nothing_is_left(bare_db, store):
    bare_db.insert(*archives(range(350)))
    done = drain(bare_db, store)
    assert done.returncode == 0, done.stderr
    assert bare_db.pending() == 0
    assert store.tuples() == all_tuples(range(350))


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_through_a_pooler(bare_db, cluster, store, mode):
    """What it prepares is in somebody else's session: it goes on without."""
    bare_db.insert(*archives(range(350)))
    pooler = Pgbouncer(cluster, mode)
    try:
        for _ in range(2):  # the second one finds what the first one has prepared
            done = drain(pooler.url(bare_db.name), store)
            assert done.returncode == 0, done.stderr
    finally:
        pooler.close()
    assert bare_db.pending() == 0 and bare_db.attempts() == 0
    assert store.tuples() == all_tuples(range(350))


def test_0_when_there_was_nothing(bare_db, store):
    done = drain(bare_db, store)
    assert done.returncode == 0, done.stderr


def test_1_when_rows_remain_that_openfga_refuses_each_with_its_reason(bare_db, store):
    bad = bare_db.insert(unknown(1), "null")
    good = bare_db.insert(*archives(range(150)))
    done = drain(bare_db, store)
    assert done.returncode == 1, done.stderr
    assert bare_db.delivered(*good)
    assert all(bare_db.row(id)[1] >= 1 and bare_db.row(id)[2] for id in bad)
    output = done.stdout + done.stderr
    assert all(str(id) in output for id in bad)
    assert "spaceship" in output


@pytest.mark.parametrize("flags, extra, names", [
    (["--no-such-flag"], {}, "no-such-flag"),
    (["--batch-rows", "many"], {}, "batch-rows"),
    (["--min-backoff", "soon"], {}, "min-backoff"),
    (["stray"], {}, "stray"),
    ([], {"FGA_API_URL": None}, "FGA_API_URL"),
    ([], {"FGA_API_URL": "openfga:8080"}, "http"),
    ([], {"FGA_API_URL": "ftp://openfga"}, "http"),
    ([], {"FGA_STORE_ID": None}, "FGA_STORE_ID"),
    ([], {"DATABASE_URL": "postgres://127.0.0.1/x?no_such=keyword"}, "DATABASE_URL"),
    ([], {"RELAY_LANES": "0"}, "lanes"),
])
def test_2_for_a_wrong_command_line_or_environment(bare_db, store, flags, extra, names):
    done = drain(bare_db, store, *flags, **extra)
    assert done.returncode == 2, done.stderr
    assert names.lower() in done.stderr.lower()


def test_2_for_a_store_that_is_not_there(bare_db, store):
    bare_db.insert(archive(1))
    done = drain(bare_db, store, FGA_STORE_ID="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert done.returncode == 2, done.stderr
    assert "01ARZ3NDEKTSV4RRFFQ69G5FAV" in done.stderr
    assert bare_db.pending() == 1 and bare_db.attempts() == 0


def test_2_for_a_table_that_is_not_there(empty_db, store):
    done = drain(empty_db, store)
    assert done.returncode == 2, done.stderr
    assert "fga_outbox" in done.stderr


def test_3_when_postgres_cannot_be_reached(cluster, store):
    port = free_port()
    done = drain(cluster.url("ledger", port=port), store)
    assert done.returncode == 3, done.stderr
    assert str(port) in done.stderr


def test_3_when_openfga_cannot_be_reached(bare_db, store):
    bare_db.insert(archive(1))
    port = free_port()
    done = drain(bare_db, store, url=f"http://127.0.0.1:{port}")
    assert done.returncode == 3, done.stderr
    assert str(port) in done.stderr
    assert bare_db.pending() == 1 and bare_db.attempts() == 0


def test_it_waits_for_no_other_drainer(bare_db, store):
    bare_db.insert(*archives(range(5)))
    with bare_db.transaction() as other:
        other.execute("SELECT id FROM fga_outbox ORDER BY id FOR UPDATE LIMIT 2")
        done = drain(bare_db, store)
        assert done.returncode == 0, done.stderr
        assert bare_db.pending() == 2
        other.rollback()
    assert store.tuples() == all_tuples(range(2, 5))


def test_it_waits_for_a_row_that_comes_after_another_drainers(bare_db, store):
    """Once that one is done, this one may be all that delivers it."""
    tuple_ = viewer("anna", "a")
    first, second, far = bare_db.insert(writes(tuple_), deletes(tuple_), archive(1))
    with ThreadPoolExecutor() as pool, bare_db.transaction() as other:
        other.execute("UPDATE fga_outbox SET processed_at = now() WHERE id = %s", [first])
        draining = pool.submit(drain, bare_db, store)
        wait_until(lambda: bare_db.delivered(far))
        stays(lambda: not draining.done(), 1)
        other.commit()
        done = draining.result()
    assert done.returncode == 0, done.stderr
    assert bare_db.delivered(first, second)


def test_a_held_row_is_delivered_though_its_own_transaction_ends_late(bare_db, store, make_proxy):
    """Two lanes: the row before it is finished while the transaction that found it held is still ending."""
    tuple_ = viewer("anna", "a")
    first, _, second, other = bare_db.insert(writes(tuple_), archive(1), deletes(tuple_), archive(2))
    bare_db.execute("CREATE TABLE may_end ()")
    bare_db.execute("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                    " WHILE NOT EXISTS (SELECT FROM may_end) LOOP PERFORM pg_sleep(0.01); END LOOP; RETURN NEW; END $$")
    bare_db.execute(f"CREATE TRIGGER slow BEFORE UPDATE ON fga_outbox FOR EACH ROW WHEN (NEW.id = {other}) EXECUTE FUNCTION slow()")

    def until_it_ends(e):
        if not e.is_write or tuple_ not in tuples_of(e.body):
            return
        with psycopg.connect(bare_db.url, autocommit=True) as connection:
            wait_until(lambda: connection.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
                                                  " AND datname = current_database()").fetchone() == (1,))

    proxy = make_proxy(store)
    proxy.hook = until_it_ends
    with ThreadPoolExecutor() as pool:
        draining = pool.submit(drain, bare_db, store, "--lanes", "2", "--batch-rows", "2", "--log-level", "info", url=proxy.url)
        wait_until(lambda: bare_db.delivered(first))
        stays(lambda: not draining.done(), 0.5)
        bare_db.execute("INSERT INTO may_end DEFAULT VALUES")
        done = draining.result()
    assert done.returncode == 0, done.stderr
    assert f"msg=\"row held\" id={second} behind={first}" in done.stderr
    assert bare_db.pending() == 0
    assert not store.has(*tuple_)


def test_it_runs_beside_a_relay(db, store, start, make_proxy):
    proxy = make_proxy(store)
    start(db, store, "--sweep-interval", "300ms", url=proxy.url)
    db.insert(*archives(range(1000)))
    done = drain(db, store, url=proxy.url)
    assert done.returncode == 0, done.stderr
    db.wait_delivered()
    assert sorted(proxy.sent()) == sorted(all_tuples(range(1000)))


def test_a_row_of_250_tuples(bare_db, store):
    tuples = [viewer(f"u{n}", "a") for n in range(250)]
    bare_db.insert(writes(*tuples))
    assert drain(bare_db, store).returncode == 0
    assert store.tuples() == set(tuples)
