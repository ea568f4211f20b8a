"""Somebody new to relay breaks something on purpose: relay's own tools say what is wrong and what to do, and just that mends it."""

import re
import shlex
import subprocess

import pytest

import openfga
from pgbouncer import Pgbouncer
from postgres import Cluster, programs
from process import wait_until
from relay import environment, run
from rows import archive, archive_tuples, deletes, key, viewer, writes

# A machine that has much to do is slow, and not what is looked for; nothing is late here that would have to be waited for.
PATIENT = {"RELAY_CONNECT_TIMEOUT": "20s", "RELAY_SETTLE_TIMEOUT": "50ms"}


class Site:
    """A relay that delivers, and what somebody types and reads beside it."""

    def __init__(self, start, database, store, *flags, url=None):
        self.start = start
        self.database = database
        self.flags = flags
        self.n = 0
        self.restart(store, url or database.url)
        self.is_well()

    def restart(self, store, url, ready=True):
        """With these settings, as after a change of them."""
        port = None
        if self.n:
            self.relay.stop()
            port = self.relay.port
        self.store, self.url = store, url
        self.relay = self.start(url, store, *self.flags, ready=ready, port=port)

    def command(self, *args, as_owner=False):
        """A command of relay's, with the settings of the relay that runs, or as the table's owner."""
        url = self.database.url if as_owner else self.url
        return run(*args, env=environment(url, self.store, RELAY_HTTP_LISTEN=f"127.0.0.1:{self.relay.port}", **PATIENT))

    def psql(self, sql):
        """As the table's owner."""
        program = [f"{programs()}/psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.database.url, "-c", sql]
        done = subprocess.run(program, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (sql, done.stderr)

    def doctor(self, expect):
        """What the screen says: {check: (status, summary, remedy)}"""
        done = self.command("doctor")
        assert (done.returncode, done.stderr) == (expect, ""), done.stdout
        found = re.findall(r"^(\w+) +(\S+) +(.*)\n(?: +(.*)\n)?", done.stdout, re.M)
        return {check: (status, summary, remedy) for status, check, summary, remedy in found}

    def status(self):
        """What the screen says: {label: text}"""
        done = self.command("status")
        assert (done.returncode, done.stderr) == (0, "")
        return dict(re.split(r"  +", line, maxsplit=1) for line in done.stdout.splitlines() if not line.startswith(" "))

    def wait_problem(self, *texts):
        """Waits until status says that the relay is not ready, and why."""
        def told():
            found = self.status()
            return found["relay"] == "not ready" and all(text in found["relay's problem"] for text in texts)
        wait_until(told, 60, every=0.1, what=lambda: f"{texts} in {self.status()}")

    def reconcile(self, expect):
        done = self.command("reconcile")
        assert (done.returncode, done.stderr) == (expect, ""), (done.stdout, done.stderr)
        return done.stdout

    def deliver(self):
        """A row is delivered, and so are those that waited."""
        self.n += 1
        self.database.insert(archive(self.n))
        self.database.wait_delivered(timeout=60)
        assert self.store.tuples(object=f"archive:a{self.n}") == {archive_tuples(self.n)[0]}

    def is_well(self):
        """Nothing is wrong by doctor, and all rows are delivered."""
        self.deliver()
        assert {status for status, _, _ in self.doctor(expect=0).values()} == {"ok"}
        self.relay.wait_ready(60)
        assert self.status()["relay"] == "ready"
        assert self.database.pending() == self.database.attempts() == 0


def printed(text, begins):
    """The command between backquotes in a text that begins so, as words."""
    return shlex.split(re.search(rf"`relay ({begins}[^`]*)`", text).group(1))


@pytest.fixture
def database(calm):
    made = calm.create()
    made.create_outbox()
    assert run("install", database=made).returncode == 0
    yield made
    made.close()


@pytest.fixture
def site(start, database, store):
    return Site(start, database, store, "--sweep-interval", "1h")


def test_the_trigger_is_dropped(site):
    site.psql("DROP TRIGGER relay_notify ON fga_outbox")
    status, summary, remedy = site.doctor(expect=1)["trigger"]
    assert (status, summary) == ("warning", "there is none: rows wait for the next sweep")
    assert "as the table's owner, postgres" in remedy
    assert site.command(*printed(remedy, "install"), as_owner=True).returncode == 0
    site.is_well()


def test_the_index_is_dropped(site):
    site.psql("DROP INDEX fga_outbox_pending_idx")
    status, summary, remedy = site.doctor(expect=1)["index"]
    assert (status, summary) == ("warning", "there is none: every claim reads the delivered rows too")
    site.psql(remedy)
    assert site.database.value("SELECT to_regclass('fga_outbox_pending_idx') IS NOT NULL"), "by the name that it had"
    site.is_well()


def test_a_privilege_is_revoked(calm, start, database, store, prometheus):
    role = f"relay_of_{database.name}"
    assert run("install", "--role", role, database=database).returncode == 0
    try:
        site = Site(start, database, store, "--sweep-interval", "1h", url=calm.url(database.name, user=role))
        watching = prometheus(site.relay)
        site.psql(f"REVOKE UPDATE (processed_at) ON fga_outbox FROM {role}")
        database.insert(archive(100))
        site.wait_problem("permission denied for table fga_outbox", "`relay doctor` says what is missing")
        assert "`relay doctor` what mends it" in watching.wait_firing("RelayNotReady")
        status, summary, remedy = site.doctor(expect=2)["privileges"]
        assert status == "failure" and summary.startswith(f"role {role} lacks UPDATE (processed_at)")
        site.psql(remedy)
        site.is_well()
        site.relay.stop()
    finally:
        database.execute(f"DROP OWNED BY {role}")
        database.execute(f"DROP ROLE {role}")


def test_the_store_is_deleted(start, database, memory_fga, prometheus):
    store = memory_fga.create_store()
    site = Site(start, database, store, "--sweep-interval", "300ms")
    watching = prometheus(site.relay)
    store.delete()
    site.wait_problem(f"store {store.id} does not exist", "make one and its model")
    assert "`relay doctor` says which" in watching.wait_firing("RelayHalted")
    status, summary, remedy = site.doctor(expect=2)["store"]
    assert status == "failure" and store.id in summary and "make one and its model, name them, restart relay" in remedy
    site.restart(memory_fga.create_store(), site.url)
    repaired = site.command(*printed(remedy, "reconcile"), "--yes")
    assert repaired.returncode == 1 and "once relay has delivered them, reconcile again" in repaired.stdout
    database.wait_delivered(timeout=60)
    assert "in step" in site.reconcile(expect=0)
    assert site.store.tuples() == set(archive_tuples(1))
    site.is_well()


def test_pgbouncer_is_put_in_between(calm, start, database, store, prometheus):
    site = Site(start, database, store, "--sweep-interval", "1h")
    watching = prometheus(site.relay)
    pool = Pgbouncer(calm, "transaction")
    try:
        site.restart(store, pool.url(database.name), ready=False)
        site.wait_problem("notifications do not arrive: is a pooler in transaction mode in between?")
        assert "pooler in transaction mode" in watching.wait_firing("RelayNotListening")
        found = site.doctor(expect=2)
        assert found["pooler"][:2] == ("warning", "a pooler gives each transaction another session: nothing can be prepared")
        status, summary, remedy = found["listen"]
        assert status == "failure" and summary.startswith("a notification does not arrive")
        assert remedy.startswith("put into DATABASE_URL a port that leads to Postgres itself")
        site.restart(store, database.url)
        site.is_well()
        wait_until(lambda: "RelayNotListening" not in watching.firing(), 60)
    finally:
        site.relay.stop()
        pool.close()


def behind(store, part, *tuples):
    """Writes to OpenFGA as somebody does who does not know of the outbox."""
    store.post("write", {part: {"tuple_keys": [key(*t) for t in tuples]}})


def repair(site, said):
    """What reconcile says to do."""
    done = site.command(*printed(said, "reconcile"), "--yes")
    assert done.returncode == 1 and "1 row was inserted: once relay has delivered them, reconcile again" in done.stdout
    site.database.wait_delivered(timeout=60)
    assert site.reconcile(expect=0).endswith("in step\n")
    site.is_well()


def test_a_tuple_is_deleted_behind_its_back(site):
    t = viewer("anne", "x")
    id, = site.database.insert(writes(t))
    site.database.wait_delivered(id)
    behind(site.store, "deletes", t)
    said = site.reconcile(expect=1)
    assert re.search(rf"^missing +{' '.join(t)} +written by row {id}, delivered \S+; absent in OpenFGA$", said, re.M)
    repair(site, said)
    assert site.store.check(*t)


def test_a_revoked_tuple_is_brought_back(site):
    t = viewer("anne", "x")
    _, id = site.database.insert(writes(t), deletes(t))
    site.database.wait_delivered()
    behind(site.store, "writes", t)
    said = site.reconcile(expect=1)
    assert re.search(rf"^surviving +{' '.join(t)} +deleted by row {id}, delivered \S+; OpenFGA still has it$", said, re.M)
    repair(site, said)
    assert not site.store.check(*t)


@pytest.fixture
def fga_on_its_own():
    """OpenFGA on a cluster that the test may stop."""
    cluster = Cluster()
    server = openfga.Server(database=cluster.create(prefix="openfga"))
    yield server
    server.close()
    cluster.close()


def test_postgres_behind_openfga_is_stopped(fga_on_its_own, start, database, prometheus):
    site = Site(start, database, fga_on_its_own.create_store(), "--sweep-interval", "300ms")
    watching = prometheus(site.relay)
    behind_it = fga_on_its_own.database.cluster
    behind_it.stop()
    database.insert(archive(100))
    site.wait_problem("OpenFGA answered 500")
    assert "bring it, or its database, back" in watching.wait_firing("RelayOpenFGAUnavailable")
    status, summary, remedy = site.doctor(expect=2)["openfga"]
    assert status == "failure" and summary.startswith("OpenFGA answered 500") and remedy.startswith("see that OpenFGA's database (--datastore-uri) runs")
    behind_it.start()
    site.is_well()
