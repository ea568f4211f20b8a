"""relay reconcile, in step, against nothing but reading the store: the same pages, one after the other, on one connection."""

import json
import subprocess
import time

import relay as relay_module
from ground import interleave
from process import spawn
from relay import environment

MIB = 2**20


def fill(ground, database, tuples):
    """As many tuples in OpenFGA, and the delivered rows that they come from, two tuples a row. Returns the store."""
    store = ground.fresh(database)
    fga = ground.fga.database
    fga.execute("TRUNCATE tuple")
    fga.execute(
        """INSERT INTO tuple (store, object_type, object_id, relation, _user, user_type, ulid, inserted_at, condition_name)
           SELECT %s, type, id, 'parent', parent, 'user', lpad((2 * n + place)::text, 26, '0'), now(), ''
           FROM generate_series(1, %s) AS n, md5(n::text) AS key, LATERAL (VALUES
               (0, 'archive', 'a' || key, 'capture_job:j' || key), (1, 'capture_job', 'j' || key, 'organization:acme')) AS t (place, type, id, parent)""",
        store.id, tuples // 2)
    database.execute(
        """INSERT INTO fga_outbox (payload, processed_at) SELECT jsonb_build_object('writes', jsonb_build_array(
               jsonb_build_object('user', 'capture_job:j' || key, 'relation', 'parent', 'object', 'archive:a' || key),
               jsonb_build_object('user', 'organization:acme', 'relation', 'parent', 'object', 'capture_job:j' || key))), now()
           FROM generate_series(1, %s) AS n, md5(n::text) AS key""", tuples // 2)
    for filled, table in ((fga, "tuple"), (database, "fga_outbox")):
        filled.execute(f"VACUUM ANALYZE {table}")
    ground.admin.execute("CHECKPOINT")
    return store


def read(ground, store, tuples):
    seconds, found = ground.direct("read", [], f"{store.url}/stores/{store.id}/read")().split()
    assert int(found) == tuples, found
    return {"seconds": float(seconds)}


def reconcile(database, store, tuples):
    began = time.monotonic()
    process = spawn([relay_module.BINARY, "reconcile", "--json"], env=environment(database, store), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    peak = 0
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status") as f:
                peak = max([peak, *(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM:"))])
        except ProcessLookupError:
            pass  # it ends
        time.sleep(0.02)
    seconds = time.monotonic() - began
    out, err = process.communicate()
    assert process.returncode == 0, err.decode()
    found = json.loads(out)
    assert (found["store_tuples"], found["compared"]) == (tuples, tuples), found
    return {"seconds": round(seconds, 3), "peak_rss_mib": round(peak / MIB, 2)}


def measure(ground, size, say):
    database, tuples = ground.bare, size.reconcile_tuples
    store = fill(ground, database, tuples)
    arms = {"read": lambda: read(ground, store, tuples), "reconcile": lambda: reconcile(database, store, tuples)}
    return {"tuples": tuples, "runs": interleave(arms, size.reconcile_repetitions, say)}
