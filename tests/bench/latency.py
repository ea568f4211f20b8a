"""How long after its commit a row is in force: by relay, and by an application that writes to OpenFGA right after its commit.

Both ends are commits, and Postgres itself notes the moment of each (track_commit_timestamp), to the microsecond and by one
clock: the one that made the row, and the one by which OpenFGA stored the row's last tuple. So nothing stands in the way that
would take time itself."""

import json
import math

from ground import interleave, keys, write_body
from process import wait_until
from rows import archive, archive_tuples

CLIENTS = 4  # processes that commit: one that waits for OpenFGA must not hold up the next row
MOMENT = "extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8"


def commit(ground, of, rate, database, store, *url):
    """With a URL, each row is also written there right after its commit."""
    lines = [f"{key}\t{json.dumps(archive(key))}\t{write_body(store, archive_tuples(key))}" for key in of]
    finish = [ground.direct("commit", lines[i::CLIENTS], database.url, rate / CLIENTS, *url) for i in range(CLIENTS)]
    for wait in finish:
        wait()


def times(ground, of, database, store):
    """Milliseconds from commit to commit, in the order of the rows' commits, without the first tenth, which finds
    connections and caches cold."""
    ground.check_tuples(store, of)
    stored = dict(ground.fga.database.execute(
        f"""SELECT key, max({MOMENT}) FROM tuple, substr(object_id, 2) AS key
            WHERE store = %s AND object_id NOT LIKE 'filler-%%' GROUP BY key""", store.id).fetchall())
    committed = database.execute(f"SELECT {MOMENT} AS moment, key FROM committed ORDER BY moment").fetchall()
    return [round(1000 * (stored[key] - moment), 3) for moment, key in committed[len(committed) // 10:]]


def direct(ground, of, rate):
    store = ground.fresh(ground.bare)
    commit(ground, of, rate, ground.bare, store, f"{store.url}/stores/{store.id}/write")
    return times(ground, of, ground.bare, store)


def relay(ground, of, rate):
    database = ground.installed
    store = ground.fresh(database)
    with ground.relay(database, store) as running:
        running.wait_ready()
        commit(ground, of, rate, database, store)
        wait_until(lambda: running.metric("relay_rows_delivered_total") == len(of), 60, what="the rows to be delivered")
    return times(ground, of, database, store)


def quantile(values, q):
    """The smallest value that a part q of them does not exceed."""
    return sorted(values)[max(math.ceil(q * len(values)) - 1, 0)]


def measure(ground, size, say):
    of = keys(size.latency_rows)
    pooled = {"direct": [], "relay": []}

    def run(name, arm):
        found = arm(ground, of, size.latency_rate)
        pooled[name] += found
        return {f"p{p}_ms": quantile(found, p / 100) for p in (50, 90, 99)}

    arms = {"direct": lambda: run("direct", direct), "relay": lambda: run("relay", relay)}
    runs = interleave(arms, size.repetitions, say)
    percentiles = {name: [quantile(found, p / 100) for p in range(100)] for name, found in pooled.items()}
    return {"rows": len(of), "rate": size.latency_rate, "runs": runs, "percentiles": percentiles}
