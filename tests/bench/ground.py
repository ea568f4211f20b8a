"""What every measurement stands on: one Postgres that syncs to disk, with the ledger's databases and OpenFGA's in it."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import deque
from contextlib import contextmanager

import relay as relay_module
from openfga import Server
from postgres import Cluster
from process import spawn
from relay import Relay, environment
from rows import all_tuples, archives

# As in service: commits are synced. The times of commits are what latency is measured by. No checkpoint by time, which
# would fall into one run and not into the other.
SETTINGS = """
fsync = on
shared_buffers = 256MB
max_wal_size = 2GB
checkpoint_timeout = 1h
track_commit_timestamp = on
pg_stat_statements.track = none
"""

# Writes of this many tuples are OpenFGA's largest.
TUPLES_A_WRITE = 100


def keys(n, first=0):
    """The keys of n rows: the same ones each time, in no order, as identifiers are that an application draws."""
    return [hashlib.md5(str(i).encode()).hexdigest() for i in range(first, first + n)]


def write_body(store, tuples):
    listed = [dict(zip(("user", "relation", "object"), t)) for t in sorted(tuples)]
    return json.dumps({"authorization_model_id": store.model_id, "writes": {"tuple_keys": listed, "on_duplicate": "ignore"}})


class Ground:
    """folder: where the programs are, as CMake built them. filler: how many other tuples stand in the store."""

    def __init__(self, folder, filler):
        self.direct_program = os.path.join(folder, "tests", "direct")
        relay_module.BINARY = os.path.join(folder, "relay")
        for program in (self.direct_program, relay_module.BINARY):
            assert os.access(program, os.X_OK), f"{program} is not there: build it first"
        self.filler = filler
        self.folder = tempfile.mkdtemp(prefix="relay-bench-")
        self.fga = None
        self.cluster = Cluster(SETTINGS)
        try:
            self.admin = self.cluster.connect("postgres")
            self.fga = Server(database=self.cluster.create(prefix="openfga"))
            self.bare = self.database()
            self.installed = self.database(trigger=True)
        except BaseException:
            self.close()
            raise

    def close(self):
        if self.fga is not None:
            self.fga.close()
        self.cluster.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def machine(self):
        """What was measured, and on what."""
        with open("/proc/cpuinfo") as f:
            models = re.findall(r"^model name\s*: (.*)$", f.read(), re.M)
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with open(self.fga.binary, "rb") as f:  # Go notes in the program what it was built from
            version = re.search(rb"\tgithub.com/openfga/openfga\tv([\d.]+)", f.read())
        return {
            "processors": os.cpu_count(), "processor": models[0] if models else "unknown", "memory_gib": round(pages / 2**30),
            "postgres": self.admin.execute("SHOW server_version").fetchone()[0],
            "openfga": version.group(1).decode() if version else "unknown", "relay": relay_module.run("--version").stdout.split()[-1],
        }

    def database(self, trigger=False):
        """A new one, with the ledger's table."""
        made = self.cluster.create()
        made.create_outbox()
        made.execute("CREATE TABLE committed (key text NOT NULL)")
        if trigger:
            done = relay_module.run("install", database=made)
            assert done.returncode == 0, done.stderr
        return made

    def fresh(self, database):
        """Every run finds the same: an empty outbox, a store that has been in service, nothing left to be written to disk.
        Returns the store. It has statistics: without them, OpenFGA's look-up before each Write reads all of it, and a run
        would measure when autovacuum happens to come by."""
        database.execute("TRUNCATE fga_outbox, committed RESTART IDENTITY")
        database.execute("VACUUM ANALYZE fga_outbox")
        store = self.fga.create_store()
        self.fga.database.execute("TRUNCATE tuple, changelog")
        self.fga.database.execute(
            """INSERT INTO tuple (store, object_type, object_id, relation, _user, user_type, ulid, inserted_at)
               SELECT %s, CASE i %% 2 WHEN 0 THEN 'capture_job' ELSE 'archive' END, 'filler-' || md5(i::text), 'parent',
                      CASE i %% 2 WHEN 0 THEN 'organization:' || i %% 500 ELSE 'capture_job:filler-' || md5((i - 1)::text) END,
                      'user', lpad(i::text, 26, '0'), now()
               FROM generate_series(1, %s) AS i""", store.id, self.filler)
        self.fga.database.execute("VACUUM ANALYZE tuple")
        self.admin.execute("CHECKPOINT")
        return store

    def check_tuples(self, store, of):
        """All that these rows wrote is there, and nothing else: whoever loses rows is not fast."""
        found = self.fga.database.execute(
            "SELECT _user, relation, object_type || ':' || object_id FROM tuple WHERE store = %s AND object_id NOT LIKE 'filler-%%'",
            store.id).fetchall()
        assert set(found) == all_tuples(of), f"{len(found)} tuples in OpenFGA, not {len(all_tuples(of))}"

    @contextmanager
    def relay(self, database, store, *flags):
        running = Relay(self.folder, *flags, env=environment(database, store))
        try:
            yield running
            running.stop()
        finally:
            running.kill()

    def fill(self, database, of):
        database.insert(*archives(of))
        database.execute("VACUUM ANALYZE fga_outbox")
        self.admin.execute("CHECKPOINT")

    def direct(self, command, lines, *args):
        """Starts bench/direct.c on these lines; returns a function that waits for its end and returns what it printed."""
        with tempfile.NamedTemporaryFile("w", dir=self.folder, delete=False) as f:
            f.writelines(line + "\n" for line in lines)
        process = spawn([self.direct_program, command, f.name, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def finish():
            out, err = process.communicate()
            assert process.returncode == 0, err.decode()
            return out.decode()

        return finish


def interleave(arms, repetitions, say):
    """Runs every arm once in each repetition, each time beginning with another one: what changes on the machine meanwhile
    hits all of them. arms: {name: function}; returns {name: [result, …]}."""
    found = {name: [] for name in arms}
    order = deque(arms)
    for n in range(repetitions):
        for name in order:
            found[name].append(arms[name]())
            say(f"  {n + 1} of {repetitions}, {name}: {found[name][-1]}")
        order.rotate(-1)
    return found
