"""What the relay needs of Postgres taken away while it runs, and given back: it says what is missing, tries no harder than is sensible, and
goes on by itself."""

import time

import pytest

from faults import QUICK, all_is_well, complains, says, sessions
from postgres import Cluster
from process import stays, wait_until
from rows import all_tuples, archive, unknown

GRANT = "GRANT SELECT, UPDATE (processed_at, attempts, last_error) ON fga_outbox TO {role}"


@pytest.fixture
def role(db):
    """A role of its own with what `relay install` grants, and no more by way of PUBLIC."""
    name = f"role_{db.name}"
    db.execute(f"CREATE ROLE {name} LOGIN")
    db.execute(GRANT.format(role=name))
    db.execute("REVOKE USAGE ON SCHEMA public FROM PUBLIC")
    db.execute(f"GRANT USAGE ON SCHEMA public TO {name}")
    db.execute(f"REVOKE CONNECT ON DATABASE {db.name} FROM PUBLIC")
    db.execute(f"GRANT CONNECT ON DATABASE {db.name} TO {name}")
    yield name
    db.execute(f"DROP OWNED BY {name}")
    db.execute(f"DROP ROLE {name}")


def end_sessions(database, role):
    """Ends the role's sessions until none comes back."""
    wait_until(lambda: not database.value("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = %s", role))


def is_tame(relay, seconds):
    """It says for all that time that it is not ready, and does not try again and again without a pause."""
    began, before = time.monotonic(), relay.metric("relay_reconnections_total")
    stays(lambda: not relay.ready(), seconds)
    assert relay.metric("relay_reconnections_total") - before < 25 * (time.monotonic() - began), "tries without a pause"


@pytest.mark.parametrize("away, back, texts", [
    ("ALTER TABLE fga_outbox RENAME TO gone", "ALTER TABLE gone RENAME TO fga_outbox", ["fga_outbox", "relay install"]),
    ("ALTER TABLE fga_outbox RENAME payload TO body", "ALTER TABLE fga_outbox RENAME body TO payload", ["payload", "relay install"]),
    ("ALTER TABLE fga_outbox DROP attempts", "ALTER TABLE fga_outbox ADD attempts integer NOT NULL DEFAULT 0", ["attempts", "relay install"]),
    ("ALTER TABLE fga_outbox ALTER attempts DROP DEFAULT, ALTER attempts TYPE text", "ALTER TABLE fga_outbox ALTER attempts TYPE integer USING attempts::integer, ALTER attempts SET DEFAULT 0",
     ["type", "relay install"]),
    ("REVOKE SELECT ON fga_outbox FROM {role}", GRANT, ["permission denied", "relay install"]),
    ("REVOKE UPDATE (processed_at, attempts, last_error) ON fga_outbox FROM {role}", GRANT, ["permission denied", "relay install"]),
    ("REVOKE USAGE ON SCHEMA public FROM {role}", "GRANT USAGE ON SCHEMA public TO {role}", ["fga_outbox", "usage"]),
], ids=["table", "payload", "attempts", "type", "select", "update", "usage"])
def test_a_part_of_the_table_or_a_privilege(db, cluster, store, role, start, away, back, texts):
    """Rows that come at the same time wait for it; nothing is delivered that could not be marked, and none is charged."""
    relay = start(cluster.url(db.name, user=role), store, *QUICK)
    db.insert(archive(0))
    db.wait_delivered()
    with db.transaction() as change:
        db.insert(archive(1), connection=change)
        change.execute(away.format(role=role))
    complains(relay, *texts)
    is_tame(relay, 1)
    db.execute(back.format(role=role))
    all_is_well(db, store, relay, range(2))


def test_the_privilege_to_mark_alone(db, cluster, store, proxy, role, start):
    """Claims go well, OpenFGA accepts, and the mark is refused: again, but at a falling rate, and /readyz says so all the time."""
    relay = start(cluster.url(db.name, user=role), store, *QUICK, url=proxy.url)
    with db.transaction() as change:
        db.insert(archive(0), connection=change)
        change.execute(f"REVOKE UPDATE (processed_at) ON fga_outbox FROM {role}")
    complains(relay, "permission denied", "relay install")
    is_tame(relay, 3)
    assert 1 <= len(proxy.writes) < 60, "sent again without a pause"
    db.execute(GRANT.format(role=role))
    all_is_well(db, store, relay, range(1))


def test_the_column_for_reasons(db, store, start):
    """Missed when a row is refused, and not before. The refusal that could not be noted is not lost."""
    relay = start(db, store, *QUICK)
    with db.transaction() as change:
        db.insert(archive(0), unknown(0), archive(1), connection=change)
        change.execute("ALTER TABLE fga_outbox RENAME last_error TO error")
    complains(relay, "last_error", "relay install")
    assert db.attempts() == 0
    db.execute("ALTER TABLE fga_outbox RENAME error TO last_error")
    relay.wait_ready()
    wait_until(lambda: db.pending() == 1 and db.attempts() >= 1, 20)
    assert store.tuples() == all_tuples(range(2))
    assert "spaceship" in db.value("SELECT last_error FROM fga_outbox WHERE processed_at IS NULL")


@pytest.mark.parametrize("away, back, texts", [
    ("REVOKE CONNECT ON DATABASE {db} FROM {role}", "GRANT CONNECT ON DATABASE {db} TO {role}", ["permission denied for database", "connect"]),
    ("ALTER ROLE {role} NOLOGIN", "ALTER ROLE {role} LOGIN", ["not permitted to log in", "alter role"]),
    ("ALTER ROLE {role} CONNECTION LIMIT 0", "ALTER ROLE {role} CONNECTION LIMIT -1", ["too many connections for role", "--lanes"]),
    ("ALTER DATABASE {db} CONNECTION LIMIT 0", "ALTER DATABASE {db} CONNECTION LIMIT -1", ["too many connections for database", "--lanes"]),
], ids=["connect", "login", "role", "database"])
def test_the_right_to_connect(db, cluster, store, role, start, away, back, texts):
    relay = start(cluster.url(db.name, user=role), store, *QUICK)
    db.execute(away.format(db=db.name, role=role))
    end_sessions(db, role)
    db.insert(archive(0))
    complains(relay, *texts)
    is_tame(relay, 1)
    db.execute(back.format(db=db.name, role=role))
    all_is_well(db, store, relay, range(1))


def test_a_limit_below_what_it_asks_for(db, cluster, store, role, start):
    """Two connections instead of five: it says so, and delivers with what it has."""
    db.execute(f"ALTER ROLE {role} CONNECTION LIMIT 2")
    relay = start(cluster.url(db.name, user=role), store, *QUICK, ready=False)
    says(relay, "too many connections for role", "--lanes")
    db.insert(archive(0))
    db.wait_delivered()
    db.execute(f"ALTER ROLE {role} CONNECTION LIMIT -1")
    wait_until(lambda: len(db.backends()) == 5, 30)
    all_is_well(db, store, relay, range(1))


def test_the_table_dropped_and_made_anew(db, store, start):
    """Ids begin again: what the relay remembers of the old rows, a refused one among them, does no harm to the new ones."""
    relay = start(db, store, *QUICK)
    db.insert(archive(0), archive(1), unknown(0))
    wait_until(lambda: db.attempts() >= 1 and db.pending() == 1)
    db.execute("DROP TABLE fga_outbox")
    complains(relay, "fga_outbox", "relay install")
    db.create_outbox()
    assert max(db.insert(*(archive(n) for n in range(2, 8)))) == 6, "among them the id of the refused one"
    all_is_well(db, store, relay, range(8))


def test_another_table_under_the_same_name(db, store, start):
    """In one transaction, so that nothing is ever missing: the next claim finds the new one."""
    relay = start(db, store, *QUICK)
    db.insert(archive(0))
    db.wait_delivered()
    with db.transaction() as change:
        change.execute("ALTER TABLE fga_outbox RENAME TO old")
        change.execute("CREATE TABLE fga_outbox (LIKE old INCLUDING ALL)")
        db.insert(archive(1), connection=change)
    all_is_well(db, store, relay, range(2))


def test_a_column_of_another_type_that_serves_as_well(db, store, start):
    """What was prepared gives another type of result now, which Postgres refuses: it is prepared anew."""
    relay = start(db, store, *QUICK)
    db.insert(archive(0))
    db.wait_delivered()
    with db.transaction() as change:
        db.insert(archive(1), connection=change)
        change.execute("ALTER TABLE fga_outbox ALTER attempts TYPE bigint, ALTER payload TYPE json, ALTER last_error TYPE varchar(2000)")
    all_is_well(db, store, relay, range(2))


def test_the_database_renamed(db, cluster, store, start):
    relay = start(db, store, *QUICK)
    name, other = db.name, f"{db.name}_elsewhere"

    def rename(old, new):
        """Nobody may be in it, and the relay comes back at once: so nobody may come either."""
        with cluster.connect("postgres") as admin:
            admin.execute(f"ALTER DATABASE {old} ALLOW_CONNECTIONS false")
            wait_until(lambda: not admin.execute("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s", [old]).fetchone()[0])
            admin.execute(f"ALTER DATABASE {old} RENAME TO {new}")
            admin.execute(f"ALTER DATABASE {new} ALLOW_CONNECTIONS true")

    db.reconnect()
    rename(name, other)
    complains(relay, name, "does not exist", "DATABASE_URL")
    is_tame(relay, 1)
    with cluster.connect(other) as connection:
        db.insert(archive(0), connection=connection)
    rename(other, name)
    all_is_well(db, store, relay, range(1))


@pytest.fixture(scope="module")
def own_cluster():
    """A cluster whose settings a test may change."""
    made = Cluster()
    yield made
    made.close()


@pytest.fixture
def alter(own_cluster):
    """alter(setting=value, …): in force from now on, and until the end of the test."""
    with own_cluster.connect("postgres") as admin:
        def change(**settings):
            for name, value in settings.items():
                admin.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            admin.execute("SELECT pg_reload_conf()")
            wait_until(lambda: all(admin.execute(f"SHOW {name}").fetchone()[0] == value for name, value in settings.items()))

        yield change
        admin.execute("ALTER SYSTEM RESET ALL")
        admin.execute("SELECT pg_reload_conf()")


@pytest.fixture
def own_db(own_cluster, alter):
    made = own_cluster.create()
    made.create_outbox()
    yield made
    made.reconnect()


@pytest.mark.xdist_group("settings")
def test_a_server_that_becomes_read_only(own_db, alter, store, start):
    """As an operator fences a server off. Sessions stay; every claim is refused, until it is over."""
    db = own_db
    relay = start(db, store, *QUICK)
    db.insert(archive(0))
    db.wait_delivered()
    alter(default_transaction_read_only="on")
    wait_until(lambda: not sessions(db, "state <> 'idle'"))  # a transaction that had begun before may write
    db.execute("SET default_transaction_read_only = off")
    db.insert(archive(1))
    complains(relay, "read-only", "target_session_attrs=read-write", "default_transaction_read_only")
    is_tame(relay, 3)
    alter(default_transaction_read_only="off")
    all_is_well(db, store, relay, range(2))


@pytest.mark.xdist_group("settings")
@pytest.mark.parametrize("how", ["terminate", "cancel"])
def test_a_commit_that_waits_for_a_standby(own_db, alter, store, proxy, start, how):
    """Ended in that wait, it is committed all the same, and whoever asked for it is told (cancel) or not (terminate): the rows are not
    delivered again. The checkpointer is what makes commits wait, so those before it has read the setting do not."""
    db = own_db
    db.execute("SET synchronous_commit = local")
    relay = start(db, store, *QUICK, url=proxy.url)
    alter(synchronous_standby_names="nobody")
    rows, pids = 0, []
    while not pids:
        id, = db.insert(archive(rows))
        rows += 1
        wait_until(lambda: sessions(db, "wait_event = 'SyncRep'") or db.delivered(id))
        pids = sessions(db, "wait_event = 'SyncRep'")
    for pid in pids:
        db.execute(f"SELECT pg_{how}_backend(%s)", pid)
    db.wait_delivered()
    alter(synchronous_standby_names="")
    all_is_well(db, store, relay, range(rows))
    assert len(proxy.writes) == rows
