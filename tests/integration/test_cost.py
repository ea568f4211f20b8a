"""What it costs to have a relay: idle, and with a million rows pending."""

import json
import time

import pytest

from process import stays, wait_until
from proxy import Reply
from rows import archive

MIB = 2**20


def statements(cluster, name):
    with cluster.connect("postgres") as admin:
        return admin.execute(
            "SELECT query, calls FROM pg_stat_statements JOIN pg_database d ON d.oid = dbid WHERE datname = %s ORDER BY calls DESC", [name]
        ).fetchall()


@pytest.mark.slow
def test_a_minute_of_idling(db, cluster, store, start):
    relay = start(db, store, "--sweep-interval", "10s", "--lanes", "4")
    db.insert(archive(1))
    db.wait_delivered()
    sweeps = relay.metric("relay_sweeps_total")
    wait_until(lambda: relay.metric("relay_sweeps_total") > sweeps, 30)
    db.reconnect()
    began = time.monotonic()
    sweeps, cpu = relay.metric("relay_sweeps_total"), relay.cpu_seconds()
    with cluster.connect("postgres") as admin:
        admin.execute("SELECT pg_stat_statements_reset()")
    stays(lambda: relay.process.poll() is None, 60, every=1)
    found = statements(cluster, db.name)
    sweeps, cpu = relay.metric("relay_sweeps_total") - sweeps, relay.cpu_seconds() - cpu
    assert 5 <= sweeps <= (time.monotonic() - began) / 10 + 1
    assert sum(calls for _, calls in found) <= sweeps + 1, found
    assert cpu < 0.1
    assert relay.memory()["RssAnon"] < 4 * MIB, relay.memory()


@pytest.mark.slow
def test_a_million_pending_rows(bare_db, store, make_proxy, start):
    """Memory does not grow with the backlog: sampled while the first hundred thousand are delivered."""
    bare_db.execute(
        """INSERT INTO fga_outbox (payload)
           SELECT CASE WHEN n % 4 = 0 THEN '{}'::jsonb ELSE jsonb_build_object('writes', jsonb_build_array(
             jsonb_build_object('user', 'capture_job:j' || n, 'relation', 'parent', 'object', 'archive:a' || n),
             jsonb_build_object('user', 'organization:acme', 'relation', 'parent', 'object', 'capture_job:j' || n))) END
           FROM generate_series(1, 1000000) n""")
    bare_db.execute("ANALYZE fga_outbox")
    proxy = make_proxy(None)
    everything = {"id": store.id, "name": "x", "stores": [], "authorization_model": {"id": store.model_id, "schema_version": "1.1", "type_definitions": []}}

    def answer(e):
        proxy.exchanges.clear()
        return Reply() if e.is_write else Reply(200, json.dumps(everything))

    proxy.hook = answer
    relay = start(bare_db, store, "--sweep-interval", "1s", "--lanes", "4", url=proxy.url)
    anonymous = 0
    deadline = time.monotonic() + 120
    while (delivered := relay.metric("relay_rows_delivered_total")) < 100_000:
        anonymous = max(anonymous, relay.memory()["RssAnon"])
        assert time.monotonic() < deadline, delivered
    peak = relay.memory()["VmHWM"]
    assert peak < 20 * MIB, peak / MIB
    assert anonymous < 8 * MIB, anonymous / MIB
    assert bare_db.attempts() == 0
