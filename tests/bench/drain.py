"""A backlog: relay against OpenFGA's own ceiling, full Writes without any outbox. And what relay itself uses for it."""

import functools
import time
from contextlib import ExitStack

from ground import TUPLES_A_WRITE, interleave, keys, write_body
from process import wait_until
from rows import all_tuples

IN_FLIGHT = 4  # Writes at a time: relay's default, and where OpenFGA stops to gain on a small machine

RELAYS = {"relay": 1, "2 relays": 2, "4 relays": 4}

MIB = 2**20


def direct(ground, of):
    store = ground.fresh(ground.bare)
    rows = TUPLES_A_WRITE // 2
    bodies = [write_body(store, all_tuples(of[i:i + rows])) for i in range(0, len(of), rows)]
    seconds = float(ground.direct("write", bodies, f"{store.url}/stores/{store.id}/write", IN_FLIGHT)())
    ground.check_tuples(store, of)
    return {"rows_per_s": round(len(of) / seconds)}


def relays(ground, of, n):
    """n of them on one outbox, from the start of the processes to the commit of the last mark."""
    database = ground.installed
    store = ground.fresh(database)
    ground.fill(database, of)
    anonymous = 0
    began = time.time()
    with ExitStack() as stack:
        running = [stack.enter_context(ground.relay(database, store)) for _ in range(n)]
        for relay in running:
            relay.wait_ready()

        def is_done():
            nonlocal anonymous
            anonymous = max(anonymous, *(relay.memory()["RssAnon"] for relay in running))
            return sum(relay.metric("relay_rows_delivered_total") for relay in running) == len(of)

        wait_until(is_done, 300, every=0.05, what="the backlog to be delivered")
        cpu, peak = sum(relay.cpu_seconds() for relay in running), max(relay.memory()["VmHWM"] for relay in running)
    ended = database.value("SELECT extract(epoch FROM max(pg_xact_commit_timestamp(xmin)))::float8 FROM fga_outbox")
    ground.check_tuples(store, of)
    return {
        "rows_per_s": round(len(of) / (ended - began)), "cpu_s_per_100k": round(cpu * 100_000 / len(of), 3),
        "peak_rss_mib": round(peak / MIB, 2), "peak_anonymous_mib": round(anonymous / MIB, 2),
    }


def measure(ground, size, say):
    of = keys(size.drain_rows)
    arms = {"direct": lambda: direct(ground, of)}
    arms |= {name: functools.partial(relays, ground, of, n) for name, n in RELAYS.items()}
    return {"rows": len(of), "runs": interleave(arms, size.repetitions, say)}
