"""relay doctor: everything that somebody may break, broken for real, is found, and what it says of it mends it."""

import json
import os
import pty
import re
import socket
import subprocess
import time
from contextlib import closing
from email.utils import formatdate

import pytest

import openfga
from datastore import read_only
from issuer import CLIENT
from pgbouncer import Pgbouncer
from postgres import Cluster, Standby
from process import free_port, wait_until
from proxy import Reply
from relay import BINARY, environment, run
from rows import archive, archives, key, unknown

pytestmark = pytest.mark.asan

NOBODY = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
POSTGRES = [
    "postgres", "version", "pooler", "listen", "table", "index", "trigger", "privileges", "two-phase", "snapshots", "prepared", "dead-rows", "queue",
    "clock",
]
OPENFGA = ["openfga", "openfga-clock", "credentials", "store", "model", "on-duplicate", "writes", "tuple-limit", "rows"]
CHECKS = POSTGRES + OPENFGA
OF_THE_TABLE = ["index", "trigger", "privileges", "dead-rows", "rows"]

# A machine that has much to do is slow, and not what is looked for.
PATIENT = {"RELAY_CONNECT_TIMEOUT": "20s"}

# The tests' cluster lets transactions be prepared, which the trigger does not go with.
USUAL = {"two-phase": "warning"}


def skipped(names):
    return {name: "skipped" for name in names}


def examine(database, store, expected, *flags, **extra):
    """Runs it and returns {check: finding}; `expected` are the checks that are not ok, with their statuses."""
    done = run("doctor", "--json", *flags, env=environment(database, store, **{**PATIENT, **extra}))
    assert done.stderr == ""
    findings = json.loads(done.stdout)
    assert [f["check"] for f in findings] == CHECKS
    assert all(set(f) == {"check", "status", "summary", "remedy"} and f["summary"] for f in findings)
    assert {f["check"]: f["status"] for f in findings if f["status"] != "ok"} == expected, done.stdout
    assert all((f["remedy"] is not None) == (f["status"] in ("warning", "failure")) for f in findings), done.stdout
    worst = {f["status"] for f in findings}
    assert done.returncode == (2 if "failure" in worst else 1 if "warning" in worst else 0)
    return {f["check"]: f for f in findings}


def burn(database, n=20_001):
    """So many transactions come and go."""
    database.execute(f"DO $$ BEGIN FOR i IN 1..{n} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")


@pytest.fixture(scope="module")
def still():
    """A cluster in which nobody takes a snapshot unasked: neither autovacuum's launcher nor that of logical replication."""
    made = Cluster(settings="autovacuum = off\nmax_logical_replication_workers = 0\n")
    yield made
    made.close()


@pytest.fixture
def still_db(still):
    """As db, in that cluster."""
    made = still.create()
    made.create_outbox()
    assert run("install", database=made).returncode == 0
    yield made
    made.close()


@pytest.fixture
def role(cluster, db):
    """A role that may deliver, and no more."""
    name = f"doctor_{db.name}"
    assert run("install", "--role", name, database=db).returncode == 0
    yield name
    db.execute(f"DROP OWNED BY {name}")
    db.execute(f"DROP ROLE {name}")


@pytest.fixture
def pool(cluster):
    made = []

    def make(mode, **keywords):
        made.append(Pgbouncer(cluster, mode, **keywords))
        return made[-1]

    yield make
    for pgbouncer in made:
        pgbouncer.close()


def test_all_is_well(calm, store):
    db = calm.create()
    db.create_outbox()
    assert run("install", database=db).returncode == 0
    ids = db.insert(*archives(range(3)))
    findings = examine(db, store, {})
    assert "pending rows, 3," in findings["rows"]["summary"]
    done = run("doctor", env=environment(db, store, **PATIENT))
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [["ok", name] for name in CHECKS]
    assert "\033" not in done.stdout
    # It has changed nothing.
    assert [db.row(id) for id in ids] == [(None, 0, None)] * 3
    assert store.server.request("GET", f"/stores/{store.id}/changes") == (200, {"changes": [], "continuation_token": ""})
    db.close()


def test_it_writes_no_tuple(db, store, proxy):
    db.insert(archive(1))
    examine(db, store, USUAL, url=proxy.url)
    assert any(e.is_write for e in proxy.exchanges)
    assert all(e.is_probe and "writes" not in json.loads(e.body) for e in proxy.exchanges if e.is_write)


def test_help_names_every_check():
    lines = run("doctor", "--help", env=environment()).stdout.splitlines()
    assert [line.split()[0] for line in lines if any(line.startswith(f"  {name} ") for name in CHECKS)] == CHECKS


@pytest.mark.parametrize("variables, in_colour", [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)])
def test_colour_only_on_a_terminal_that_wants_it(variables, in_colour):
    ours, theirs = pty.openpty()
    nobody = f"127.0.0.1:{free_port()}"
    env = environment(f"postgres://{nobody}/x", FGA_API_URL=f"http://{nobody}", FGA_STORE_ID=NOBODY, **{"TERM": "xterm", "NO_COLOR": None, **variables})
    process = subprocess.Popen([BINARY, "doctor"], env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 65536):
            text += part
    except OSError:
        pass  # its end
    os.close(ours)
    assert process.wait(30) == 2
    assert (b"\033[31mfailure" in text) == in_colour == (b"\033" in text)


# What is broken, and how; the check that finds it, its status, what else follows, and whether the remedy is SQL or a command.
BROKEN = {
    "no trigger": ("DROP TRIGGER relay_notify ON fga_outbox", "trigger", "warning", {}, "install"),
    "a disabled trigger": ("ALTER TABLE fga_outbox DISABLE TRIGGER relay_notify", "trigger", "warning", {}, "sql"),
    "an older trigger": (
        "CREATE OR REPLACE FUNCTION relay_notify() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_notify(TG_ARGV[0], ''''); RETURN NULL; END'",
        "trigger", "warning", USUAL, "install"),
    "a trigger for another channel": (
        "CREATE OR REPLACE TRIGGER relay_notify AFTER INSERT ON fga_outbox FOR EACH STATEMENT EXECUTE FUNCTION relay_notify('other')",
        "trigger", "warning", USUAL, "install"),
    "no index": ("DROP INDEX fga_outbox_pending_idx", "index", "warning", USUAL, "sql"),
    "an index on something else": (
        "DROP INDEX fga_outbox_pending_idx; CREATE INDEX fga_outbox_pending_idx ON fga_outbox (id) WHERE attempts = 0", "index", "warning", USUAL, "sql"),
    "an index that is not valid": (
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'fga_outbox_pending_idx'::regclass", "index", "warning", USUAL, "sql"),
    "an id that need not be unique": ("ALTER TABLE fga_outbox DROP CONSTRAINT fga_outbox_pkey", "index", "warning", USUAL, "sql"),
    "a column of another type": ("ALTER TABLE fga_outbox ALTER last_error TYPE varchar(80)", "table", "warning", USUAL, "sql"),
    "a column of a wrong type": (
        "ALTER TABLE fga_outbox ALTER attempts DROP DEFAULT, ALTER attempts TYPE text", "table", "failure", {**USUAL, **skipped(["rows"])}, "sql"),
    "a column too few": ("ALTER TABLE fga_outbox DROP last_error", "table", "failure", {**USUAL, **skipped(["rows"])}, "sql"),
    "a column that has to be there": ("ALTER TABLE fga_outbox ALTER processed_at SET NOT NULL", "table", "warning", USUAL, "sql"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_is_found_and_mended(db, store, what):
    how, check, status, others, kind = BROKEN[what]
    db.execute(how)
    remedy = examine(db, store, {**others, check: status})[check]["remedy"]
    if kind == "sql":
        db.execute(remedy)
    else:
        assert remedy.startswith("`relay install`")
        assert run("install", database=db).returncode == 0
    examine(db, store, USUAL)


def test_the_channel_is_that_of_the_options(db, store):
    remedy = examine(db, store, {**USUAL, "trigger": "warning"}, "--channel", "it's")["trigger"]["remedy"]
    assert remedy.startswith("`relay install --channel 'it'\\''s'`")


@pytest.mark.parametrize("privilege, found", [("SELECT", "failure"), ("UPDATE (attempts)", "failure"), ("UPDATE (processed_at, last_error)", "failure")])
def test_a_privilege_that_is_missing(cluster, db, store, role, privilege, found):
    url = cluster.url(db.name, user=role)
    examine(url, store, USUAL)
    db.execute(f"REVOKE {privilege} ON fga_outbox FROM {role}")
    finding = examine(url, store, {**USUAL, "privileges": found, **skipped(["rows"])})["privileges"]
    assert privilege in finding["summary"]
    db.execute(finding["remedy"])
    examine(url, store, USUAL)


def test_row_level_security(cluster, db, store, role):
    db.execute("ALTER TABLE fga_outbox ENABLE ROW LEVEL SECURITY")
    examine(db, store, USUAL)  # the owner
    url = cluster.url(db.name, user=role)
    remedy = examine(url, store, {**USUAL, "privileges": "warning"})["privileges"]["remedy"]
    assert "CREATE POLICY" in remedy and role in remedy


def test_no_table(empty_db, store):
    finding = examine(empty_db, store, {"table": "failure", **skipped(OF_THE_TABLE)})["table"]
    assert "fga_outbox" in finding["summary"] and "`relay install`" in finding["remedy"]


def test_a_schema_that_is_closed(cluster, db, store, role):
    db.execute("CREATE SCHEMA closed; ALTER TABLE fga_outbox SET SCHEMA closed")
    finding = examine(cluster.url(db.name, user=role), store, {"table": "failure", **skipped(OF_THE_TABLE)}, "--table", "closed.fga_outbox")["table"]
    assert "closed" in finding["summary"] and "relay install --role" in finding["remedy"]


def test_what_is_not_a_table(db, store):
    db.execute("CREATE VIEW seen AS SELECT * FROM fga_outbox")
    assert "--table" in examine(db, store, {"table": "failure", **skipped(OF_THE_TABLE)}, "--table", "seen")["table"]["remedy"]


def test_any_table_name(empty_db, store):
    empty_db.execute('CREATE SCHEMA "Audit Log"')
    table = '"Audit Log"."My ""out"" \'box\\"'
    empty_db.create_outbox(table, '"idx"')
    empty_db.insert(archive(1))
    assert "--table" in examine(empty_db, store, {"trigger": "warning"}, "--table", table)["trigger"]["remedy"]
    assert run("install", "--table", table, database=empty_db).returncode == 0
    assert "pending rows, 1," in examine(empty_db, store, USUAL, "--table", table)["rows"]["summary"]


def test_a_name_that_is_none(db, store):
    done = run("doctor", "--table", "a.b.c", env=environment(db, store))
    assert done.returncode == 2 and done.stdout == "" and "--table" in done.stderr


def test_a_pooler_in_transaction_mode(db, store, pool):
    url = pool("transaction").url(db.name)
    findings = examine(url, store, {**USUAL, "pooler": "warning", "listen": "failure"})
    assert "--no-prepare" in findings["pooler"]["remedy"] and "--no-listen" in findings["listen"]["remedy"]
    examine(url, store, {**USUAL, **skipped(["listen"])}, "--no-prepare", "--no-listen")


def test_a_pooler_with_a_single_session(db, store, pool):
    url = pool("transaction", size=1).url(db.name)
    findings = examine(url, store, {**USUAL, "pooler": "warning", "listen": "failure"}, "--connect-timeout", "10s")
    assert "--no-prepare" in findings["pooler"]["remedy"]


def test_no_second_connection(cluster, db, store, role):
    db.execute(f"ALTER ROLE {role} CONNECTION LIMIT 1")
    finding = examine(cluster.url(db.name, user=role), store, {**USUAL, "pooler": "failure", "listen": "skipped"})["pooler"]
    assert "CONNECTION LIMIT" in finding["remedy"]


def test_a_pooler_in_session_mode(db, store, pool):
    assert "session of its own" in examine(pool("session").url(db.name), store, USUAL)["pooler"]["summary"]


def test_a_read_only_database(cluster, db, store):
    with cluster.connect("postgres") as admin:
        admin.execute(f"ALTER DATABASE {db.name} SET default_transaction_read_only = on")
    finding = examine(db, store, {**USUAL, "postgres": "failure"})["postgres"]
    with cluster.connect("postgres") as admin:
        admin.execute(finding["remedy"].split(";")[0])
    examine(db, store, USUAL)


def test_a_standby(store):
    """Connected to as it is, and beside its primary."""
    primary = Cluster(settings="max_prepared_transactions = 0\n")
    standby = Standby(primary)
    try:
        db = primary.create()
        db.create_outbox()
        assert run("install", database=db).returncode == 0
        standby.wait_replayed(db)
        findings = examine(standby.url(db.name), store, {"postgres": "failure", "listen": "failure"})
        assert "127.0.0.1 is a standby" in findings["postgres"]["summary"]
        assert "name the primary in DATABASE_URL, with target_session_attrs=read-write" in findings["postgres"]["remedy"]
        both = f"postgres://postgres@127.0.0.1:{standby.port},127.0.0.1:{primary.port}/{db.name}?sslmode=disable"
        examine(both, store, {"postgres": "failure", "listen": "failure"})
        examine(f"{both}&target_session_attrs=read-write", store, {})
        db.reconnect()
        primary.stop()
        expected = {"postgres": "failure", **skipped(POSTGRES[1:]), "rows": "skipped"}
        findings = examine(f"{both}&target_session_attrs=read-write", store, expected)
        assert findings["postgres"]["remedy"] == "name the primary as well, or promote a standby"
    finally:
        standby.close()
        primary.close()


OLDER = """
ALTER FUNCTION pg_catalog.current_setting(text) RENAME TO own;
ALTER FUNCTION pg_catalog.set_config(text, text, boolean) RENAME TO own;
CREATE FUNCTION pg_catalog.current_setting(name text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE name WHEN 'server_version' THEN '13.22' WHEN 'server_version_num' THEN '130022' ELSE pg_catalog.own(name) END $$;
CREATE FUNCTION pg_catalog.set_config(name text, value text, is_local boolean) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
    IF name = 'idle_session_timeout' THEN
        RAISE undefined_object USING MESSAGE = 'unrecognized configuration parameter "idle_session_timeout"';
    END IF;
    RETURN pg_catalog.own(name, value, is_local);
END $$
"""


def test_a_postgres_before_14(db, store):
    """A stub stands in for what Debian does not have: in this database two of Postgres's functions answer as those of 13 do."""
    db.execute(OLDER)
    finding = examine(db, store, {**USUAL, "version": "failure"})["version"]
    assert finding["summary"] == "13.22 is older than relay supports" and "14 or later" in finding["remedy"]
    for command in ("status", "drain", "reconcile"):
        done = run(command, env=environment(db, store, **PATIENT))
        assert done.returncode in (2, 3) and "14 or later" in done.stderr, (command, done.stderr)


def test_a_queue_of_notifications_that_fills(still_db, store):
    """A session that listens stays in a transaction: it keeps 100 MB of the 8 GB that there are, and that cannot be had here."""
    db = still_db
    with closing(db.cluster.connect(db.name)) as idler:
        idler.execute("LISTEN something")
        idler.execute("BEGIN")
        pid = idler.execute("SELECT pg_backend_pid()").fetchone()[0]
        db.execute("SELECT pg_notify('something', repeat('x', 7900) || n) FROM generate_series(1, 12500) AS n")
        findings = examine(db, store, {**USUAL, "queue": "warning"})
        assert re.match(r"1\.\d % full: a session that listens keeps a transaction open", findings["queue"]["summary"])
        remedy = findings["queue"]["remedy"]
        assert remedy.startswith(f"session {pid} (postgres, database {db.name}) has been in a transaction for ")
        db.execute(remedy[remedy.index("SELECT"):])
        wait_until(lambda: not db.value("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", pid))
        examine(db, store, USUAL)


def test_an_old_snapshot(still_db, store):
    db = still_db
    with db.transaction() as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        pid = reader.execute("SELECT pg_backend_pid() FROM fga_outbox RIGHT JOIN (VALUES (1)) AS x (n) ON true").fetchone()[0]
        burn(db)
        finding = examine(db, store, {**USUAL, "snapshots": "warning"})["snapshots"]
        assert f"pg_terminate_backend({pid})" in finding["remedy"]
    examine(db, store, USUAL)


def test_a_prepared_transaction_that_nobody_ends(still_db, store):
    db = still_db
    name = f"nobody's {db.name}"
    with db.transaction() as other:
        other.execute("CREATE TABLE made ()")
        other.execute("PREPARE TRANSACTION '" + name.replace("'", "''") + "'")
    try:
        burn(db)
        finding = examine(db, store, {**USUAL, "prepared": "warning"})["prepared"]
        assert name in finding["summary"]
    finally:
        db.execute("ROLLBACK PREPARED '" + name.replace("'", "''") + "'")
    assert "ROLLBACK PREPARED '" + name.replace("'", "''") + "'" in finding["remedy"]
    examine(db, store, USUAL)


def test_two_phase_commit_and_no_trigger(bare_db, store):
    assert examine(bare_db, store, {"trigger": "warning"})["two-phase"]["status"] == "ok"


def test_many_dead_rows(still_db, store):
    db = still_db
    db.execute("INSERT INTO fga_outbox (payload, processed_at) SELECT '{}', now() FROM generate_series(1, 10001)")
    db.execute("UPDATE fga_outbox SET attempts = 1")
    db.reconnect()  # a session counts when it ends, which it does later
    wait_until(lambda: db.value("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'fga_outbox'") > 10000)
    remedy = examine(db, store, {**USUAL, "dead-rows": "warning"})["dead-rows"]["remedy"]
    assert remedy.startswith("VACUUM (ANALYZE) public.fga_outbox")
    db.execute("VACUUM (ANALYZE) fga_outbox")
    examine(db, store, USUAL)


def test_postgres_away(store):
    url = f"postgres://u:secret-password@127.0.0.1:{free_port()}/x"
    findings = examine(url, store, {"postgres": "failure", **skipped(POSTGRES[1:]), "rows": "skipped"})
    assert "DATABASE_URL" in findings["postgres"]["remedy"]
    assert "secret-password" not in str(findings)


def test_openfga_away(db, store):
    finding = examine(db, store, {**USUAL, "openfga": "failure", **skipped(OPENFGA[1:])}, url=f"http://127.0.0.1:{free_port()}")["openfga"]
    assert "FGA_API_URL" in finding["remedy"]


@pytest.mark.parametrize("path, others", [("/healthz", OPENFGA[1:]), ("/stores", OPENFGA[2:])])
def test_an_openfga_that_is_unwell(db, store, proxy, path, others):
    proxy.hook = lambda e: Reply(503, "", {}) if e.path.startswith(path) else None
    finding = examine(db, store, {**USUAL, "openfga": "failure", **skipped(others)}, url=proxy.url)["openfga"]
    assert "503" in finding["summary"]


def test_nobody_answers():
    """It comes to its end, and says so of both."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        nobody = f"127.0.0.1:{silent.getsockname()[1]}"
        expected = {"postgres": "failure", "openfga": "failure", **skipped(POSTGRES[1:]), **skipped(OPENFGA[1:])}
        examine(f"postgres://{nobody}/x", None, expected, "--connect-timeout", "1s", FGA_API_URL=f"http://{nobody}", FGA_STORE_ID=NOBODY)


def test_a_deleted_store(db, memory_fga):
    store = memory_fga.create_store()
    store.delete()
    finding = examine(db, store, {**USUAL, "store": "failure", **skipped(OPENFGA[4:])})["store"]
    assert store.id in finding["summary"] and "FGA_STORE_ID" in finding["remedy"]


def test_a_store_by_a_name_that_none_has(db, store):
    finding = examine(db, store, {**USUAL, "store": "failure", **skipped(OPENFGA[4:])}, FGA_STORE_ID=None, FGA_STORE_NAME="no such store")["store"]
    assert "FGA_STORE_NAME" in finding["remedy"]


def test_a_store_by_its_name(db, memory_fga):
    store = memory_fga.create_store(name=f"doctor-{db.name}-{free_port()}")
    db.insert(archive(1))
    name = store.server.request("GET", f"/stores/{store.id}")[1]["name"]
    findings = examine(db, store, USUAL, FGA_STORE_ID=None, FGA_STORE_NAME=name, FGA_MODEL_ID=None)
    assert findings["model"]["summary"] == f"{store.model_id}, the latest"
    assert "fit the model" in findings["rows"]["summary"]


def test_no_model(db, memory_fga):
    store = memory_fga.create_store(model=False)
    finding = examine(db, store, {**USUAL, "model": "failure", **skipped(OPENFGA[5:])}, FGA_MODEL_ID=None)["model"]
    assert "write one" in finding["remedy"]


def test_a_wrong_model(db, store):
    finding = examine(db, store, {**USUAL, "model": "failure", **skipped(OPENFGA[5:])}, FGA_MODEL_ID=NOBODY)["model"]
    assert "FGA_MODEL_ID" in finding["remedy"]


@pytest.mark.parametrize("key", ["wrong-key-0123456789", None])
def test_a_wrong_token(db, make_fga, key):
    server = make_fga(keys=["right-key-0123456789"])
    store = server.create_store()
    examine(db, store, USUAL, FGA_API_TOKEN="right-key-0123456789")
    findings = examine(db, store, {**USUAL, "credentials": "failure", **skipped(OPENFGA[3:])}, FGA_API_TOKEN=key)
    assert "FGA_API_TOKEN" in findings["credentials"]["remedy"]
    assert key is None or key not in str(findings)


def test_an_issuer_that_is_away(db, store):
    away = {"FGA_CLIENT_ID": CLIENT, "FGA_CLIENT_SECRET": "client-secret-0123", "FGA_API_TOKEN_ISSUER": f"http://127.0.0.1:{free_port()}"}
    findings = examine(db, store, {**USUAL, "credentials": "failure", **skipped(OPENFGA[3:])}, **away)
    assert "issuer" in findings["credentials"]["summary"] and "client-secret-0123" not in str(findings)


def test_an_openfga_that_cannot_write(db, durable_fga, durable_store):
    def restart():
        """Its sessions were ended, and it does not know of each."""
        durable_fga.stop()
        durable_fga.start()

    with read_only(durable_fga.database):
        restart()
        examine(db, durable_store, {**USUAL, "writes": "failure"})
    restart()
    examine(db, durable_store, USUAL)


def test_a_lower_limit_of_tuples(db, make_fga):
    store = make_fga(flags=["--max-tuples-per-write", "7"]).create_store()
    finding = examine(db, store, {**USUAL, "tuple-limit": "warning"})["tuple-limit"]
    assert "--max-tuples-per-write 7" in finding["remedy"]
    examine(db, store, USUAL, "--max-tuples-per-write", "7")


def test_an_old_openfga(db, make_fga):
    store = make_fga(binary=openfga.old()).create_store()
    db.insert(archive(1))
    assert "1.10" in examine(db, store, {**USUAL, "on-duplicate": "warning"})["on-duplicate"]["remedy"]


@pytest.mark.parametrize("ahead", [-3600, 3600])
def test_a_clock_that_is_wrong(db, store, proxy, ahead):
    date = formatdate(time.time() + ahead, usegmt=True)
    proxy.hook = lambda e: Reply(200, '{"status":"SERVING"}', {"Date": date}) if e.path == "/healthz" else None
    finding = examine(db, store, {**USUAL, "openfga-clock": "warning"}, url=proxy.url)["openfga-clock"]
    assert ("behind" if ahead < 0 else "ahead") in finding["summary"] and "NTP" in finding["remedy"]


def test_rows_that_the_model_has_nothing_for(db, store):
    db.insert(archive(1))
    bad = db.insert(unknown(1), unknown(2), '{"write": []}')
    finding = examine(db, store, {**USUAL, "rows": "warning"})["rows"]
    assert "3 of the oldest 4" in finding["summary"] and "spaceship" in finding["summary"] and f"row {bad[0]}" in finding["summary"]
    query = finding["remedy"][finding["remedy"].index("SELECT"):]
    assert [row[0] for row in db.execute(query + " ORDER BY id")] == bad


LATER = {"name": "not_expired", "context": {"expires_at": "2100-01-01T00:00:00Z"}}
TUPLES = [
    ("user:a", "viewer", "archive:1"), ("user:*", "viewer", "archive:1"), ("organization:o#member", "viewer", "archive:1"),
    ("user:a", "viewer", "archive:1", LATER), ("organization:o", "viewer", "archive:1"), ("organization:*", "viewer", "archive:1"),
    ("organization:o#owner", "viewer", "archive:1"), ("capture_job:j#parent", "viewer", "archive:1"), ("user:a", "owner", "archive:1"),
    ("user:a", "can_read", "archive:1"), ("ship:a", "viewer", "archive:1"), ("user:a", "viewer", "ship:1"), ("user:a", "parent", "archive:1"),
    ("user:a", "viewer", "archive:1", {"name": "no_such"}), ("user:a", "member", "organization:o", LATER), ("capture_job:j", "parent", "archive:1"),
]


def test_it_judges_rows_as_openfga_does(db, store):
    refused = set()
    for given in TUPLES:
        payload = {"writes": [key(*given)]}
        id, = db.insert(payload)
        status, answer = store.server.request("POST", f"/stores/{store.id}/write", {"writes": {"tuple_keys": payload["writes"], "on_duplicate": "ignore"}})
        if status == 400:
            assert answer["code"] == "validation_error", answer
            refused.add(id)
    finding = examine(db, store, {**USUAL, "rows": "warning"})["rows"]
    found = re.search(r"id IN \((.*)\)", finding["remedy"]).group(1)
    assert {int(id) for id in found.split(", ")} == refused
    assert 5 < len(refused) < len(TUPLES)
