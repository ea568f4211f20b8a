"""relay requeue: refused rows tried afresh, at once, and delivered ones delivered once more."""

import json

import psycopg
import pytest

from process import free_port, wait_until
from relay import environment, run
from rows import archive, archive_tuples, deletes, viewer, writes

pytestmark = pytest.mark.asan

PATIENT = {"RELAY_CONNECT_TIMEOUT": "20s"}  # a machine that has much to do is slow, and not what is looked for
PILOT = "user:u", "pilot", "spaceship:s"


def requeue(database, *flags, expect=0, **extra):
    done = run("requeue", *flags, env=environment(database, **{**PATIENT, **extra}))
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    return done.stdout if expect == 0 else done.stderr


def outcome(database, *flags, **keywords):
    return json.loads(requeue(database, "--json", *flags, **keywords))


def refuse(database, ids, reason, attempts=3):
    database.execute(f"UPDATE {database.table} SET attempts = %s, last_error = %s WHERE id = ANY(%s)", attempts, reason, ids)


def everything(database):
    return database.execute(f"SELECT * FROM {database.table} ORDER BY id").fetchall()


@pytest.fixture
def rows(bare_db):
    """Five rows: two refused for one reason, one for another, one new, one processed."""
    ids = bare_db.insert(*[archive(n) for n in range(5)])
    refuse(bare_db, ids[:2], "type 'spaceship' not found")
    refuse(bare_db, ids[2:3], "100% wrong_condition")
    bare_db.execute("UPDATE fga_outbox SET processed_at = now(), attempts = 1, last_error = 'once' WHERE id = %s", ids[4])
    return ids


@pytest.fixture
def processed(bare_db):
    """processed(payload, …): ids of delivered rows."""
    def make(*payloads):
        ids = bare_db.insert(*payloads)
        bare_db.execute("UPDATE fga_outbox SET processed_at = now() WHERE id = ANY(%s)", ids)
        return ids
    return make


def with_spaceship(model):
    model["type_definitions"].append({
        "type": "spaceship", "relations": {"pilot": {"this": {}}},
        "metadata": {"relations": {"pilot": {"directly_related_user_types": [{"type": "user"}]}}},
    })


def test_a_running_relay_tries_them_at_once(db, store, start):
    """Neither the backoff nor the sweep would do it within the hour."""
    start(db, store, "--sweep-interval", "1h", "--min-backoff", "1h", "--max-backoff", "2h", FGA_MODEL_ID=None)
    bad, = db.insert(writes(PILOT))
    wait_until(lambda: db.row(bad)[1] == 1)
    store.write_model(with_spaceship)
    assert requeue(db, "--all-refused") == "1 row requeued\n"
    db.wait_delivered(bad)
    assert db.row(bad)[1:] == (0, None)
    assert store.has(*PILOT)


def test_all_refused(bare_db, rows):
    assert outcome(bare_db, "--all-refused") == {"dry_run": False, "rows": 3, "list": []}
    assert [bare_db.row(id)[1:] for id in rows] == [(0, None)] * 4 + [(1, "once")]
    assert requeue(bare_db, "--all-refused") == "0 rows requeued\n"


@pytest.mark.parametrize("text, which", [("spaceship", [0, 1]), ("100% wrong_", [2]), ("o", [0, 1, 2]), ("%", [2]), ("Spaceship", []), ("once", [])])
def test_by_reason(bare_db, rows, text, which):
    assert outcome(bare_db, "--reason", text)["rows"] == len(which)
    assert [n for n in range(3) if bare_db.row(rows[n])[1:] == (0, None)] == which


def test_by_ids(bare_db, rows):
    assert outcome(bare_db, "--ids", f"{rows[0]},{rows[2]}-{rows[3]}")["rows"] == 3
    assert [bare_db.row(id)[1] for id in rows] == [0, 3, 0, 0, 1]


def test_a_dry_run_changes_nothing_and_tells_nobody(bare_db, rows):
    before = everything(bare_db)
    with bare_db.cluster.connect(bare_db.name) as listening:
        listening.execute("LISTEN fga_outbox")
        for flags in (["--all-refused"], ["--ids", str(rows[0])], ["--processed", "--ids", str(rows[4])]):
            requeue(bare_db, "--dry-run", *flags)
        assert everything(bare_db) == before
        bare_db.execute("NOTIFY fga_outbox, 'end'")
        assert next(listening.notifies()).payload == "end"
    found = outcome(bare_db, "--dry-run", "--all-refused")
    assert (found["dry_run"], found["rows"]) == (True, 3)
    assert found["list"][0] == {"id": rows[0], "attempts": 3, "reason": "type 'spaceship' not found", "copy": None}
    assert [row["id"] for row in found["list"]] == rows[:3]
    text = requeue(bare_db, "--dry-run", "--reason", "wrong_condition").splitlines()
    assert text[1].split() == [str(rows[2]), "3", "100%", "wrong_condition"] and text[2].startswith("1 row would be requeued")


@pytest.mark.parametrize("channel", ["fga_outbox", "My \"odd\" channel's"])
def test_what_listeners_are_told(bare_db, rows, channel):
    with bare_db.cluster.connect(bare_db.name) as listening:
        listening.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel)))
        requeue(bare_db, "--all-refused", "--channel", channel)
        assert next(listening.notifies()).payload == "requeue"


@pytest.mark.parametrize("flags, said", [([], "no rows with these ids"), (["--dry-run"], "no rows with these ids"), (["--processed"], "no rows with these ids")])
def test_an_id_that_is_not_there(bare_db, rows, flags, said):
    before = everything(bare_db)
    error = requeue(bare_db, "--ids", f"{rows[0]},777,778", *flags, expect=2)
    assert said in error and "777, 778" in error and str(rows[0]) not in error.replace("777, 778", "")
    assert everything(bare_db) == before


def test_a_processed_id_and_a_pending_one(bare_db, rows):
    before = everything(bare_db)
    error = requeue(bare_db, "--ids", f"{rows[0]},{rows[4]}", expect=2)
    assert "processed" in error and f": {rows[4]}\n" in error and "--processed" in error
    error = requeue(bare_db, "--ids", f"{rows[0]},{rows[4]}", "--processed", expect=2)
    assert "pending" in error and f": {rows[0]}\n" in error
    assert everything(bare_db) == before


def test_delivered_rows_once_more(db, store, start):
    start(db, store, "--sweep-interval", "1h")
    ids = db.insert(archive(1), archive(2), writes(viewer("u", "a")))
    db.wait_delivered()
    before = everything(db)
    store.post("write", {"deletes": {"tuple_keys": [dict(zip(("user", "relation", "object"), t)) for t in archive_tuples(1)]}})
    found = outcome(db, "--processed", "--ids", f"{ids[0]},{ids[2]}")
    assert found["rows"] == 2 and [row["id"] for row in found["list"]] == [ids[0], ids[2]]
    copies = [row["copy"] for row in found["list"]]
    assert copies == sorted(copies) and copies[0] > ids[2]
    db.wait_delivered()
    assert everything(db)[:3] == before
    assert [row[1] for row in everything(db)[3:]] == [before[0][1], before[2][1]]
    assert set(archive_tuples(1)) <= store.tuples()


T, U = viewer("u", "a"), viewer("v", "a")


@pytest.mark.parametrize("later", [writes(T), deletes(T), {**writes(U), **deletes(T)}, {"writes": writes(T)["writes"] * 2}])
def test_a_later_row_on_the_same_tuple(bare_db, processed, later):
    first, other, last = processed(writes(T), archive(1), later)
    before = everything(bare_db)
    for flags in ([], ["--dry-run"]):
        error = requeue(bare_db, "--processed", "--ids", str(first), *flags, expect=2)
        assert f"{first} (by row {last})" in error and "--force" in error
    assert everything(bare_db) == before
    assert outcome(bare_db, "--processed", "--force", "--ids", str(first))["rows"] == 1
    assert everything(bare_db)[:3] == before and everything(bare_db)[3][1] == writes(T)


def test_what_is_no_later_row(bare_db, processed):
    """Those before it, those on other tuples, those that cannot be read, and those that are copied after it."""
    same, first, second, *_ = processed(
        writes(T), writes(T), deletes(T), writes(U), writes((T[0], "owner", T[2])), "null", "[]", '{"writes": 5}', '{"writes": [null, {"user": 1}]}')
    assert outcome(bare_db, "--processed", "--ids", f"{first},{second}")["rows"] == 2
    assert [row[1] for row in everything(bare_db)[-2:]] == [writes(T), deletes(T)]
    assert f"{same} (by row" in requeue(bare_db, "--processed", "--ids", str(same), expect=2)


@pytest.mark.parametrize("flags, said", [
    ([], "--all-refused"),
    (["--ids", "1", "--all-refused"], "one of"),
    (["--ids", "1", "--reason", "x"], "one of"),
    (["--reason", "x", "--all-refused"], "one of"),
    (["--ids", "1;2"], "--ids"),
    (["--ids", ""], "--ids"),
    (["--processed"], "one of"),
    (["--processed", "--all-refused"], "--processed"),
    (["--ids", "1", "--force"], "--force"),
    (["--all-refused", "--watch"], "--watch"),
    (["--all-refused", "--table", 'a"b'], "--table"),
])
def test_a_wrong_command_line(bare_db, rows, flags, said):
    before = everything(bare_db)
    assert said in requeue(bare_db, *flags, expect=2)
    assert everything(bare_db) == before


@pytest.mark.parametrize("name, sql", [("FGA_Outbox", "fga_outbox"), ('"My ""Out"" Box\'s"', '"My ""Out"" Box\'s"'), ('"Au""dit"."Select"', '"Au""dit"."Select"')])
def test_any_table_name(empty_db, name, sql):
    empty_db.execute('CREATE SCHEMA "Au""dit"')
    empty_db.create_outbox(sql, index="pending_idx")
    ids = empty_db.insert(archive(1), archive(2))
    refuse(empty_db, ids, "x")
    assert outcome(empty_db, "--all-refused", "--table", name)["rows"] == 2
    empty_db.execute(f"UPDATE {sql} SET processed_at = now()")
    assert outcome(empty_db, "--processed", "--ids", str(ids[0]), "--table", name)["list"][0]["copy"] == ids[1] + 1


@pytest.fixture
def role(bare_db):
    """A role that may connect, and read the table."""
    made = f'"Reader {bare_db.name}"'
    bare_db.execute(f"CREATE ROLE {made} LOGIN")
    bare_db.execute(f"GRANT SELECT ON fga_outbox TO {made}")
    yield made
    bare_db.execute(f"DROP OWNED BY {made}")
    bare_db.execute(f"DROP ROLE {made}")


@pytest.mark.parametrize("which, flags, grants", [(0, [], 1), (4, ["--processed"], 2)])
def test_a_missing_privilege_is_said_with_its_grant(bare_db, rows, role, which, flags, grants):
    url = bare_db.cluster.url(bare_db.name, user=role.strip('"').replace(" ", "%20"))
    flags = [*flags, "--ids", str(rows[which])]
    before = everything(bare_db)
    assert outcome(url, *flags, "--dry-run")["rows"] == 1, "reading is enough"
    error = requeue(url, *flags, expect=2)
    said = error[error.index("GRANT "):].strip().split("; ")
    assert len(said) == grants and everything(bare_db) == before
    for grant in said:
        bare_db.execute(grant)
    assert outcome(url, *flags)["rows"] == 1


def test_the_role_of_install_suffices(bare_db, rows):
    role = f"relay_{bare_db.name}"
    assert run("install", "--role", role, env=environment(bare_db)).returncode == 0
    try:
        assert outcome(bare_db.cluster.url(bare_db.name, user=role), "--all-refused")["rows"] == 3
    finally:
        bare_db.execute(f"DROP OWNED BY {role}")
        bare_db.execute(f"DROP ROLE {role}")


def test_no_table_and_nobody_there(empty_db):
    assert "relay install" in requeue(empty_db, "--all-refused", expect=2)
    assert requeue(f"postgres://postgres@127.0.0.1:{free_port()}/x", "--all-refused", expect=3)
