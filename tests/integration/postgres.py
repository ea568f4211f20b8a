"""A real Postgres cluster in a folder of its own, and databases in it."""

import glob
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager

import psycopg

from process import free_port, spawn, wait_until

# The ledger's table, as it creates it.
OUTBOX = """
CREATE TABLE {table} (
    id           bigserial PRIMARY KEY,
    payload      jsonb NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    processed_at timestamptz,
    attempts     integer NOT NULL DEFAULT 0,
    last_error   text
);
CREATE INDEX {index} ON {table} (id) WHERE processed_at IS NULL;
"""

CONF = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
max_connections = 200
shared_buffers = 64MB
fsync = off
max_prepared_transactions = 10
shared_preload_libraries = 'pg_stat_statements'
log_line_prefix = '%m [%p] %a %d '
timezone = 'UTC'
"""


def programs():
    """The folder of Postgres's own programs."""
    folders = glob.glob("/usr/lib/postgresql/*/bin")
    assert folders, "no Postgres server: Debian's package postgresql"
    return max(folders, key=lambda path: int(re.search(r"/(\d+)/", path).group(1)))


def _as_postgres():
    """Postgres refuses to run as root."""
    if os.getuid() != 0:
        return {}
    user = pwd.getpwnam("postgres")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


class Cluster:
    """One Postgres server. What is in it survives stop() and start(). settings: further lines of postgresql.conf. port: a free one unless
    given."""

    enter = ()  # a command that starts the server somewhere else, and not as root

    def __init__(self, settings="", port=None):
        self.folder = tempfile.mkdtemp(prefix="relay-pg-")
        os.chmod(self.folder, 0o755)
        self.data = os.path.join(self.folder, "data")
        self.port = port or free_port()
        self.process = None
        self.names = 0
        keywords = _as_postgres()
        os.mkdir(self.data, 0o700)
        if keywords:
            os.chown(self.data, keywords["user"], keywords["group"])
        subprocess.run(
            [f"{programs()}/initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"],
            check=True, stdout=subprocess.DEVNULL, cwd="/", **keywords,
        )
        with open(f"{self.data}/postgresql.conf", "a") as conf:
            conf.write(CONF.format(port=self.port) + settings)
        self.log = open(f"{self.folder}/log", "wb")
        self.start()
        with self.connect("postgres") as admin:
            admin.execute("CREATE EXTENSION pg_stat_statements")

    def start(self):
        assert self.process is None
        # SIGQUIT is Postgres's "immediate shutdown": it takes the server's own children with it.
        keywords = {} if self.enter else _as_postgres()
        args = [*self.enter, f"{programs()}/postgres", "-D", self.data]
        self.process = spawn(args, death=signal.SIGQUIT, stdout=self.log, stderr=self.log, cwd="/", **keywords)
        wait_until(self._answers, 30, what="Postgres to start")

    def _answers(self):
        assert self.process.poll() is None, open(f"{self.folder}/log").read()[-2000:]
        try:
            self.connect("postgres").close()
            return True
        except psycopg.OperationalError:
            return False

    def stop(self, how=signal.SIGINT):
        """SIGINT: "fast", sessions are ended; SIGQUIT: "immediate", as after a crash."""
        self.process.send_signal(how)
        self.process.wait(30)
        self.process = None

    def restart(self, how=signal.SIGINT):
        self.stop(how)
        self.start()

    def close(self):
        if self.process is not None:
            self.stop(signal.SIGQUIT)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database, user="postgres", password=None, port=None):
        secret = f":{password}" if password else ""
        return f"postgres://{user}{secret}@127.0.0.1:{port or self.port}/{database}?sslmode=disable"

    def connect(self, database, **keywords):
        """An autocommit connection."""
        return psycopg.connect(self.url(database), autocommit=True, **keywords)

    def create(self, template=None, prefix="test"):
        """A new database with a name of its own, empty or a copy."""
        self.names += 1
        name = f"{prefix}_{self.names}"
        template = template or "template1"
        with self.connect("postgres") as admin:
            # A session that was closed may still be there, and Postgres itself waits for it only five seconds.
            there = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"
            wait_until(lambda: not admin.execute(there, [template]).fetchone()[0], what=f"everybody to leave {template}")
            admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return Database(self, name)


class Database:
    """One database with an outbox in it; `table` is its name as SQL needs it."""

    def __init__(self, cluster, name, table="fga_outbox"):
        self.cluster = cluster
        self.name = name
        self.table = table
        self.url = cluster.url(name)
        self._connection = None

    @property
    def connection(self):
        """A connection for the test's own statements."""
        if self._connection is None:
            self._connection = self.cluster.connect(self.name, application_name="test")
        return self._connection

    def reconnect(self):
        """The next statement gets a new connection: after the server was stopped."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def create_outbox(self, table="fga_outbox", index="fga_outbox_pending_idx"):
        self.table = table
        self.execute(OUTBOX.format(table=table, index=index))

    def execute(self, sql, *arguments):
        return self.connection.execute(sql, arguments or None)

    def value(self, sql, *arguments):
        return self.execute(sql, *arguments).fetchone()[0]

    @contextmanager
    def transaction(self):
        """A connection of its own with a transaction open: committed at the end, rolled back when the block raises."""
        with psycopg.connect(self.url) as connection:
            yield connection

    def insert(self, *payloads, connection=None):
        """One row a payload, in one statement; returns their ids. A payload may be text, which is taken as it stands."""
        texts = [p if isinstance(p, str) else json.dumps(p) for p in payloads]
        rows = (connection or self.connection).execute(
            f"INSERT INTO {self.table} (payload) SELECT p::jsonb FROM unnest(%s::text[]) WITH ORDINALITY AS x(p, n) ORDER BY n RETURNING id",
            [texts],
        ).fetchall()
        return sorted(row[0] for row in rows)

    def pending(self):
        return self.value(f"SELECT count(*) FROM {self.table} WHERE processed_at IS NULL")

    def delivered(self, *ids):
        """Whether all of these rows, or all rows, are processed."""
        if not ids:
            return self.pending() == 0
        return self.value(f"SELECT count(*) FROM {self.table} WHERE processed_at IS NOT NULL AND id = ANY(%s)", list(ids)) == len(ids)

    def wait_delivered(self, *ids, timeout=10):
        wait_until(lambda: self.delivered(*ids), timeout, what=lambda: f"delivery; pending: {self.report()}")

    def report(self):
        """What stands in the way, for a failing test."""
        return self.execute(f"SELECT id, attempts, last_error FROM {self.table} WHERE processed_at IS NULL ORDER BY id LIMIT 5").fetchall()

    def row(self, id):
        """(processed_at, attempts, last_error)"""
        return self.execute(f"SELECT processed_at, attempts, last_error FROM {self.table} WHERE id = %s", id).fetchone()

    def attempts(self):
        return self.value(f"SELECT coalesce(sum(attempts), 0) FROM {self.table}")

    def backends(self):
        """The relay's sessions: (pid, state, query)."""
        return self.execute(
            "SELECT pid, state, query FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            " AND application_name LIKE 'relay%%'", self.name
        ).fetchall()

    def close(self):
        self.reconnect()
        with self.cluster.connect("postgres") as admin:
            admin.execute(f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)")


class Standby(Cluster):
    """A copy of a primary's cluster that follows it (PostgreSQL, "Hot Standby"), until it is promoted."""

    def __init__(self, primary):
        self.folder = f"{primary.folder}/standby"
        self.data = f"{self.folder}/data"
        self.port = free_port()
        self.process = None
        self.names = 0
        keywords = _as_postgres()
        os.mkdir(self.folder, 0o700)
        if keywords:
            os.chown(self.folder, keywords["user"], keywords["group"])
        subprocess.run(
            [f"{programs()}/pg_basebackup", "-D", self.data, "-R", "-c", "fast", "--no-sync", "-d", primary.url("postgres")], check=True, cwd="/", **keywords
        )
        with open(f"{self.data}/postgresql.conf", "a") as conf:
            conf.write(f"port = {self.port}\n")
        self.log = open(f"{self.folder}/log", "wb")
        self.start()

    def wait_replayed(self, database):
        """All that the primary has committed there is here."""
        position = database.value("SELECT pg_current_wal_lsn()")
        with self.connect("postgres") as connection:
            wait_until(lambda: connection.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [position]).fetchone()[0], 30)

    def promote(self):
        with self.connect("postgres") as admin:
            assert admin.execute("SELECT pg_promote()").fetchone()[0]
