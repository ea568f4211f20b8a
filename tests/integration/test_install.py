"""relay install: the table, the trigger, the role, and the way back, on a real Postgres."""

import os
import re
import socket
import subprocess

import psycopg
import pytest
from psycopg import sql

import relay
from process import free_port

SQL = os.path.join(relay.ROOT, "sql")
NASTY_TABLES = [
    ("fga_outbox", "public", "fga_outbox"),
    ("audit.fga_outbox", "audit", "fga_outbox"),
    ("""Audit.Fga_Outbox""", "audit", "fga_outbox"),
    ('''"Audit Log"."My ""out"" 'box\\"''', "Audit Log", """My "out" 'box\\"""),
    (f'"{"t" * 63}"', "public", "t" * 63),
    (f'"{"é" * 31}"', "public", "é" * 31),
    ('"select"', "public", "select"),
    ('":\'table\'"', "public", ":'table'"),
]
NASTY_CHANNELS = ["fga_outbox", "Fga_Outbox", """my "quoted" 'channel'""", "back\\slash", "é" * 31, "$relay$", "c" * 63]


def install(database, *flags, user=None, expect=0):
    """Runs it and returns what it printed: (done, warnings), each a list of lines."""
    url = database.cluster.url(database.name, user) if user else database.url
    done = relay.run("install", *flags, database=url)
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    return done.stdout.splitlines(), done.stderr.splitlines()


def psql(database, *arguments, stdin=None, expect=0):
    done = subprocess.run(
        ["psql", "-qX", "-v", "ON_ERROR_STOP=1", "-d", database.url, *arguments], input=stdin, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == expect, done.stderr
    return done.stderr


def shape(database, schema="public", table="fga_outbox"):
    """Columns and indexes, with nothing in it that depends on the names."""
    relation = database.value("SELECT to_regclass(format('%%I.%%I', %s::text, %s::text))::oid", schema, table)
    columns = database.execute(
        "SELECT attname, format_type(atttypid, atttypmod), attnotnull, attidentity, regexp_replace(pg_get_expr(adbin, adrelid), '''.*''', 'X')"
        " FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum"
        " WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum", relation).fetchall()
    indexes = database.execute(
        "SELECT indisprimary, indisunique, indisvalid, indkey::text, pg_get_expr(indpred, indrelid) FROM pg_index WHERE indrelid = %s ORDER BY 1", relation)
    return columns, indexes.fetchall()


def everything(database):
    """Each object that an installation could touch, with the transaction that wrote it last."""
    return database.execute(
        "SELECT 'class', oid, xmin::text, relacl::text FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " UNION ALL SELECT 'attribute', attrelid, xmin::text, attacl::text FROM pg_attribute WHERE attrelid = to_regclass('fga_outbox')"
        " UNION ALL SELECT 'function', oid, xmin::text, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
        " UNION ALL SELECT 'trigger', oid, xmin::text, tgname FROM pg_trigger ORDER BY 1, 2, 3, 4"
    ).fetchall()


def triggers(database, table="fga_outbox"):
    return [row[0] for row in database.execute("SELECT tgname FROM pg_trigger WHERE tgrelid = to_regclass(%s) ORDER BY 1", table)]


def functions(database):
    return database.value("SELECT count(*) FROM pg_proc WHERE proname = 'relay_notify'")


class Listener:
    """A session that listens; `take` waits for what it gets."""

    def __init__(self, database, channel="fga_outbox"):
        self.connection = database.cluster.connect(database.name)
        self.connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        self.sentinel = database

    def take(self, channel="fga_outbox"):
        """The payloads that came, up to a notification that is sent now: Postgres keeps their order."""
        self.sentinel.execute("SELECT pg_notify(%s, 'end')", channel)
        got = []
        for notify in self.connection.notifies():
            if notify.payload == "end":
                return got
            got.append((notify.channel, notify.payload))

    def close(self):
        self.connection.close()


@pytest.fixture
def listen():
    made = []

    def make(database, channel="fga_outbox"):
        made.append(Listener(database, channel))
        return made[-1]

    yield make
    for listener in made:
        listener.close()


@pytest.fixture
def make_role(cluster):
    """make_role(attributes): a role of the test's own; roles belong to the whole cluster."""
    made = []

    def make(attributes="LOGIN", name=None):
        name = name or f"role_{os.getpid()}_{free_port()}"
        made.append(name)
        if attributes is not None:
            with cluster.connect("postgres") as admin:
                admin.execute(sql.SQL("CREATE ROLE {} " + attributes).format(sql.Identifier(name)))
        return name

    yield make
    with cluster.connect("postgres") as admin:
        there = [row[0] for row in admin.execute("SELECT rolname FROM pg_roles WHERE rolname = ANY(%s)", [made])]
        databases = [row[0] for row in admin.execute("SELECT datname FROM pg_database WHERE datallowconn")]
        # What a role owns, and is granted, goes database by database.
        for database in databases if there else []:
            with cluster.connect(database) as connection:
                for name in there:
                    connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(name)))
        for name in there:
            admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def test_it_creates_the_table_that_the_ledger_would(empty_db, bare_db):
    done, warnings = install(empty_db)
    assert shape(empty_db) == shape(bare_db)
    assert empty_db.value("SELECT to_regclass('fga_outbox_pkey') IS NOT NULL AND to_regclass('fga_outbox_pending_idx') IS NOT NULL")
    assert [line.split()[0] for line in done] == ["created"] * 4
    assert warnings == []


def test_a_second_time_changes_nothing_and_says_so(empty_db, make_role):
    role = make_role(None)
    install(empty_db, "--role", role)
    before = everything(empty_db)
    done, warnings = install(empty_db, "--role", role)
    assert everything(empty_db) == before
    assert all("already" in line for line in done) and len(done) == 8, done
    assert warnings == []


def test_an_existing_ledger_keeps_its_table_its_rows_and_its_own_trigger(bare_db, listen):
    bare_db.execute("CREATE FUNCTION fga_outbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify('fga_outbox', ''); RETURN NULL; END $$")
    bare_db.execute("CREATE TRIGGER fga_outbox_notify AFTER INSERT ON fga_outbox FOR EACH STATEMENT EXECUTE FUNCTION fga_outbox_notify()")
    ids = bare_db.insert({}, {})
    before = shape(bare_db)
    done, warnings = install(bare_db)
    assert (shape(bare_db), warnings) == (before, [])
    assert "table public.fga_outbox is there already" in done
    assert triggers(bare_db) == ["fga_outbox_notify", "relay_notify"]
    assert [row[0] for row in bare_db.execute("SELECT id FROM fga_outbox ORDER BY id")] == ids
    listener = listen(bare_db)
    bare_db.insert({})
    assert listener.take() == [("fga_outbox", "")]  # equal notifications of one transaction are one


@pytest.mark.parametrize("written, schema, table", NASTY_TABLES)
def test_any_table_name(empty_db, bare_db, listen, written, schema, table):
    empty_db.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
    listener = listen(empty_db)
    install(empty_db, "--table", written)
    assert shape(empty_db, schema, table) == shape(bare_db)
    empty_db.execute(sql.SQL("INSERT INTO {} (payload) VALUES ('{{}}')").format(sql.Identifier(schema, table)))
    assert listener.take() == [("fga_outbox", "")]
    done, warnings = install(empty_db, "--table", written)
    assert all("already" in line for line in done), done
    assert warnings == []
    install(empty_db, "--table", written, "--uninstall")
    assert functions(empty_db) == 0


@pytest.mark.parametrize("channel", NASTY_CHANNELS)
def test_any_channel_name(empty_db, listen, channel):
    listener = listen(empty_db, channel)
    install(empty_db, "--channel", channel)
    done, _ = install(empty_db, "--channel", channel)
    assert all("already" in line for line in done), done
    empty_db.insert({})
    assert listener.take(channel) == [(channel, "")]


def test_two_tables_whose_long_names_begin_alike(empty_db):
    for end in "ab":
        install(empty_db, "--table", "t" * 62 + end)
        assert install(empty_db, "--table", "t" * 62 + end)[1] == []


def test_a_channel_that_postgres_would_refuse_at_every_insert(empty_db):
    _, said = install(empty_db, "--channel", "c" * 64, expect=2)
    assert "63 bytes" in said[-1]
    assert shape_is_absent(empty_db)


def shape_is_absent(database):
    return database.value("SELECT to_regclass('fga_outbox') IS NULL") and functions(database) == 0


def test_it_finds_the_table_by_search_path(empty_db):
    empty_db.execute("CREATE SCHEMA ledger")
    empty_db.execute(f"ALTER DATABASE {empty_db.name} SET search_path = nowhere, ledger")
    assert "created table ledger.fga_outbox" in install(empty_db)[0]
    assert "table ledger.fga_outbox is there already" in install(empty_db)[0]


def test_it_notifies_on_commit_once_a_transaction(db, listen):
    listener = listen(db)
    with db.transaction() as connection:
        db.insert({}, connection=connection)
        db.insert({}, {}, connection=connection)
        assert listener.take() == []
    assert listener.take() == [("fga_outbox", "")]
    with pytest.raises(ZeroDivisionError):
        with db.transaction() as connection:
            db.insert({}, connection=connection)
            raise ZeroDivisionError
    assert listener.take() == []
    db.execute("UPDATE fga_outbox SET attempts = 1")
    assert listener.take() == []


def test_an_application_that_may_only_insert(db, make_role, listen):
    role = make_role()
    db.execute(f"GRANT INSERT ON fga_outbox TO {role}")
    db.execute(f"GRANT USAGE ON SEQUENCE fga_outbox_id_seq TO {role}")
    # A search_path of its own making changes nothing.
    db.execute(f"CREATE SCHEMA own AUTHORIZATION {role}")
    listener = listen(db)
    with psycopg.connect(db.cluster.url(db.name, role)) as connection:
        connection.execute("CREATE FUNCTION own.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT 1/0'")
        connection.execute("SET search_path = own, pg_catalog, public")
        connection.execute("INSERT INTO public.fga_outbox (payload) VALUES ('{}')")
    assert listener.take() == [("fga_outbox", "")]


def test_another_channel_replaces_the_trigger(db, listen):
    old, new = listen(db), listen(db, "Other")
    done, _ = install(db, "--channel", "Other")
    assert 'replaced trigger relay_notify on public.fga_outbox, for channel "Other"' in done
    assert triggers(db) == ["relay_notify"]
    db.insert({})
    assert (old.take(), new.take("Other")) == ([], [("Other", "")])


@pytest.mark.parametrize("name", ["relay", 'Re"lay \'Role\\'])
def test_the_role_may_deliver_and_nothing_else(db, make_role, name):
    role = make_role(None, f"{name} {os.getpid()}")
    done, _ = install(db, "--role", role)
    assert any(line.startswith("created role") and "password" in line for line in done), done
    db.execute("CREATE TABLE other (id int)")
    id, = db.insert({"writes": []})
    with psycopg.connect(db.url, user=role, autocommit=True) as connection:
        with connection.transaction():
            claimed = connection.execute(
                "SELECT id, payload, created_at, attempts FROM fga_outbox WHERE processed_at IS NULL ORDER BY id FOR NO KEY UPDATE SKIP LOCKED LIMIT 100"
            ).fetchall()
            assert [row[0] for row in claimed] == [id]
            connection.execute("UPDATE fga_outbox SET processed_at = now(), attempts = attempts + 1, last_error = 'x' WHERE id = %s", [id])
        connection.execute("LISTEN fga_outbox")
        for statement in [
            "UPDATE fga_outbox SET payload = '{}'",
            "UPDATE fga_outbox SET created_at = now()",
            "UPDATE fga_outbox SET id = 7",
            "DELETE FROM fga_outbox",
            "TRUNCATE fga_outbox",
            "INSERT INTO fga_outbox (payload) VALUES ('{}')",
            "SELECT nextval('fga_outbox_id_seq')",
            "DROP TRIGGER relay_notify ON fga_outbox",
            "SELECT * FROM other",
            "CREATE TABLE mine (id int)",
            "CREATE ROLE another",
        ]:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
    attributes = db.execute(
        "SELECT rolcanlogin, rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls FROM pg_roles WHERE rolname = %s", role).fetchone()
    assert attributes == (True, False, False, False, False, False)


def test_the_role_delivers_for_real(db, make_role, store):
    role = make_role(None)
    install(db, "--role", role)
    db.insert({"writes": [{"user": "user:anne", "relation": "member", "object": "organization:acme"}]})
    done = relay.run("drain", database=db.cluster.url(db.name, role), store=store)
    assert done.returncode == 0, done.stderr
    assert db.pending() == 0


def test_the_role_in_a_schema_that_is_closed(empty_db, make_role):
    role = make_role(None)
    empty_db.execute("CREATE SCHEMA audit")
    done, _ = install(empty_db, "--table", "audit.fga_outbox", "--role", role)
    assert f"granted USAGE ON SCHEMA audit to role {role}" in done
    with psycopg.connect(empty_db.cluster.url(empty_db.name, role)) as connection:
        connection.execute("SELECT FROM audit.fga_outbox FOR NO KEY UPDATE")


def test_uninstall_leaves_the_table_and_its_rows(db):
    db.insert({}, {})
    before = shape(db)
    done, _ = install(db, "--uninstall")
    assert done == ["removed trigger relay_notify on public.fga_outbox", "removed function public.relay_notify()"]
    assert (triggers(db), functions(db), shape(db), db.pending()) == ([], 0, before, 2)
    done, _ = install(db, "--uninstall")
    assert all(line.startswith("there is no") for line in done) and len(done) == 2
    assert "created trigger relay_notify on public.fga_outbox, for channel fga_outbox" in install(db)[0]


def test_uninstall_leaves_a_function_that_another_table_uses(db):
    install(db, "--table", "other", "--channel", "other")
    done, _ = install(db, "--uninstall")
    assert "function public.relay_notify() stays: public.other uses it" in done
    db.execute("INSERT INTO other (payload) VALUES ('{}')")
    install(db, "--table", "other", "--uninstall")
    assert functions(db) == 0


@pytest.mark.parametrize("change, said", [
    ("ALTER COLUMN payload TYPE json", "column payload of table public.fga_outbox has type json, not jsonb"),
    ("ALTER COLUMN attempts TYPE bigint", "column attempts of table public.fga_outbox has type bigint, not integer"),
    ("ALTER COLUMN created_at TYPE timestamp", "column created_at of table public.fga_outbox has type timestamp without time zone, not"),
    ("ALTER COLUMN attempts DROP NOT NULL", "column attempts of table public.fga_outbox may be NULL"),
    ("ALTER COLUMN payload DROP NOT NULL", "column payload of table public.fga_outbox may be NULL"),
    ("ALTER COLUMN last_error SET NOT NULL", "column last_error of table public.fga_outbox may not be NULL"),
    ("ALTER COLUMN attempts DROP DEFAULT", "column attempts of table public.fga_outbox has no default"),
    ("ALTER COLUMN created_at DROP DEFAULT", "column created_at of table public.fga_outbox has no default"),
    ("ALTER COLUMN processed_at SET DEFAULT now()", "column processed_at of table public.fga_outbox has a default"),
    ("DROP CONSTRAINT fga_outbox_pkey", "nothing keeps column id of table public.fga_outbox unique"),
])
def test_what_differs_is_said_with_what_puts_it_right(bare_db, change, said):
    bare_db.execute(f"ALTER TABLE fga_outbox {change}")
    before = shape(bare_db)
    done, warnings = install(bare_db)
    assert len(warnings) == 1 and warnings[0].startswith("warning: " + said), warnings
    assert shape(bare_db) == before
    assert triggers(bare_db) == ["relay_notify"]
    bare_db.execute(warnings[0].rsplit(": ", 1)[1])
    assert install(bare_db)[1] == []


def test_an_id_without_a_default(bare_db):
    bare_db.execute("ALTER TABLE fga_outbox ALTER COLUMN id DROP DEFAULT")
    _, warnings = install(bare_db)
    assert len(warnings) == 1 and "column id of table public.fga_outbox has no default" in warnings[0]
    bare_db.execute("ALTER TABLE fga_outbox ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY")
    assert install(bare_db)[1] == []


@pytest.mark.parametrize("instead, said", [
    (None, "has no index on its pending rows"),
    ("CREATE INDEX fga_outbox_pending_idx ON fga_outbox (created_at) WHERE processed_at IS NULL", "is not on (id) WHERE processed_at IS NULL"),
    ("CREATE INDEX fga_outbox_pending_idx ON fga_outbox (id)", "is not on (id) WHERE processed_at IS NULL"),
    ("CREATE INDEX fga_outbox_pending_idx ON fga_outbox (id) WHERE processed_at IS NOT NULL", "is not on (id) WHERE processed_at IS NULL"),
    ("CREATE INDEX by_hash ON fga_outbox USING hash (id) WHERE processed_at IS NULL", "has no index on its pending rows"),
])
def test_an_index_that_does_not_serve(bare_db, instead, said):
    bare_db.execute("DROP INDEX fga_outbox_pending_idx")
    if instead:
        bare_db.execute(instead)
    before = shape(bare_db)
    _, warnings = install(bare_db)
    assert len(warnings) == 1 and said in warnings[0], warnings
    assert shape(bare_db) == before
    bare_db.execute(warnings[0].rsplit(": ", 1)[1])
    assert install(bare_db)[1] == []


def test_an_index_of_another_name_serves(bare_db):
    bare_db.execute("ALTER INDEX fga_outbox_pending_idx RENAME TO anything")
    assert install(bare_db)[1] == []


def test_an_index_that_is_not_valid(bare_db):
    bare_db.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'fga_outbox_pending_idx'::regclass")
    _, warnings = install(bare_db)
    assert len(warnings) == 1 and "is not valid" in warnings[0]
    bare_db.execute(warnings[0].rsplit(": ", 1)[1])
    assert install(bare_db)[1] == []


def test_row_level_security_is_pointed_out(bare_db):
    bare_db.execute("ALTER TABLE fga_outbox ENABLE ROW LEVEL SECURITY")
    _, warnings = install(bare_db)
    assert len(warnings) == 1 and "row level security" in warnings[0]


def test_a_disabled_trigger_is_pointed_out_and_left_so(db):
    db.execute("ALTER TABLE fga_outbox DISABLE TRIGGER relay_notify")
    _, warnings = install(db)
    assert len(warnings) == 1 and "is disabled" in warnings[0]
    assert db.value("SELECT tgenabled::text FROM pg_trigger WHERE tgname = 'relay_notify'") == "D"
    db.execute(warnings[0].rsplit(": ", 1)[1])
    assert install(db)[1] == []


def test_a_table_that_lacks_columns_is_refused(bare_db):
    bare_db.execute("ALTER TABLE fga_outbox DROP COLUMN attempts, DROP COLUMN last_error")
    done, said = install(bare_db, expect=2)
    assert done == []
    assert "nothing was changed: table public.fga_outbox lacks attempts, last_error" in said[-1]
    assert (triggers(bare_db), functions(bare_db)) == ([], 0)
    bare_db.execute(said[-1].rsplit(": ", 1)[1])
    assert install(bare_db)[1] == []


def test_what_is_not_a_table(bare_db):
    bare_db.execute("CREATE VIEW seen AS SELECT * FROM fga_outbox")
    _, said = install(bare_db, "--table", "seen", expect=2)
    assert "public.seen is not a table" in said[-1]


def test_a_function_of_somebody_elses_is_not_replaced(empty_db):
    empty_db.execute("CREATE FUNCTION relay_notify() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    before = everything(empty_db)
    _, said = install(empty_db, expect=2)
    assert "function public.relay_notify() is not relay's" in said[-1]
    install(empty_db, "--uninstall")
    assert everything(empty_db) == before


def test_relays_own_older_function_is_replaced(db, listen):
    db.execute("CREATE OR REPLACE FUNCTION relay_notify() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    assert "replaced function public.relay_notify()" in install(db)[0]
    listener = listen(db)
    db.insert({})
    assert listener.take() == [("fga_outbox", "")]


def test_a_schema_that_does_not_exist(empty_db):
    _, said = install(empty_db, "--table", '"No Such".fga_outbox', expect=2)
    assert said == ['relay install: nothing was changed: schema "No Such" does not exist: CREATE SCHEMA "No Such"']


def test_no_right_to_create(empty_db, make_role):
    role = make_role()
    empty_db.execute("CREATE SCHEMA closed")
    empty_db.execute(f"GRANT USAGE ON SCHEMA closed TO {role}")
    _, said = install(empty_db, "--table", "closed.fga_outbox", user=role, expect=2)
    assert "permission denied for schema closed" in said[-1]
    assert f"GRANT CREATE ON SCHEMA closed TO {role}" in said[-1] and "postgres, who owns the schema" in said[-1]
    empty_db.execute(f"GRANT CREATE ON SCHEMA closed TO {role}")
    install(empty_db, "--table", "closed.fga_outbox", user=role)


def test_no_right_to_the_table(bare_db, make_role):
    role = make_role()
    bare_db.execute(f"GRANT CREATE ON SCHEMA public TO {role}")
    _, said = install(bare_db, user=role, expect=2)
    assert "permission denied for table fga_outbox" in said[-1]
    assert f"GRANT TRIGGER ON TABLE public.fga_outbox TO {role}" in said[-1] and "postgres, who owns the table" in said[-1]
    assert functions(bare_db) == 0


def test_no_right_to_create_the_role(empty_db, make_role):
    user, role = make_role(), make_role(None)
    empty_db.execute(f"GRANT CREATE ON SCHEMA public TO {user}")
    done, said = install(empty_db, "--role", role, user=user, expect=2)
    assert done == []
    assert "permission denied to create role" in said[-1] and "CREATEROLE" in said[-1]
    assert shape_is_absent(empty_db)  # one transaction


def test_no_right_to_grant(db, make_role):
    user, role = make_role(), make_role()
    db.execute(f"GRANT CREATE ON SCHEMA public TO {user}")
    db.execute(f"GRANT TRIGGER, SELECT ON fga_outbox TO {user}")
    _, said = install(db, "--role", role, user=user, expect=2)
    assert f"{user} may not grant" in said[-1] or "permission denied" in said[-1], said
    assert "postgres of the table" in said[-1]


def test_a_transaction_that_holds_the_table(bare_db):
    with bare_db.transaction() as connection:
        bare_db.insert({}, connection=connection)
        _, said = install(bare_db, expect=2)
        assert "still open uses table public.fga_outbox" in said[-1]
    install(bare_db)


def test_several_at_once(empty_db):
    env = relay.environment(database=empty_db)
    running = [subprocess.Popen([relay.BINARY, "install"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    results = [(process.communicate(timeout=60), process.returncode) for process in running]
    assert [code for _, code in results] == [0] * 6, results
    assert sum("created table" in out for (out, _), _ in results) == 1


@pytest.mark.parametrize("url, code, said", [
    ("postgres://postgres@127.0.0.1:{closed}/x", 3, "refused"),
    ("postgres://postgres@no-such-host.invalid/x", 3, "no-such-host.invalid"),
    ("postgres://postgres@127.0.0.1:{port}/no_such_database", 2, "no_such_database"),
    ("postgres://no_such_user:geheim@127.0.0.1:{port}/postgres", 2, "no_such_user"),
    ("postgres://postgres:geheim@127.0.0.1:{port}/postgres?sslmode=nonsense", 2, "sslmode"),
    ("postgres://postgres:ge@heim@127.0.0.1:{port}/postgres", 2, "%40"),
    ("postgres://postgres:4/geheim@127.0.0.1:{port}/postgres", 3, "postgres"),
    ("postgres://postgres:p/geheim@127.0.0.1:{port}/postgres", 2, "%2F"),
    ("postgres://postgres:geheim@127.0.0.1:{port}/postgres?nonsense=1", 2, "DATABASE_URL"),
    ("postgres:geheim", 2, "DATABASE_URL"),
])
def test_a_server_that_cannot_be_reached_or_refuses(cluster, url, code, said):
    done = relay.run("install", database=url.format(port=cluster.port, closed=free_port()))
    assert done.returncode == code, (done.returncode, done.stderr)
    assert said in done.stderr and "heim" not in done.stderr and done.stdout == ""


def test_a_server_that_never_answers():
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        done = relay.run("install", "--connect-timeout", "2s", database=f"postgres://postgres@127.0.0.1:{deaf.getsockname()[1]}/x", timeout=20)
    assert done.returncode == 3 and "timeout" in done.stderr


def test_libpqs_own_variables(empty_db):
    done = relay.run("install", PGHOST="127.0.0.1", PGPORT=str(empty_db.cluster.port), PGUSER="postgres", PGDATABASE=empty_db.name)
    assert done.returncode == 0, done.stderr
    assert not shape_is_absent(empty_db)


@pytest.mark.parametrize("written, schema, table", NASTY_TABLES)
def test_print_is_what_psql_can_run(empty_db, bare_db, listen, make_role, written, schema, table):
    channel, role = """Ch"an 'nel\\""", make_role(None, f"""Ro"le '{free_port()}'\\""")
    flags = ["--table", written, "--channel", channel, "--role", role]
    empty_db.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
    printed = relay.run("install", "--print", *flags, PGHOST="127.0.0.1", PGPORT=str(free_port()))  # connects to nothing
    assert printed.returncode == 0 and printed.stderr == ""
    assert "created table" in psql(empty_db, stdin=printed.stdout)
    assert shape(empty_db, schema, table) == shape(bare_db)
    done, warnings = install(empty_db, *flags)
    assert all("already" in line for line in done) and warnings == []
    listener = listen(empty_db, channel)
    empty_db.execute(sql.SQL("INSERT INTO {} (payload) VALUES ('{{}}')").format(sql.Identifier(schema, table)))
    assert listener.take(channel) == [(channel, "")]
    printed = relay.run("install", "--print", "--uninstall", *flags)
    assert "removed function" in psql(empty_db, stdin=printed.stdout)
    assert functions(empty_db) == 0


@pytest.mark.parametrize("schema, table", [("", "fga_outbox"), ("""Sch"ema '\\""", """Ta"ble '\\""")])
def test_psql_runs_the_files_themselves(empty_db, bare_db, make_role, schema, table):
    role = make_role(None, f"""Ro"le '{free_port()}'""")
    variables = [v for pair in dict(schema=schema, table=table, channel="c", role=role).items() for v in ("-v", "=".join(pair))]
    files = {name: ["-f", os.path.join(SQL, f"{name}.sql")] for name in ("names", "table", "trigger", "role", "uninstall")}
    if schema:
        empty_db.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    install_files = files["names"] + files["table"] + files["trigger"] + files["role"]
    assert "in one transaction" in psql(empty_db, *variables, *install_files, expect=3)
    assert "created table" in psql(empty_db, "-1", *variables, *install_files)
    assert shape(empty_db, schema or "public", table) == shape(bare_db)
    assert "removed trigger" in psql(empty_db, "-1", *variables, *files["names"], *files["uninstall"])


def test_every_file_of_sql_is_embedded_as_it_is():
    printed = relay.run("install", "--print", "--role", "r").stdout + relay.run("install", "--print", "--uninstall").stdout
    for name in os.listdir(SQL):
        if name.endswith(".sql"):
            with open(os.path.join(SQL, name)) as f:
                pieces = re.split(r":'\w+'", f.read())
            assert all(piece in printed for piece in pieces), name
