"""Postgres without room: for connections, on its disk, and in the queue of notifications."""

import os
import signal
import subprocess

import psycopg
import pytest

from disk import Disk
from faults import QUICK, all_is_well, complains, says
from postgres import Cluster
from process import stays, wait_until
from rows import all_tuples, archive, archives


pytestmark = pytest.mark.xdist_group("scarcity")


def make_database(cluster):
    made = cluster.create()
    made.create_outbox()
    made.execute("GRANT SELECT, UPDATE (processed_at, attempts, last_error) ON fga_outbox TO relay")
    return made


def make_cluster():
    """It has few connections, and two roles that get none of those that are kept for superusers."""
    made = Cluster()
    with made.connect("postgres") as admin:
        admin.execute("ALTER SYSTEM SET max_connections = 12")
        admin.execute("CREATE ROLE relay LOGIN")
        admin.execute("CREATE ROLE crowd LOGIN")
    made.restart()
    return made


@pytest.fixture(scope="module")
def scarce_cluster():
    made = make_cluster()
    yield made
    made.close()


@pytest.fixture
def own_db(scarce_cluster):
    made = make_database(scarce_cluster)
    yield made
    made.close()


class Crowd:
    """Takes every connection that is to be had."""

    def __init__(self, database):
        self.url = database.cluster.url(database.name, user="crowd")
        self.held = []

    def fill(self):
        """True when there is none left."""
        try:
            self.held.append(psycopg.connect(self.url))
            return False
        except psycopg.OperationalError:
            return True

    def leave(self, n=None):
        for connection in self.held[:n]:
            connection.close()
        del self.held[:n]


@pytest.fixture
def crowd(own_db):
    made = Crowd(own_db)
    yield made
    made.leave()


@pytest.mark.parametrize("when", ["start", "reconnection"])
def test_no_connection_is_left(own_db, crowd, store, start, when):
    db = own_db
    url = db.cluster.url(db.name, user="relay")
    told = "connection", "max_connections", "--lanes"
    if when == "start":
        wait_until(crowd.fill)
        relay = start(url, store, *QUICK, ready=False)
        complains(relay, *told)
    else:
        relay = start(url, store, *QUICK)
        db.wait_delivered(*db.insert(archive(0)))

        def ousted():
            """Again and again: a session that is just beginning has its place, and is not among the backends yet."""
            for pid, _, _ in db.backends():
                db.execute("SELECT pg_terminate_backend(%s)", pid)
            return crowd.fill() and not db.backends() and all(text in relay.reasons() for text in told)

        wait_until(ousted, 30)
    db.insert(archive(1))
    crowd.leave(2)
    db.wait_delivered(timeout=30)
    crowd.leave()
    wait_until(lambda: len(db.backends()) == 5, 30)
    all_is_well(db, store, relay, [1] if when == "start" else range(2))


@pytest.fixture
def small_disk():
    """small_disk(database, size): a disk that the database's server, started anew, can use."""
    made = []

    def make(database, size):
        made.append(Disk(database.cluster, size))
        database.reconnect()
        database.cluster.enter = made[-1].enter
        return made[-1]

    yield make
    for disk in made:
        disk.close()


@pytest.fixture
def stopping_db():
    """A database in a cluster that the test may bring down."""
    cluster = make_cluster()
    made = make_database(cluster)
    yield made
    made.reconnect()
    cluster.close()


def test_no_room_for_the_marks(stopping_db, small_disk, store, proxy, start):
    """The table's disk is full: rows are claimed, and OpenFGA accepts them, but the new versions of them find no place. They stay pending,
    are sent again at a falling rate, which changes nothing, and are marked when there is room."""
    db = stopping_db
    disk = small_disk(db, "2m")
    db.cluster.restart()
    db.execute(f"CREATE TABLESPACE small LOCATION '{disk.path}'")
    db.execute("ALTER TABLE fga_outbox SET TABLESPACE small")
    db.insert(*archives(range(50)))
    filler = disk.fill_up()
    with pytest.raises(psycopg.errors.DiskFull):
        for _ in range(1000):  # the room that is left in the table's own pages
            db.execute("INSERT INTO fga_outbox (payload, processed_at) VALUES ('{}', now())")
    relay = start(db.cluster.url(db.name, user="relay"), store, *QUICK, url=proxy.url, ready=False)
    complains(relay, "no space left", "make room")
    wait_until(lambda: store.tuples() == all_tuples(range(50)), what="all to be accepted, those of other lanes as well")
    sent = len(proxy.writes)
    stays(lambda: not relay.ready() and db.pending() == 50, 3)
    assert len(proxy.writes) - sent < 60, "sent again without a pause"
    os.remove(filler)
    all_is_well(db, store, relay, range(50))


@pytest.mark.slow
def test_no_room_for_the_log_of_transactions(stopping_db, small_disk, store, start):
    """The disk of pg_wal is full: Postgres stops with a PANIC in the middle of whatever it does, and cannot start before there is room."""
    db, cluster = stopping_db, stopping_db.cluster
    relay = start(cluster.url(db.name, user="relay"), store, *QUICK)
    db.wait_delivered(*db.insert(archive(0)))
    disk = small_disk(db, "48m")
    cluster.stop()
    subprocess.run(["cp", "-a", f"{cluster.data}/pg_wal/.", disk.outside], check=True)
    os.rename(f"{cluster.data}/pg_wal", f"{cluster.folder}/old_wal")
    os.symlink(disk.path, f"{cluster.data}/pg_wal")
    cluster.start()
    relay.wait_ready(30)
    filler = disk.fill_up()
    numbers = []
    with pytest.raises(psycopg.OperationalError):
        for n in range(1, 100_000):
            db.insert(archive(n))
            numbers.append(n)
            db.execute("SELECT pg_switch_wal()")
    cluster.process.wait(30)
    cluster.process = None
    db.reconnect()
    complains(relay, "postgres")
    os.remove(filler)
    cluster.start()
    db.wait_delivered(timeout=30)
    relay.wait_ready(30)
    assert all_tuples([0, *numbers]) <= store.tuples()
    assert db.attempts() == 0


@pytest.mark.slow
def test_no_room_for_notifications(own_db, store, start):
    """A session that listens in a transaction that it leaves open keeps the queue from being trimmed. The queue's real end, 8 GB, is out of
    a test's reach (max_notify_queue_pages came with Postgres 17): here it ends where no file can be made any more, and a commit that
    notifies fails in the same place. What has no trigger to notify is delivered by the sweep, and /readyz says that nothing is heard."""
    db = own_db
    pages = f"{db.cluster.data}/pg_notify"
    relay = start(db.cluster.url(db.name, user="relay"), store, *QUICK)
    db.execute("CREATE FUNCTION notify() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_notify('fga_outbox', ''); RETURN NULL; END$$")
    db.execute("CREATE TRIGGER notify AFTER INSERT ON fga_outbox FOR EACH STATEMENT EXECUTE FUNCTION notify()")
    db.wait_delivered(*db.insert(archive(0)))
    with psycopg.connect(db.url) as idle:
        idle.execute("LISTEN anything")
        idle.commit()
        idle.execute("SELECT 1")
        os.chmod(pages, 0o500)
        try:
            def full(sql):
                try:
                    db.execute(sql)
                    return False
                except psycopg.Error:
                    return True

            wait_until(lambda: full("SELECT pg_notify('anything', repeat('x', 7000) || n) FROM generate_series(1, 20) n"), 30)
            wait_until(lambda: full("NOTIFY a"), 30)  # the last page as well
            relay.wait_not_ready("listen", "status of transaction", timeout=30)
            wait_until(lambda: full("NOTIFY a"), 30)  # as long as the relay read the queue, it may have made room for another page
            with pytest.raises(psycopg.Error):
                db.insert(archive(1))
            db.execute("ALTER TABLE fga_outbox DISABLE TRIGGER notify")
            db.insert(archive(2))
            db.wait_delivered(timeout=30)
            relay.wait_not_ready("listen", "status of transaction", timeout=30)
            assert relay.request("GET", "/livez")[0] == 200
            db.wait_delivered(*db.insert(archive(3)), timeout=30)
            assert relay.metric("relay_listening") == 0
        finally:
            os.chmod(pages, 0o700)
    db.execute("ALTER TABLE fga_outbox ENABLE TRIGGER notify")
    db.insert(archive(4))
    all_is_well(db, store, relay, [0, 2, 3, 4])


def test_what_the_full_queue_is_called(own_db, store, start):
    """Postgres's own error for it, which only eight gigabytes would bring about: pg_notify itself is replaced, in this database alone."""
    db = own_db
    db.execute("SET allow_system_table_mods = on")
    db.execute("ALTER FUNCTION pg_catalog.pg_notify(text, text) RENAME TO pg_notify_that_works")
    replace = "CREATE OR REPLACE FUNCTION pg_catalog.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS $$BEGIN {body}; END$$"
    db.execute(replace.format(body="RAISE 'too many notifications in the NOTIFY queue' USING ERRCODE = 'program_limit_exceeded'"))
    relay = start(db.cluster.url(db.name, user="relay"), store, *QUICK, ready=False)
    says(relay, "NOTIFY queue", "pg_stat_activity", "pg_notification_queue_usage()")
    for n in range(5):
        db.wait_delivered(*db.insert(archive(n)), timeout=30)
    db.execute(replace.format(body="PERFORM pg_catalog.pg_notify_that_works($1, $2)"))
    wait_until(lambda: relay.metric('relay_canaries_total{result="seen"}') > 0, 30)
    all_is_well(db, store, relay, range(5))
