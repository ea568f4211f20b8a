"""What the application pays: inserts a second with and without the trigger and relay."""

import os
import re
import subprocess

from ground import interleave
from postgres import programs
from process import spawn

# One row a transaction, as the ledger makes it. pgbench takes a colon before a letter for a variable of its own, even inside
# a text.
SCRIPT = """\\set n random(1, 1000000000000000)
INSERT INTO fga_outbox (payload) VALUES (jsonb_build_object('writes', jsonb_build_array(
  jsonb_build_object('user', 'capture_job:' || :n::bigint, 'relation', 'parent', 'object', 'archive:' || :n::bigint),
  jsonb_build_object('user', 'organization:' || 'acme', 'relation', 'parent', 'object', 'capture_job:' || :n::bigint))));
"""


def pgbench(ground, database, clients, seconds):
    """Inserts a second. Where no client got as far as to commit, as on a very busy machine, it is tried for longer."""
    script = os.path.join(ground.folder, "insert.sql")
    with open(script, "w") as f:
        f.write(SCRIPT)
    program = f"{programs()}/pgbench"
    process = spawn(
        [program, "-n", "-M", "prepared", "-c", str(clients), "-j", "2", "-T", str(seconds), "-f", script, database.url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate()
    assert process.returncode == 0, err.decode()
    found = re.search(r"^tps = ([\d.]+)", out.decode(), re.M)
    return round(float(found.group(1)), 1) if found else pgbench(ground, database, clients, 2 * seconds)


def alone(ground, clients, seconds):
    ground.fresh(ground.bare)
    return {"inserts_per_s": pgbench(ground, ground.bare, clients, seconds)}


def with_relay(ground, clients, seconds, database, *flags):
    store = ground.fresh(database)
    with ground.relay(database, store, *flags) as running:
        running.wait_ready()
        inserts = pgbench(ground, database, clients, seconds)
        delivered = running.metric("relay_rows_delivered_total")
    return {"inserts_per_s": inserts, "delivered_per_s": round(delivered / seconds)}


def measure(ground, size, say):
    arms = {}
    for clients in (8, 32):
        given = (ground, clients, size.insert_seconds)
        arms[f"none {clients}"] = lambda given=given: alone(*given)
        arms[f"sweep {clients}"] = lambda given=given: with_relay(*given, ground.bare, "--no-listen", "--sweep-interval", "100ms")
        arms[f"trigger {clients}"] = lambda given=given: with_relay(*given, ground.installed)
    return {"seconds": size.insert_seconds, "runs": interleave(arms, size.repetitions, say)}
