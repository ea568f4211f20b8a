"""Names of tables and channels with capitals, quotes and blanks in them."""

import pytest

from process import wait_until
from relay import environment, run
from rows import all_tuples, archive

pytestmark = pytest.mark.asan

CHANNELS = ["fga_outbox", "MixedCase", "with blank", 'with "quotes"', "it's", "back\\slash", "ümlaut"]
TABLES = [
    ("fga_outbox", "fga_outbox"),
    ("FGA_Outbox", "fga_outbox"),
    ("audit.fga_outbox", "audit.fga_outbox"),
    ('"FGA Outbox"', '"FGA Outbox"'),
    ('"Au""dit"."o\'ut.box"', '"Au""dit"."o\'ut.box"'),
    ('audit."Select"', 'audit."Select"'),
]


def installed(database, *flags):
    done = run("install", *flags, env=environment(database))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("channel", CHANNELS)
def test_any_channel(bare_db, store, start, channel):
    installed(bare_db, "--channel", channel)
    relay = start(bare_db, store, "--sweep-interval", "1h", "--channel", channel)
    bare_db.insert(archive(1))
    bare_db.wait_delivered()
    wait_until(lambda: relay.metric("relay_notifications_total") >= 1)


@pytest.mark.parametrize("name, sql", TABLES, ids=[name for name, _ in TABLES])
def test_any_table(empty_db, store, start, name, sql):
    empty_db.execute('CREATE SCHEMA audit')
    empty_db.execute('CREATE SCHEMA "Au""dit"')
    empty_db.create_outbox(sql, index="pending_idx")
    installed(empty_db, "--table", name)
    relay = start(empty_db, store, "--sweep-interval", "1h", "--table", name)
    empty_db.insert(archive(1))
    empty_db.wait_delivered()
    wait_until(lambda: relay.metric("relay_notifications_total") >= 1)
    assert store.tuples() == all_tuples([1])


def test_two_outboxes_in_one_database_do_not_mix(empty_db, store, memory_fga, start):
    other_store = memory_fga.create_store()
    empty_db.execute("CREATE SCHEMA other")
    empty_db.create_outbox("other.fga_outbox")
    empty_db.create_outbox()
    installed(empty_db)
    installed(empty_db, "--table", "other.fga_outbox", "--channel", "other")
    start(empty_db, store, "--sweep-interval", "1h")
    start(empty_db, other_store, "--sweep-interval", "1h", "--table", "other.fga_outbox", "--channel", "other")
    empty_db.insert(archive(1))
    empty_db.wait_delivered()
    empty_db.table = "other.fga_outbox"
    empty_db.insert(archive(2))
    empty_db.wait_delivered()
    assert (store.tuples(), other_store.tuples()) == (all_tuples([1]), all_tuples([2]))


def test_a_least_privileged_role_suffices(bare_db, cluster, store, start):
    role = f"relay_{bare_db.name}"
    installed(bare_db, "--role", role)
    bare_db.execute(f"ALTER ROLE {role} LOGIN")
    relay = start(cluster.url(bare_db.name, user=role), store, "--sweep-interval", "1h")
    bare_db.insert(archive(1))
    bare_db.wait_delivered()
    wait_until(lambda: relay.metric("relay_notifications_total") >= 1)
    relay.stop()
    bare_db.execute(f"DROP OWNED BY {role}")
    bare_db.execute(f"DROP ROLE {role}")
