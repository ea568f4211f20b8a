"""What real OpenFGA servers answer when something is wrong with them, with their database or with their model: each has the right
verdict, is charged to no row that is not at fault, and ends by itself."""

import json
import signal

import pytest

import openfga
from datastore import deadlocks, locked, read_only, terminate, waiting, without_a_standby
from postgres import Cluster
from process import stays, wait_until
from rows import all_tuples, archive, archives, deletes, key, unknown, viewer, writes

QUICK = ("--sweep-interval", "300ms", "--min-backoff", "100ms", "--max-backoff", "500ms", "--settle-timeout", "500ms")
PATIENT = openfga.PATIENT  # the server's and relay's: for what a test itself holds up


@pytest.fixture(scope="module")
def fga_cluster():
    """A Postgres for OpenFGA alone: what happens to it does not happen to the outbox."""
    made = Cluster()
    yield made
    made.close()


@pytest.fixture
def make_server(make_fga, fga_cluster):
    """make_server(*flags): OpenFGA on a database of its own."""
    if fga_cluster.process is None:
        fga_cluster.start()
    made = []

    def make(*flags):
        made.append(fga_cluster.create(prefix="openfga"))
        return make_fga(database=made[-1], flags=flags)

    yield make
    for database in made:
        database.reconnect()


def in_a_hurry(make_fga, store, *flags):
    """The store behind a second server, which gives a request 300 ms. What a test itself asks goes to the first one, which has time."""
    made = openfga.Store(make_fga(database=store.server.database, flags=("--request-timeout", "300ms", *flags)), store.id)
    made.model_id = store.model_id
    return made


def stored(store):
    """The stored tuples, after a restart: no connection of the server's to its database is one that was ended under it."""
    store.server.stop()
    store.server.start()
    return store.tuples()


def refused(proxy, status, text=""):
    """The Writes, probes too, that were answered so."""
    return [e for e in list(proxy.exchanges) if e.is_write and e.status == status and text in e.answer.decode()]


def backed_off(relay):
    return relay.log(msg="openfga", to="backoff")


def charged(db):
    """The ids of the rows that were refused at least once."""
    return [id for id, in db.execute("SELECT id FROM fga_outbox WHERE attempts > 0 OR last_error IS NOT NULL ORDER BY id").fetchall()]


def conditional(t, **context):
    return {"writes": [key(*t, {"name": "not_expired", "context": context})]}


LATER = {"expires_at": "2100-01-01T00:00:00Z"}
EARLIER = {"expires_at": "2030-01-01T00:00:00Z"}


# Writers that meet


def test_two_writers_of_one_new_tuple(db, make_server, make_proxy, start):
    """Both have seen that the tuple is not there, and both insert it: the one that comes second is told so, and goes again at once."""
    server = make_server(*PATIENT)
    store = server.create_store()
    proxy = make_proxy(store)
    relays = [start(db, store, *QUICK, *PATIENT, "--lanes", "1", "--batch-rows", "1", url=proxy.url) for _ in range(2)]
    t = viewer("u", "a")
    with locked(server.database, "tuple", "SHARE"):
        ids = db.insert(writes(t), writes(t))
        wait_until(lambda: waiting(server.database) == 2, 30)
    db.wait_delivered(*ids)
    assert len(refused(proxy, 409, "inserted by another transaction")) == 1
    assert db.attempts() == 0
    assert store.tuples() == {t}
    assert not any(backed_off(relay) for relay in relays), "the server is well"


def test_opposite_orders_make_no_deadlock(db, make_server, make_proxy, start):
    """Twenty tuples in two relays' hands, in opposite order of rows. Inserting is slowed down, so that one would be in the midst of its
    tuples when the other one is."""
    server = make_server(*PATIENT)
    server.database.execute("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.02); RETURN new; END'")
    server.database.execute("CREATE TRIGGER slow BEFORE INSERT ON tuple FOR EACH ROW EXECUTE FUNCTION slow()")
    store = server.create_store()
    proxy = make_proxy(store)
    tuples = [viewer(f"u{n:02}", "a") for n in range(20)]
    for _ in range(2):
        start(db, store, *QUICK, *PATIENT, "--lanes", "1", "--batch-rows", "20", url=proxy.url)
    with locked(server.database, "tuple", "SHARE"):
        ids = db.insert(*[writes(t) for t in tuples + tuples[::-1]])
        wait_until(lambda: waiting(server.database) == 2, 30)
    db.wait_delivered(*ids, timeout=30)
    assert len(refused(proxy, 409)) == 1, "they met"
    assert deadlocks(server.database) == 0
    assert not refused(proxy, 500)
    assert db.attempts() == 0
    assert store.tuples() == set(tuples)


@pytest.mark.asan
def test_another_condition_is_that_rows_fault(db, store, start):
    """409 as well, but for ever: it is the row's own, and the rows that were sent with it arrive."""
    t = viewer("u", "a")
    start(db, store, *QUICK)
    db.insert(conditional(t, **EARLIER))
    db.wait_delivered()
    *before, bad = db.insert(*archives(range(5)), conditional(t, **LATER))
    after = db.insert(*archives(range(5, 10)))
    db.wait_delivered(*before, *after)
    wait_until(lambda: db.row(bad)[1] >= 2)
    assert "different condition" in db.row(bad)[2]
    assert charged(db) == [bad]
    assert store.tuples() == all_tuples(range(10)) | {t}
    assert store.keys(user=t[0], relation=t[1], object=t[2])[0]["condition"]["context"] == EARLIER
    db.execute("UPDATE fga_outbox SET payload = %s WHERE id = %s", json.dumps({**conditional(t, **LATER), **deletes(t)}), bad)
    db.wait_delivered(bad)
    assert store.keys(user=t[0], relation=t[1], object=t[2])[0]["condition"]["context"] == LATER


# The server's own trouble


def test_the_servers_own_deadline(db, make_server, make_fga, make_proxy, start):
    server = make_server(*PATIENT)
    store = server.create_store()
    proxy = make_proxy(in_a_hurry(make_fga, store))
    relay = start(db, store, *QUICK, url=proxy.url)
    with locked(server.database, "changelog", "ACCESS EXCLUSIVE"):
        ids = db.insert(*archives(range(20)))
        wait_until(lambda: len(refused(proxy, 500, "deadline_exceeded")) >= 3, 20, what=lambda: [e.answer for e in proxy.writes])
        relay.wait_not_ready("deadline_exceeded")
        assert not db.delivered(*ids)
    db.wait_delivered(*ids, timeout=20)
    relay.wait_ready()
    assert store.tuples() == all_tuples(range(20))
    assert db.attempts() == 0


def test_cancelled_by_a_shutdown(db, make_server, make_proxy, start):
    """What is in flight when the server's patience ends is cancelled. The process ends in the same moment, so that not every answer
    still comes through: the server is stopped until one has."""
    server = make_server("--shutdown-timeout", "500ms", *PATIENT)
    store = server.create_store()
    proxy = make_proxy(store)
    relay = start(db, store, *QUICK, "--batch-rows", "5", url=proxy.url)
    n = 0
    while not refused(proxy, 400, "cancelled"):
        assert n < 1000, [(e.status, e.answer) for e in proxy.writes]
        with locked(server.database, "changelog", "ACCESS EXCLUSIVE"):
            ids = db.insert(*archives(range(n, n + 20)))
            wait_until(lambda: waiting(server.database) >= min(4, relay.metric("relay_requests_in_flight_limit")), 20)
            terminate(server)
            relay.wait_not_ready("openfga")
            assert not db.delivered(*ids)
        server.start()
        db.wait_delivered(*ids, timeout=20)
        n += 20
    assert store.tuples() == all_tuples(range(n))
    assert db.attempts() == 0


def test_killed_again_and_again_under_load(db, make_server, start, load):
    server = make_server()
    store = server.create_store()
    relay = start(db, store, *QUICK)
    loading = load(db)
    for _ in range(3):
        before = db.value("SELECT count(*) FROM fga_outbox WHERE processed_at IS NOT NULL")
        wait_until(lambda: db.value("SELECT count(*) FROM fga_outbox WHERE processed_at IS NOT NULL") > before + 50, 30)
        server.stop()
        relay.wait_not_ready("openfga")
        server.start()
    numbers = loading.stop()
    db.wait_delivered(timeout=30)
    assert store.tuples() == all_tuples(numbers)
    assert db.attempts() == 0


def test_one_connection_to_its_database(db, make_server, make_fga, make_proxy, start):
    """Many requests at a time for a server that can carry out one: some wait past its deadline while that one is held up, and all
    arrive in the end."""
    server = make_server(*PATIENT)
    store = server.create_store()
    proxy = make_proxy(in_a_hurry(make_fga, store, "--datastore-max-open-conns", "1"))
    flags = ("--lanes", "8", "--max-in-flight", "8", "--batch-rows", "5", "--max-tuples-per-write", "10")
    start(db, store, *QUICK, *flags, url=proxy.url)
    with locked(server.database, "changelog", "ACCESS EXCLUSIVE"):
        ids = db.insert(*archives(range(200)))
        wait_until(lambda: len(refused(proxy, 500)) >= 8, 20)
    db.wait_delivered(*ids, timeout=30)
    assert db.attempts() == 0
    assert store.tuples() == all_tuples(range(200))


# Its database's trouble


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGINT], ids=["immediate", "fast"])
def test_its_postgres_stopped_and_started(db, make_server, start, load, how):
    server = make_server()
    store = server.create_store()
    relay = start(db, store, *QUICK)
    loading = load(db)
    wait_until(lambda: loading.n > 100)
    server.database.reconnect()
    server.database.cluster.stop(how)
    relay.wait_not_ready("openfga")
    before = loading.n
    wait_until(lambda: loading.n > before + 50)
    server.database.cluster.start()
    numbers = loading.stop()
    db.wait_delivered(timeout=30)
    assert stored(store) == all_tuples(numbers)
    assert db.attempts() == 0


def test_its_postgres_locked(db, make_server, make_fga, make_proxy, start):
    """Not even looking a tuple up is possible."""
    server = make_server(*PATIENT)
    store = server.create_store()
    proxy = make_proxy(in_a_hurry(make_fga, store))
    relay = start(db, store, *QUICK, url=proxy.url)
    with locked(server.database, "tuple", "ACCESS EXCLUSIVE"):
        ids = db.insert(*archives(range(20)))
        wait_until(lambda: len(refused(proxy, 500)) >= 3, 20)
        relay.wait_not_ready("openfga")
        assert not db.delivered(*ids)
    db.wait_delivered(*ids, timeout=20)
    assert store.tuples() == all_tuples(range(20))
    assert db.attempts() == 0


def test_its_postgres_read_only(db, make_server, make_proxy, start):
    """`/healthz`, store and model answer well all the while, and every Write ends in an internal error: so does the probe, so that it is
    no row's fault, however long it takes."""
    server = make_server()
    store = server.create_store()
    proxy = make_proxy(store)
    relay = start(db, store, *QUICK, url=proxy.url)
    with read_only(server.database):
        ids = db.insert(*archives(range(20)))
        wait_until(lambda: len([e for e in refused(proxy, 500) if e.is_probe]) >= 2, 30)
        relay.wait_not_ready("openfga")
        assert server.request("GET", "/healthz")[0] == 200
        assert not db.delivered(*ids)
        assert db.attempts() == 0
    db.wait_delivered(*ids, timeout=20)
    assert stored(store) == all_tuples(range(20))
    assert db.attempts() == 0


def test_an_unknown_outcome_that_was_one(db, make_server, make_fga, make_proxy, start):
    """Its commits wait for a standby that is not there: the tuples are in, and OpenFGA says that its deadline has passed."""
    server = make_server(*PATIENT)
    store = server.create_store()
    proxy = make_proxy(in_a_hurry(make_fga, store))
    t = viewer("u", "a")
    start(db, store, *QUICK, url=proxy.url)
    with without_a_standby(server.database.cluster):
        granted, = db.insert(writes(t))
        wait_until(lambda: len(refused(proxy, 500)) >= 2, 20)
        wait_until(lambda: store.has(*t))
        assert not db.delivered(granted)
        revoked, other = db.insert(deletes(t), archive(1))
        stays(lambda: not db.delivered(revoked), 1)
    db.wait_delivered(granted, revoked, other, timeout=20)
    assert store.tuples() == all_tuples([1])
    assert db.attempts() == 0


# The model


def test_a_model_that_was_deleted(db, make_server, start):
    """OpenFGA has no call for it, so it is done in its database, with OpenFGA down, since it keeps models in memory. Whose fault it is
    stands in /readyz; it is no row's."""
    server = make_server()
    store = server.create_store()
    relay = start(db, store, *QUICK)
    db.insert(archive(1))
    db.wait_delivered()
    server.stop()
    server.database.execute("CREATE TABLE kept AS SELECT * FROM authorization_model")
    server.database.execute("DELETE FROM authorization_model")
    server.start()
    ids = db.insert(*archives(range(2, 20)))
    relay.wait_not_ready(store.model_id, "FGA_MODEL_ID")
    stays(lambda: not db.delivered(*ids), 1)
    assert db.attempts() == 0
    server.database.execute("INSERT INTO authorization_model SELECT * FROM kept")
    db.wait_delivered(*ids, timeout=20)
    relay.wait_ready()
    assert store.tuples() == all_tuples(range(1, 20))
    assert db.attempts() == 0


def with_spaceship(model):
    model["type_definitions"].append({
        "type": "spaceship", "relations": {"pilot": {"this": {}}},
        "metadata": {"relations": {"pilot": {"directly_related_user_types": [{"type": "user"}]}}},
    })


def without_archives(model):
    model["type_definitions"] = [d for d in model["type_definitions"] if d["type"] != "archive"]
    model.pop("conditions")


PILOT = ("user:u", "pilot", "spaceship:s")


@pytest.mark.asan
def test_a_model_given_stays_whatever_is_written_later(db, store, start):
    """A newer model that takes a type away harms nobody, and one that adds a type helps nobody, until relay is told of it."""
    first = store.model_id
    relay = start(db, store, *QUICK, FGA_MODEL_ID=first)
    store.write_model(without_archives)
    good, bad = db.insert(archive(1), writes(PILOT))
    db.wait_delivered(good)
    store.write_model(with_spaceship)
    wait_until(lambda: db.row(bad)[1] >= 3)
    relay.stop()
    start(db, store, *QUICK, FGA_MODEL_ID=store.model_id)
    db.wait_delivered(bad)
    assert store.tuples() == all_tuples([1]) | {PILOT}


@pytest.mark.asan
def test_a_model_left_out_is_the_one_written_last(db, store, start):
    """A newer model without a type: rows with it are refused one by one, others arrive, and all of them do after the next model."""
    start(db, store, *QUICK, FGA_MODEL_ID=None)
    db.insert(archive(1))
    db.wait_delivered()
    store.write_model(without_archives)
    member = ("user:u", "member", "organization:acme")
    *bad, good = db.insert(*archives(range(2, 6)), writes(member))
    db.wait_delivered(good)
    wait_until(lambda: all(db.row(id)[1] >= 1 for id in bad))
    assert all("archive" in db.row(id)[2] for id in bad)
    assert db.row(good)[1:] == (0, None)
    store.write_model()
    db.wait_delivered(*bad)
    assert store.tuples() == all_tuples(range(1, 6)) | {member}


@pytest.mark.asan
def test_sighup_delivers_what_a_later_model_allows_at_once(db, store, start):
    relay = start(db, store, "--sweep-interval", "1h", "--min-backoff", "5m", FGA_MODEL_ID=None)
    healed, still_bad = db.insert(writes(PILOT), unknown(1))
    wait_until(lambda: db.row(healed)[1] == db.row(still_bad)[1] == 1)
    store.write_model(with_spaceship)
    stays(lambda: not db.delivered(healed), 0.5)
    relay.signal(signal.SIGHUP)
    db.wait_delivered(healed)
    wait_until(lambda: db.row(still_bad)[1] == 2)
    assert store.tuples() == {PILOT}


# Size


def with_bulk(model):
    """A condition whose context is much larger in OpenFGA's hands than in JSON: a small integer is two bytes there and eleven here."""
    model["conditions"]["bulk"] = {
        "name": "bulk", "expression": "n in numbers",
        "parameters": {"n": {"type_name": "TYPE_NAME_INT"}, "numbers": {"type_name": "TYPE_NAME_LIST", "generic_types": [{"type_name": "TYPE_NAME_INT"}]}},
    }
    for definition in model["type_definitions"]:
        if definition["type"] == "archive":
            definition["metadata"]["relations"]["viewer"]["directly_related_user_types"].append({"type": "user", "condition": "bulk"})


@pytest.mark.asan
def test_a_request_over_the_servers_limit(db, store, make_proxy, start):
    """A hundred tuples with 120 KB of contexts, well within what relay sends at once, are 600 KB and more to OpenFGA, which answers 500
    for ever: the rows go one by one, the large one in pieces, and nobody is charged."""
    store.write_model(with_bulk)
    proxy = make_proxy(store)
    bulk = {"name": "bulk", "context": {"numbers": [1] * 2900}}
    large = [viewer(f"u{n:02}", "large") for n in range(30)]
    ids = db.insert(*archives(range(5)), {"writes": [key(*t, bulk) for t in large]}, *archives(range(5, 10)))
    start(db, store, *QUICK, url=proxy.url)
    db.wait_delivered(*ids, timeout=20)
    over = refused(proxy, 500, "received message larger than max")
    assert over and all(len(e.body) < 400_000 for e in over)
    assert store.tuples() == all_tuples(range(10)) | set(large)
    assert db.attempts() == 0


@pytest.mark.asan
def test_a_context_over_the_servers_limit_is_that_rows_fault(db, store, start):
    """6 KB of JSON are more than the 32 KiB that OpenFGA takes."""
    store.write_model(with_bulk)
    bulk = {"name": "bulk", "context": {"numbers": [1] * 3100}}
    bad, good = db.insert({"writes": [key(*viewer("u", "large"), bulk)]}, archive(1))
    start(db, store, *QUICK)
    db.wait_delivered(good)
    wait_until(lambda: db.row(bad)[1] >= 1)
    assert charged(db) == [bad]
    assert store.tuples() == all_tuples([1])
