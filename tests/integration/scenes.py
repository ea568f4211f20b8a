"""What has happened before the commands of a document's section are typed, and what must be true afterwards. A section without a scene finds
everything in order, and a relay that runs."""

from contextlib import contextmanager

import psycopg

from process import wait_until
from rows import archive_tuples, archives, deletes, viewer, writes

ARCHIVES = range(1, 7)  # archive n is row n
REFUSED = ("spaceship:s1", "parent", "archive:a1")


def deliver(stage, *payloads):
    stage.ledger.wait_delivered(*stage.ledger.insert(*payloads), timeout=30)


def refuse(stage, *payloads):
    """The first of these rows is refused, and those behind it are held."""
    row, *others = stage.ledger.insert(*payloads)
    wait_until(lambda: stage.ledger.row(row)[1] > 0 and stage.relay.metric("relay_rows_parked") == 1 + len(others), 30)


def differ(stage):
    """A tuple that rows wrote is gone from OpenFGA, one that they deleted is back, and one that none had is there. Returns these three."""
    missing, surviving, foreign = archive_tuples(5)[0], viewer("anne", "a1"), viewer("mallory", "a2")
    deliver(stage, *archives(ARCHIVES), writes(surviving), deletes(surviving))
    stage.store.post("write", {"deletes": {"tuple_keys": [dict(zip(("user", "relation", "object"), missing))]}})
    stage.store.write(surviving, foreign)
    return missing, surviving, foreign


@contextmanager
def adopting(stage):
    """The ledger has its table, and nothing of relay's."""
    stage.sql("DROP TRIGGER relay_notify ON fga_outbox; DROP FUNCTION relay_notify(); DROP OWNED BY relay")
    yield


@contextmanager
def something_of_everything(stage):
    differ(stage)
    refuse(stage, writes(REFUSED, viewer("bob", "a2")), deletes(viewer("bob", "a2")))
    stage.sql("DROP TRIGGER relay_notify ON fga_outbox")
    yield


@contextmanager
def old_rows(stage):
    deliver(stage, *archives(ARCHIVES))
    stage.ledger.execute("UPDATE fga_outbox SET processed_at = processed_at - interval '2 years' WHERE id <= 2")
    yield
    rows = stage.ledger.execute("SELECT array(SELECT id FROM fga_outbox_archive ORDER BY 1), array(SELECT id FROM fga_outbox ORDER BY 1)")
    assert rows.fetchone() == ([1, 2], [3, 4, 5, 6])


@contextmanager
def no_trigger_afterwards(stage):
    triggers = "SELECT count(*) FROM pg_trigger WHERE tgname = 'relay_notify'"
    assert stage.ledger.value(triggers) == 1
    yield
    assert stage.ledger.value(triggers) == 0


@contextmanager
def analyzed_afterwards(stage):
    analyzed = "SELECT analyze_count FROM pg_stat_user_tables WHERE relname = 'tuple'"
    with stage.cluster.connect("openfga") as admin:
        before = admin.execute(analyzed).fetchone()[0]
        yield
        wait_until(lambda: admin.execute(analyzed).fetchone()[0] > before, 30)


def pooled(mode):
    def scene(stage):
        return stage.pgbouncer(mode)
    return scene


def guarded(stage):
    return stage.guarded_openfga()


def tls_alone(stage):
    return stage.let_in("hostnossl all relay all reject")


@contextmanager
def nothing_for_everybody(stage):
    stage.sql("REVOKE TEMPORARY ON DATABASE ledger FROM PUBLIC")
    with psycopg.connect(stage.cluster.url("ledger", user="owner"), application_name="ledger", autocommit=True) as another:
        another.execute("LISTEN something")
        yield
    stage.ledger.execute("DROP OWNED BY auditor; DROP ROLE auditor")


@contextmanager
def delivered(stage):
    deliver(stage, *archives(ARCHIVES))
    yield


@contextmanager
def sequence_behind(stage):
    deliver(stage, *archives(ARCHIVES))
    stage.ledger.execute("SELECT setval('fga_outbox_id_seq', 1)")
    yield
    deliver(stage, *archives([7]))


@contextmanager
def restored(stage):
    missing, surviving, foreign = differ(stage)
    yield
    stage.ledger.wait_delivered(timeout=30)
    assert stage.store.tuples() == {t for n in ARCHIVES for t in archive_tuples(n)}


@contextmanager
def no_privilege(stage):
    stage.sql("REVOKE UPDATE (processed_at, attempts, last_error) ON fga_outbox FROM relay")
    stage.ledger.insert(*archives([1]))
    stage.relay.wait_not_ready("permission denied", timeout=30)
    yield
    stage.ledger.wait_delivered(timeout=30)


@contextmanager
def no_store(stage):
    stage.store.delete()
    stage.store = None
    stage.relay.wait_not_ready("no store named", timeout=30)
    yield


@contextmanager
def a_refused_row(stage):
    refuse(stage, writes(REFUSED))
    yield


SCENES = {
    "README.md: Adopting it on an existing ledger": adopting,
    "README.md: Running it": something_of_everything,
    "docker/README.md: The table": old_rows,
    "docker/README.md: The trigger": no_trigger_afterwards,
    "docker/README.md: OpenFGA": analyzed_afterwards,
    "docker/README.md: A pool in session mode": pooled("session"),
    "docker/README.md: A pool in transaction mode": pooled("transaction"),
    "docker/README.md: TLS": tls_alone,
    "docker/README.md: Credentials": guarded,
    "docker/README.md: The role": nothing_for_everybody,
    "docker/README.md: The probe": delivered,
    "docker/README.md: Upgrades": sequence_behind,
    "docker/README.md: Backups and restores": restored,
    "docker/README.md: RelayNotReady": no_privilege,
    "docker/README.md: RelayHalted": no_store,
    "docker/README.md: RelayRowsRefused": a_refused_row,
}
