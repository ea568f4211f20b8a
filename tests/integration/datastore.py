"""What a test does to OpenFGA's own Postgres, behind OpenFGA's back."""

import signal
from contextlib import contextmanager

from process import wait_until


@contextmanager
def locked(database, table, mode):
    """The table is locked by somebody else. SHARE lets a Write look its tuples up and stops it before it inserts."""
    with database.transaction() as other:
        other.execute(f"LOCK TABLE {table} IN {mode} MODE")
        yield
        other.rollback()


def waiting(database):
    """How many of OpenFGA's statements wait for a lock."""
    return database.value("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")


def end_sessions(database):
    """Ends OpenFGA's sessions, also one that is just beginning: those that are left have taken the database's settings as they are now."""
    with database.cluster.connect("postgres") as admin:
        now = admin.execute("SELECT clock_timestamp()").fetchone()[0]

        def count(sql, *arguments):
            return admin.execute(f"SELECT count(*) FROM {sql}", [database.name, *arguments]).fetchone()[0]

        # A session that begins has a lock on its database while it reads the settings, and until it stands in pg_stat_activity.
        beginning = "pg_locks WHERE classid = 'pg_database'::regclass AND objid = (SELECT oid FROM pg_database WHERE datname = %s)"
        wait_until(lambda: count(beginning) == 0)
        old = "pg_stat_activity WHERE datname = %s AND application_name <> 'test' AND backend_start < %s"
        admin.execute(f"SELECT pg_terminate_backend(pid) FROM {old}", [database.name, now])
        wait_until(lambda: count(old, now) == 0)


@contextmanager
def read_only(database):
    """What a failover to a replica, or a full disk's administrator, makes of it."""
    def set_to(value):
        with database.cluster.connect("postgres") as admin:
            admin.execute(f"ALTER DATABASE {database.name} SET default_transaction_read_only = {value}")
        end_sessions(database)

    set_to("on")
    yield
    set_to("off")


@contextmanager
def without_a_standby(cluster):
    """Every commit waits for a standby that is not there: it is in force, and nobody is told."""
    def set_to(value):
        with cluster.connect("postgres") as admin:
            admin.execute("SET synchronous_commit = local")
            admin.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{value}'")
            admin.execute("SELECT pg_reload_conf()")
        wait_until(lambda: in_force(value))
        # The checkpointer tells the others. It was signalled before the session that has seen the value began.
        with cluster.connect("postgres") as admin:
            admin.execute("CHECKPOINT")

    def in_force(value):
        with cluster.connect("postgres") as later:
            return later.execute("SHOW synchronous_standby_names").fetchone()[0] == value

    set_to("nope")
    try:
        yield
    finally:
        set_to("")


def deadlocks(database):
    """How many deadlocks Postgres has found in the database, from its log."""
    with open(f"{database.cluster.folder}/log", encoding="utf-8", errors="replace") as log:
        return sum("deadlock detected" in line and f" {database.name} " in line for line in log)


def terminate(server):
    """SIGTERM, as an orchestrator stops it; waits for its end."""
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(30)
    server.process = None
