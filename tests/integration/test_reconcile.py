"""relay reconcile: what the rows say against what OpenFGA holds, on the real parts, with what somebody does behind relay's back."""

import json
import os
import pty
import re
import subprocess
import threading

import pytest

from pgbouncer import Pgbouncer
from postgres import Database
from process import free_port, spawn, wait_until
from proxy import Drop, refusal
from relay import BINARY, check_output, environment, run
from rows import archive, archive_tuples, archives, deletes, key, unknown, viewer, writes

pytestmark = pytest.mark.asan

# A machine that has much to do is slow, and not what is looked for; nothing is late here that would have to be waited for.
PATIENT = {"RELAY_CONNECT_TIMEOUT": "20s", "RELAY_SETTLE_TIMEOUT": "50ms"}

LATER = {"expires_at": "2100-01-01T00:00:00Z"}
EARLIER = {"expires_at": "2030-01-01T00:00:00Z"}

T, U, V, W = (viewer(user, "a") for user in "tuvw")


def command(database, store, *flags, expect, url=None, **extra):
    env = environment(database, store, url, **{**PATIENT, **extra})
    done = run("reconcile", *flags, env=env)
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    return done


def outcome(database, store, *flags, expect=0, said="", **keywords):
    done = command(database, store, "--json", *flags, expect=expect, **keywords)
    assert said in done.stderr and bool(said) == bool(done.stderr), done.stderr
    found = json.loads(done.stdout)
    assert found["in_step"] == (expect == 0)
    assert len(found["differences"]) == sum(found[name] or 0 for name in ("missing", "surviving", "condition", "foreign"))
    return found


def failure(*args, expect=3, **keywords):
    """What it says when it cannot be done; nothing is said of any tuple."""
    done = command(*args, expect=expect, **keywords)
    assert done.stdout == ""
    return done.stderr


def drain(database, store):
    done = run("drain", env=environment(database, store, **PATIENT))
    assert done.returncode == 0, done.stderr


def conditional(t, context=LATER):
    return {"writes": [key(*t, {"name": "not_expired", "context": context})]}


def behind(store, **parts):
    """Writes to OpenFGA behind relay's back."""
    for part in ("deletes", "writes"):
        if part in parts:
            store.post("write", {part: {"tuple_keys": [key(*t) if isinstance(t, tuple) else t for t in parts[part]]}})


def delivered(database, store, *payloads):
    """Rows that are delivered; returns their ids."""
    ids = database.insert(*payloads)
    drain(database, store)
    return ids


def as_tuple(difference):
    return difference["user"], difference["relation"], difference["object"]


def shown(found):
    return [(d["difference"], as_tuple(d), d["row"]) for d in found["differences"]]


def is_read(exchange):
    return exchange.path.endswith("/read")


def is_single(exchange):
    return is_read(exchange) and b'"tuple_key"' in exchange.body


def is_page(exchange):
    return is_read(exchange) and not is_single(exchange)


class Once:
    """A proxy's hook: the first request that `which` is true of calls `do`, whose value is the hook's."""

    def __init__(self, which, do):
        self.which, self.do, self.lock, self.done = which, do, threading.Lock(), False

    def __call__(self, exchange):
        with self.lock:
            if self.done or not self.which(exchange):
                return None
            self.done = True
            return self.do()


def test_in_step(db, store):
    """More tuples than a page, a chunk of rows that is full, and everything that a row may be."""
    db.execute("INSERT INTO fga_outbox (payload, processed_at) SELECT '{}', now() FROM generate_series(1, 5000)")
    delivered(db, store, *archives(range(80)), writes(T, T, U), deletes(T), conditional(V), {**deletes(V), **conditional(V, EARLIER)},
              deletes(W), writes(W), {**writes(W), **deletes(W)}, writes())
    db.execute("INSERT INTO fga_outbox (payload, processed_at) SELECT p::jsonb, now() FROM unnest(%s::text[]) AS p", [
        "null", "5", "[]", '"x"', '{"writes": null, "deletes": 5}', '{"writes": [null, 5, "x", [], {}, {"user": "u:1"}]}'])
    found = outcome(db, store)
    assert found == {
        "in_step": True, "rows": 5000 + 80 + 8 + 6, "store_tuples": 163, "compared": 164, "pending": 0, "touched": 0, "missing": 0, "surviving": 0,
        "condition": 0, "foreign": None, "repairs": 0, "differences": []}
    assert outcome(db, store, "--foreign")["foreign"] == 0
    text = command(db, store, expect=0).stdout
    assert text.splitlines()[-1] == "in step" and re.search(r"^compared +164 ", text, re.M)


def test_an_empty_outbox_and_an_empty_store(db, store):
    assert outcome(db, store, "--foreign")["compared"] == 0
    behind(store, writes=[T])
    assert outcome(db, store, "--foreign")["store_tuples"] == 1, "no row has a tuple of this type and relation"


def spoil(database, store):
    """Every kind of difference; returns what is to be shown."""
    a, b, c, d = delivered(database, store, archive(1), writes(T, U), {**deletes(T), **conditional(V)}, archive(2))
    lost = archive_tuples(1)[0]
    behind(store, deletes=[lost, V, U], writes=[T, conditional(V, EARLIER)["writes"][0], conditional(U)["writes"][0], W])
    return [("missing", lost, a), ("condition", U, b), ("surviving", T, c), ("condition", V, c), ("foreign", W, None)]


def test_each_kind_of_difference(db, store):
    expected = spoil(db, store)
    found = outcome(db, store, "--foreign", expect=1)
    assert set(shown(found)) == set(expected) and len(found["differences"]) == len(expected)
    assert (found["missing"], found["surviving"], found["condition"], found["foreign"]) == (1, 1, 2, 1)
    by_tuple = {as_tuple(d): d for d in found["differences"]}
    assert (by_tuple[V]["condition"]["context"], by_tuple[V]["found_condition"]["context"]) == (LATER, EARLIER)
    assert by_tuple[U]["condition"] is None and by_tuple[U]["found_condition"] == {"name": "not_expired", "context": LATER}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", by_tuple[T]["processed_at"])
    assert by_tuple[W]["processed_at"] is None and all(d["repair"] is None for d in found["differences"])

    assert set(shown(outcome(db, store, expect=1))) == set(expected[:-1]), "foreign ones only when they are asked for"

    text = command(db, store, "--foreign", expect=1).stdout
    lines = [line.split() for line in text.splitlines()]
    for kind, t, row in expected:
        line, = (line for line in lines if line[:4] == [kind, *t])
        assert row is None or f"row {row}," in " ".join(line)
    assert "absent in OpenFGA" in text and "still has it" in text and '"2030-01-01T00:00:00Z"' in text
    assert ["surviving", "1"] in [line[:2] for line in lines]


def test_foreign_only_of_the_rows_types_and_relations(db, store):
    delivered(db, store, writes(T))
    behind(store, writes=[U, ("organization:o", "parent", "capture_job:j")])
    assert shown(outcome(db, store, "--foreign", expect=1)) == [("foreign", U, None)]


def test_conditions_are_the_same_as_openfga_sees_them(db, store):
    def with_condition(model):
        model["conditions"]["odd"] = {
            "name": "odd", "expression": "n > 1.0 && size(m) > 0 && s != ''",
            "parameters": {"n": {"type_name": "TYPE_NAME_DOUBLE"}, "s": {"type_name": "TYPE_NAME_STRING"},
                           "m": {"type_name": "TYPE_NAME_MAP", "generic_types": [{"type_name": "TYPE_NAME_ANY"}]}}}
        archive_type = next(t for t in model["type_definitions"] if t["type"] == "archive")
        archive_type["metadata"]["relations"]["viewer"]["directly_related_user_types"].append({"type": "user", "condition": "odd"})
    store.write_model(with_condition)
    contexts = [None, {}, {"n": 1}, {"n": 9007199254740993}, {"n": 0.1}, {"m": {"b": 1, "a": [True, None]}}, {"s": "\u00e9\U0001f600\\\""}]
    tuples = [viewer(f"u{n}", "a") for n in range(len(contexts))]
    conditions = [{"name": "odd"} if c is None else {"name": "odd", "context": c} for c in contexts]
    delivered(db, store, {"writes": [key(*t, c) for t, c in zip(tuples, conditions)]})
    assert outcome(db, store)["compared"] == len(contexts)
    behind(store, deletes=[tuples[1], tuples[4]], writes=[key(*tuples[1], {"name": "odd", "context": {"n": 1}}), key(*tuples[4], {"name": "not_expired"})])
    found = outcome(db, store, expect=1)
    assert [(d["difference"], as_tuple(d)) for d in found["differences"]] == [("condition", tuples[1]), ("condition", tuples[4])]


def test_large_contexts(db, store):
    """A hundred of them are more than is taken in at a time."""
    large = {"expires_at": LATER["expires_at"], "note": "x" * 12000}

    def with_note(model):
        model["conditions"]["not_expired"]["parameters"]["note"] = {"type_name": "TYPE_NAME_STRING"}
    store.write_model(with_note)
    tuples = [viewer(f"u{n}", "a") for n in range(30)]
    delivered(db, store, *[conditional(t, large) for t in tuples], *archives(range(60)))
    assert outcome(db, store)["store_tuples"] == 150
    behind(store, deletes=tuples[:1])
    assert shown(outcome(db, store, expect=1))[0][:2] == ("missing", tuples[0])


def test_pending_and_refused_rows_are_left_out(db, store):
    delivered(db, store, writes(T, U, V))
    behind(store, deletes=[T, U, V])
    refused, = db.insert({"writes": writes(T)["writes"] + unknown(1)["writes"]})
    db.execute("UPDATE fga_outbox SET attempts = 3, last_error = 'x' WHERE id = %s", refused)
    db.insert(deletes(U), writes(W))
    found = outcome(db, store, expect=1)
    assert (found["pending"], found["touched"], found["compared"]) == (4, 0, 1), "those of the refused row too"
    assert [as_tuple(d) for d in found["differences"]] == [V]
    found = outcome(db, store, "--sample", "1000", expect=1)
    assert (found["pending"], found["compared"], found["store_tuples"]) == (4, 1, None)


def insert_processed(database, payload):
    database.execute("INSERT INTO fga_outbox (payload, processed_at) VALUES (%s, now())", json.dumps(payload))


def test_touched_while_the_store_is_read(db, store, make_proxy):
    """A row comes, and is delivered, behind the page on which its tuple is."""
    delivered(db, store, writes(T), *archives(range(60)), writes(U))

    def touch():
        behind(store, deletes=[T])
        insert_processed(db, deletes(T))
    proxy = make_proxy(store)
    proxy.hook = Once(is_page, touch)
    found = outcome(db, store, "--foreign", url=proxy.url)
    assert proxy.hook.done and (found["touched"], found["pending"], found["compared"]) == (1, 0, 121)


@pytest.mark.parametrize("is_processed", [True, False])
def test_touched_before_a_difference_is_read_again(db, store, make_proxy, is_processed):
    """The difference stands, but somebody has had another word on the tuple: it is nothing that can be told of."""
    delivered(db, store, writes(T, U), deletes(T))
    behind(store, deletes=[U], writes=[T])
    proxy = make_proxy(store)
    proxy.hook = Once(is_single, lambda: (insert_processed if is_processed else Database.insert)(db, writes(T)) and None)
    found = outcome(db, store, expect=1, url=proxy.url)
    assert proxy.hook.done and found["touched"] == 1
    assert shown(found) == [("missing", U, found["differences"][0]["row"])]


def test_a_row_with_a_lower_id_that_is_committed_meanwhile(db, store, make_proxy):
    with db.transaction() as late:
        db.insert(writes(T), connection=late)
        delivered(db, store, writes(U, V), deletes(T))
        behind(store, writes=[T])
        proxy = make_proxy(store)
        proxy.hook = Once(is_single, late.commit)
        found = outcome(db, store, url=proxy.url)
    assert proxy.hook.done and (found["touched"], found["compared"]) == (1, 2)


def test_what_arrives_late_is_no_difference(db, store, make_proxy):
    delivered(db, store, writes(T))
    behind(store, deletes=[T])
    proxy = make_proxy(store)
    proxy.hook = Once(is_single, lambda: behind(store, writes=[T]))
    assert outcome(db, store, url=proxy.url)["missing"] == 0 and proxy.hook.done


def test_a_store_that_is_not_there(db, store):
    delivered(db, store, writes(T))
    store.delete()
    error = failure(db, store)
    assert store.id in error and "store" in error
    assert "no store named" in failure(db, store, FGA_STORE_ID=None, FGA_STORE_NAME="nobody")


def test_a_store_by_its_name(db, memory_fga):
    store = memory_fga.create_store(name=f"reconcile {db.name}")
    delivered(db, store, writes(T))
    assert outcome(db, store, FGA_STORE_ID=None, FGA_STORE_NAME=f"reconcile {db.name}")["compared"] == 1


@pytest.mark.parametrize("which, flags", [(is_page, []), (is_single, []), (is_single, ["--sample", "10"])])
def test_a_store_that_is_deleted_meanwhile(db, store, make_proxy, which, flags):
    delivered(db, store, writes(T, U))
    behind(store, deletes=[T])
    proxy = make_proxy(store)
    proxy.hook = Once(which, store.delete)
    assert "it was there before" in failure(db, store, *flags, url=proxy.url)
    assert proxy.hook.done


@pytest.mark.parametrize("which", [is_page, is_single])
def test_openfga_goes_away_in_the_middle(db, store, make_proxy, which):
    delivered(db, store, *archives(range(60)), writes(T))
    behind(store, deletes=[T])
    proxy = make_proxy(store)
    seen = []

    def hook(exchange):
        if seen or (which(exchange) and (which is is_single or b"continuation_token" in exchange.body)):
            seen.append(exchange)
            raise Drop
    proxy.hook = hook
    assert "OpenFGA" in failure(db, store, url=proxy.url)
    assert len(seen) > 1, "it was asked again"


@pytest.mark.parametrize("which", [is_page, is_single])
def test_a_question_is_asked_again(db, store, make_proxy, which):
    delivered(db, store, writes(T))
    behind(store, deletes=[T])
    proxy = make_proxy(store)
    proxy.hook = Once(which, lambda: refusal(503, "unavailable", "later", **{"Retry-After": "0"}))
    assert outcome(db, store, url=proxy.url, expect=1)["missing"] == 1 and proxy.hook.done


def test_by_object_type(db, store):
    delivered(db, store, archive(1), writes(T))
    behind(store, deletes=list(archive_tuples(1)), writes=[U, ("organization:o", "parent", "capture_job:x")])
    found = outcome(db, store, "--foreign", "--object-type", "capture_job", expect=1)
    assert (found["compared"], found["store_tuples"]) == (1, 3)
    assert [(kind, t) for kind, t, _ in shown(found)] == [("missing", archive_tuples(1)[1]), ("foreign", ("organization:o", "parent", "capture_job:x"))]
    assert outcome(db, store, "--object-type", "archiv")["compared"] == 0


def test_since_an_id(db, store):
    a, b, c = delivered(db, store, writes(T, U), deletes(T), writes(V))
    behind(store, deletes=[U, V], writes=[T])
    found = outcome(db, store, "--since-id", str(b), expect=1)
    assert shown(found) == [("surviving", T, b), ("missing", V, c)] and (found["rows"], found["compared"]) == (2, 2)
    assert shown(outcome(db, store, "--since-id", str(c), expect=1)) == [("missing", V, c)]
    assert outcome(db, store, "--since-id", "9223372036854775807")["rows"] == 0
    db.execute("UPDATE fga_outbox SET processed_at = NULL WHERE id = %s", a)
    found = outcome(db, store, "--since-id", str(b), expect=1)
    assert (shown(found), found["pending"]) == ([("missing", V, c)], 1), "a pending row counts, however old"


def test_a_sample(db, store, make_proxy):
    delivered(db, store, *archives(range(20)), writes(T), deletes(T))
    behind(store, deletes=list(archive_tuples(0) + archive_tuples(1)), writes=[T])
    proxy = make_proxy(store)
    done = run("reconcile", "--json", "--sample", "7", env=environment(db, store, proxy.url, **PATIENT))
    found = json.loads(done.stdout)
    assert (found["compared"], found["store_tuples"]) == (7, None) and done.returncode == (0 if found["in_step"] else 1)
    assert len({e.body for e in proxy.exchanges if is_single(e)}) == 7 and not any(is_page(e) for e in proxy.exchanges)
    found = outcome(db, store, "--sample", "1000", expect=1)
    assert (found["compared"], found["missing"], found["surviving"]) == (41, 4, 1)


def test_help_names_what_json_has(db, store):
    spoil(db, store)
    found = outcome(db, store, "--foreign", expect=1)
    text = " ".join(run("reconcile", "--help", env=environment()).stdout.split())
    described = text[text.index("With --json:"):]
    for name in [*found, *found["differences"][0]]:
        assert re.search(rf"\b{name}\b", described), name


# Postgres


@pytest.fixture
def role(db):
    """A role that may connect, and read what it has to; the database gives nobody else a temporary table."""
    name = f"reader_{db.name}"
    db.execute(f"CREATE ROLE {name} LOGIN")
    db.execute(f"ALTER ROLE {name} SET default_transaction_read_only = on")
    db.execute(f"REVOKE TEMPORARY ON DATABASE {db.name} FROM PUBLIC")
    db.execute(f"GRANT TEMPORARY ON DATABASE {db.name} TO {name}")
    db.execute(f"GRANT SELECT (id, payload, processed_at) ON fga_outbox TO {name}")
    yield name
    db.execute(f"DROP OWNED BY {name}")
    db.execute(f"DROP ROLE {name}")


def test_a_role_that_may_only_read(db, store, role):
    expected = spoil(db, store)
    assert set(shown(outcome(db.cluster.url(db.name, user=role), store, "--foreign", expect=1))) == set(expected)


@pytest.mark.parametrize("revoke, flags, grants", [
    ("TEMPORARY ON DATABASE {}", [], ["TEMPORARY"]),
    ("SELECT (payload) ON fga_outbox", [], ["SELECT (id, payload, processed_at)"]),
    (None, ["--repair", "--yes"], ["INSERT (payload)", "USAGE ON SEQUENCE"]),
])
def test_a_missing_privilege_is_said_with_its_grant(db, store, role, revoke, flags, grants):
    url = db.cluster.url(db.name, user=role)
    if revoke:
        db.execute(f"REVOKE {revoke.format(db.name)} FROM {role}")
    error = failure(url, store, *flags)
    said = error[error.index("GRANT "):].strip().split("; ")
    assert len(said) == len(grants) and all(f"GRANT {grant}" in text for grant, text in zip(grants, said))
    for grant in said:
        db.execute(grant)
    outcome(url, store, *flags)


@pytest.mark.parametrize("name, sql", [("FGA_Outbox", "fga_outbox"), ('"Au""dit"."My %l ""Out""%s Box\'s"', '"Au""dit"."My %l ""Out""%s Box\'s"')])
def test_any_table_name(empty_db, store, name, sql):
    empty_db.execute('CREATE SCHEMA "Au""dit"')
    empty_db.create_outbox(sql, index="pending_idx")
    empty_db.execute(f"INSERT INTO {sql} (payload, processed_at) VALUES ('{json.dumps(writes(T))}', now())")
    found = outcome(empty_db, store, "--table", name, "--repair", "--yes", expect=1)
    assert (shown(found), found["repairs"]) == ([("missing", T, 1)], 1)


def test_nobody_there(db, empty_db, store):
    nobody = f"127.0.0.1:{free_port()}"
    failure(f"postgres://postgres@{nobody}/x", store)
    failure(db, store, url=f"http://{nobody}")
    assert "relay install" in failure(empty_db, store)


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_through_a_pooler(db, store, mode):
    expected = spoil(db, store)
    pool = Pgbouncer(db.cluster, mode)
    try:
        url = pool.url(db.name)
        if mode == "transaction":
            assert "pool in session mode" in failure(url, store)
        else:
            assert set(shown(outcome(url, store, "--foreign", expect=1))) == set(expected)
    finally:
        pool.close()


@pytest.mark.parametrize("flags, said", [
    (["--foreign", "--sample", "5"], "--foreign"),
    (["--foreign", "--since-id", "5"], "--foreign"),
    (["--yes"], "--repair"),
    (["--repair"], "--yes"),
    (["--repair", "--json"], "--yes"),
    (["--since-id", "x"], "--since-id"),
    (["--object-type", "archive:1"], "--object-type"),
    (["--sample", "0"], "--sample"),
    (["--table", 'a"b'], "--table"),
    (["--watch"], "--watch"),
])
def test_a_wrong_command_line(db, store, flags, said):
    assert said in failure(db, store, *flags, expect=2)


# Repairing


def test_a_repair_end_to_end(db, store, start):
    expected = spoil(db, store)
    start(db, store, "--sweep-interval", "1h", **PATIENT)
    found = outcome(db, store, "--foreign", "--repair", "--yes", expect=1)
    assert set(shown(found)) == set(expected) and found["repairs"] == len(expected)
    repairs = [d["repair"] for d in found["differences"]]
    assert repairs == sorted(repairs) and len(set(repairs)) == len(expected)
    db.wait_delivered()
    assert db.attempts() == 0
    assert outcome(db, store, "--foreign")["repairs"] == 0
    payloads = {as_tuple(d): db.value("SELECT payload FROM fga_outbox WHERE id = %s", d["repair"]) for d in found["differences"]}
    assert payloads[V] == {**deletes(V), **conditional(V)} and payloads[U] == {**deletes(U), **writes(U)}
    assert payloads[T] == deletes(T) and payloads[W] == deletes(W)
    assert payloads[archive_tuples(1)[0]] == writes(archive_tuples(1)[0])


def test_foreign_tuples_are_not_repaired_unasked(db, store):
    spoil(db, store)
    assert outcome(db, store, "--repair", "--yes", expect=1)["repairs"] == 4


def test_more_than_max_repairs(db, store):
    spoil(db, store)
    before = db.value("SELECT count(*) FROM fga_outbox")
    found = outcome(db, store, "--repair", "--yes", "--max-repairs", "3", expect=1, said="--max-repairs 3")
    assert found["repairs"] == 0 and found["differences"][0]["repair"] is None
    assert db.value("SELECT count(*) FROM fga_outbox") == before
    assert outcome(db, store, "--repair", "--yes", "--max-repairs", "4", expect=1)["repairs"] == 4


def start_repair(database, store):
    """It has inserted, and waits for somebody who may bring a row with a lower id."""
    process = spawn([BINARY, "reconcile", "--json", "--repair", "--yes"], env=environment(database, store, **PATIENT), stdout=-1, stderr=-1)
    wait_until(lambda: database.value(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'relay reconcile' AND backend_xid IS NOT NULL"
        " AND query LIKE '%%pg_locks%%'"), 30)
    return process


def end_of(process, expect):
    out, err = (text.decode() for text in process.communicate(timeout=60))
    check_output(out + err)
    assert (process.returncode, err) == (expect, ""), (out, err)
    return json.loads(out)


def test_a_repair_undoes_no_word_that_comes_meanwhile(db, store):
    """Two transactions have drawn their ids, and commit when the repair has inserted its rows: one is on the same tuple."""
    delivered(db, store, writes(T, U))
    behind(store, deletes=[T, U])
    with db.transaction() as same, db.transaction() as other:
        db.insert(deletes(T), connection=same)
        db.insert(writes(V), connection=other)
        process = start_repair(db, store)
        same.commit()
        other.commit()
        found = end_of(process, 1)
    assert (shown(found)[0][:2], found["repairs"], found["touched"]) == (("missing", U), 1, 1)
    drain(db, store)
    assert store.tuples() == {U, V}


def test_a_repair_waits_for_others_and_goes_on(db, store):
    delivered(db, store, writes(T))
    behind(store, deletes=[T])
    with db.transaction() as other:
        db.insert(writes(V), connection=other)
        process = start_repair(db, store)
        other.rollback()
        assert end_of(process, 1)["repairs"] == 1


# Under load


HOT = [viewer(f"u{n}", "hot") for n in range(200)]


def churn(database, end):
    """The same tuples, written and deleted again and again, with one condition or another."""
    with database.cluster.connect(database.name) as connection:
        n = 0
        while not end.wait(0.002):
            t = HOT[n * 7 % len(HOT)]
            written = conditional(t, LATER if n % 2 else EARLIER) if n % 3 else writes(t)
            database.insert({**deletes(t), **written}, *([deletes(t)] if n % 4 == 0 else []), connection=connection)
            n += 1


def test_no_false_difference_under_load(db, store, start, load):
    """Relays deliver and clients insert all the time: whatever is touched is left out, and the rest is in step."""
    delivered(db, store, *archives(range(1000, 1050)), *[writes(t) for t in HOT])
    for _ in range(2):
        start(db, store, "--sweep-interval", "1s", **PATIENT)
    loading, end = load(db), threading.Event()
    thread = threading.Thread(target=churn, args=(db, end), daemon=True)
    thread.start()
    try:
        wait_until(lambda: loading.n >= 20)
        for flags in (["--foreign"], ["--sample", "300"], ["--sample", "300"]):
            assert outcome(db, store, *flags, RELAY_SETTLE_TIMEOUT="1ms")["compared"] >= 50
    finally:
        end.set()
        thread.join(30)
    loading.stop()
    db.wait_delivered(timeout=60)
    assert outcome(db, store, "--foreign")["touched"] == 0


# On a terminal


class Terminal:
    """The command with its stderr, and its stdin, on a terminal; stdout is a pipe."""

    def __init__(self, *flags, env):
        self.ours, theirs = pty.openpty()
        read, write = os.pipe()
        self.process = subprocess.Popen([BINARY, "reconcile", *flags], env=env, stdin=theirs, stdout=write, stderr=theirs)
        os.close(theirs)
        os.close(write)
        self.out = os.fdopen(read, "rb")
        self.text = b""

    def read(self, until=None):
        """What the terminal has shown, up to a text or the end."""
        try:
            while until is None or until not in self.text:
                part = os.read(self.ours, 65536)
                if not part:
                    break
                self.text += part
        except OSError:
            pass  # its end
        return self.text.decode()

    def type(self, text):
        os.write(self.ours, text)

    def end(self):
        self.read()
        out = self.out.read().decode()
        code = self.process.wait(60)
        os.close(self.ours)
        self.out.close()
        check_output(out + self.text.decode())
        return code, out


def test_progress_only_on_a_terminal(db, store):
    delivered(db, store, writes(T))
    behind(store, deletes=[T])
    env = environment(db, store, **{**PATIENT, "RELAY_SETTLE_TIMEOUT": "700ms"})
    terminal = Terminal("--json", env=env)
    code, out = terminal.end()
    assert code == 1 and json.loads(out)["missing"] == 1
    assert "\r" in terminal.text.decode() and "read again" in terminal.text.decode()
    assert run("reconcile", env=env).stderr == ""


@pytest.mark.parametrize("answer, repairs", [(b"n\n", 0), (b"\n", 0), (b"y\n", 1), (b"yes\n", 1), (b"\x04", 0)])
def test_a_repair_asks(db, store, answer, repairs):
    delivered(db, store, writes(T))
    behind(store, deletes=[T])
    terminal = Terminal("--repair", env=environment(db, store, **PATIENT))
    assert "Insert 1 row" in terminal.read(until=b"[y/N] ")
    assert db.pending() == 0
    terminal.type(answer)
    code, out = terminal.end()
    assert (code, db.pending()) == (1, repairs)
    assert out.index("missing    user:t viewer archive:a") < out.index("compared")
    assert ("1 row was inserted" in out) == bool(repairs) and ("nothing was inserted" in terminal.text.decode()) != bool(repairs)
