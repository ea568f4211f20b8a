"""How long `relay status` takes, from the start of its process to its end, on a table that has grown for years."""

import json
import time

import relay as relay_module
from relay import environment
from rows import archive

NOBODY = "127.0.0.1:1"  # where no relay listens: its probe is another process's time


def insert(ground, database, n, columns, values):
    database.execute(
        f"INSERT INTO fga_outbox (payload, {columns}) SELECT payload, {values} FROM (SELECT %s::jsonb AS payload) AS p, generate_series(1, %s)",
        json.dumps(archive("7f170ae4-0b5c-4d52-9d6e-3a4cb75c1c2f")), n)
    database.execute("VACUUM ANALYZE fga_outbox")
    ground.admin.execute("CHECKPOINT")


def times(database, size):
    """Milliseconds. The first ones, which find the caches cold, do not count."""
    env = environment(database)
    found = []
    for _ in range(size.status_cold + size.status_rounds):
        began = time.monotonic()
        done = relay_module.run("status", "--http-listen", NOBODY, env=env)
        found.append(round(1000 * (time.monotonic() - began), 2))
        assert done.returncode == 0, done.stderr
    return found[size.status_cold:]


def measure(ground, size, say):
    database = ground.bare
    ground.fresh(database)
    found = {"empty": times(database, size)}
    insert(ground, database, size.status_processed, "processed_at", "now()")
    found[f"{size.status_processed:,} processed"] = times(database, size)
    insert(ground, database, size.parked_rows, "attempts, last_error", "3, 'type ''spaceship'' not found'")
    found[f"{size.status_processed:,} processed, {size.parked_rows:,} refused"] = times(database, size)
    say(f"  {found}")
    return {"conditions": found}
