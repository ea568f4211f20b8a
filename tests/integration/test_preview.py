"""relay drain --dry-run: the requests that would be sent, and nothing else."""

import json

import pytest

from relay import environment, run
from rows import all_tuples, archives, deletes, key, tuples_of, unknown, viewer, writes

pytestmark = pytest.mark.asan


def preview(database, *flags, expect=0, **extra):
    """Asks with nothing but Postgres, and sees that nothing was changed."""
    whole = f"SELECT xmin::text, * FROM {database.table} ORDER BY id"
    before = database.execute(whole).fetchall()
    done = run("drain", "--dry-run", *flags, env=environment(database, RELAY_CONNECT_TIMEOUT="20s", **extra))
    assert done.returncode == expect, (done.stdout, done.stderr)
    assert database.execute(whole).fetchall() == before
    return done.stdout if expect < 2 else done.stderr


def lines(database, *flags, **keywords):
    found = [json.loads(line) for line in preview(database, "--json", *flags, **keywords).splitlines()]
    assert all(set(line) == {"ids", "request", "reason"} for line in found)
    return found


def test_they_are_the_requests_that_are_then_sent(bare_db, store, proxy):
    """To the byte, and in this order where one goes after the other."""
    condition = {"name": "not_expired", "context": {"expires_at": "2100-01-01T00:00:00Z"}}
    both = {"writes": [key(*viewer("u", "b"), condition)], "deletes": [key(*viewer("u", "b"))]}
    wide = writes(*[viewer(f"u{n}", "a") for n in range(250)])
    bare_db.insert(*archives(range(120)), wide, both, "{}", *archives(range(120, 150)), deletes(viewer("u7", "c")))
    flags = ["--max-tuples-per-write", "40", "--batch-rows", "90"]
    shown = [line["request"] for line in lines(bare_db, *flags, FGA_MODEL_ID=store.model_id) if line["request"]]
    done = run("drain", *flags, "--lanes", "1", "--max-in-flight", "1", env=environment(bare_db, store, proxy.url, FGA_MODEL_ID=store.model_id))
    assert done.returncode == 0, done.stderr
    assert shown == [json.loads(e.body) for e in proxy.writes]
    assert all_tuples(range(150)) < store.tuples()


def test_what_changes_a_tuple_again_comes_after(bare_db):
    t, other = viewer("u", "a"), viewer("u", "b")
    ids = bare_db.insert(writes(t), writes(other), deletes(t), writes(other), writes(t))
    found = lines(bare_db)
    assert [line["ids"] for line in found] == [ids[0:2], ids[2:4], ids[4:5]]
    bodies = [json.dumps(line["request"]) for line in found]
    assert [(tuples_of(b), tuples_of(b, "deletes")) for b in bodies] == [([t, other], []), ([other], [t]), ([t], [])]


def test_rows_that_make_no_request(bare_db):
    """One that is refused before it is sent, one that is empty, and one that OpenFGA has refused: that one goes alone."""
    good, = bare_db.insert(archives([1])[0])
    empty, broken, refused = bare_db.insert("{}", {"writes": [{"user": "user:u"}]}, unknown(1))
    bare_db.execute("UPDATE fga_outbox SET attempts = 3, last_error = 'x' WHERE id = %s", refused)
    found = {tuple(line["ids"]): line for line in lines(bare_db, expect=1)}
    assert set(found) == {(good,), (empty,), (broken,), (refused,)}
    assert found[empty,]["request"] is found[empty,]["reason"] is None
    assert found[broken,]["request"] is None and "writes[0]" in found[broken,]["reason"]
    assert found[refused,]["reason"] is None and "spaceship" in str(found[refused,]["request"])


def test_a_row_that_is_too_large(bare_db):
    id, = bare_db.insert({"writes": [], "deletes": [], "x": "x" * 8_400_000})
    line, = lines(bare_db, expect=1)
    assert line["ids"] == [id] and line["request"] is None and "8388608" in line["reason"]


def test_for_the_eye(bare_db):
    first, second, third, fourth = bare_db.insert(*archives(range(2)), "{}", {"wrties": []})
    text = preview(bare_db, expect=1)
    assert text.splitlines()[:3] == [
        f"row {third} is empty: it needs no request",
        f'row {fourth} is refused: payload: unknown key "wrties": only writes and deletes are known',
        f"4 tuples of rows {first},{second}",
    ]
    assert text.splitlines()[-1] == "4 rows, 1 request; nothing was sent, and nothing was changed"


def test_nothing_is_pending(bare_db):
    assert lines(bare_db) == []
    assert preview(bare_db) == "0 rows, 0 requests; nothing was sent, and nothing was changed\n"


def test_pages(bare_db):
    """Bounded in rows and in bytes, as a claim; a single larger row is taken all the same."""
    ids = bare_db.insert(*archives(range(10)))
    found = lines(bare_db, "--batch-rows", "3")
    assert [line["ids"] for line in found] == [ids[0:3], ids[3:6], ids[6:9], ids[9:]]
    assert [line["ids"] for line in lines(bare_db, "--batch-bytes", "1B")] == [[id] for id in ids]


@pytest.fixture
def nobody(bare_db):
    """A role that may connect."""
    name = f"nobody_{bare_db.name}"
    bare_db.execute(f"CREATE ROLE {name} LOGIN")
    yield name
    bare_db.execute(f"DROP OWNED BY {name}")
    bare_db.execute(f"DROP ROLE {name}")


def test_a_role_that_may_only_select(bare_db, nobody):
    bare_db.insert(*archives(range(2)))
    url = bare_db.cluster.url(bare_db.name, user=nobody)
    message = preview(bare_db, expect=2, DATABASE_URL=url)
    assert "permission denied" in message and "relay install" in message
    bare_db.execute(f"GRANT SELECT ON fga_outbox TO {nobody}")
    assert len(lines(bare_db, DATABASE_URL=url)) == 1


def test_what_cannot_be(bare_db, store):
    assert "nowhere" in preview(bare_db, "--table", "nowhere", expect=2)
    assert preview(bare_db, expect=3, DATABASE_URL="postgres://127.0.0.1:1/x") != ""
    done = run("drain", "--json", env=environment(bare_db, store))
    assert done.returncode == 2 and "--dry-run" in done.stderr
