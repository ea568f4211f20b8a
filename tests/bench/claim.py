"""What a claim costs, as relay makes it: buffers and time by pg_stat_statements, under what an outbox goes through in years.

Under each condition a hundred fresh rows are committed at the end of the table, again and again, and all claims count that
relay makes until they are delivered, also the one that finds nothing more. A sweep looks at all that is pending by design:
there is only the one at the start, before anything is measured."""

import time
from contextlib import contextmanager

import psycopg

from ground import keys
from process import wait_until
from rows import archives

FRESH = 100  # rows at the end
PAUSE = 0.5  # seconds from one round to the next
EMPTY = "{}"  # a payload that is delivered without a request: many such rows are quickly made and delivered
REFUSED = '{"writes": [{"user": "nobody", "relation": "parent", "object": "archive:1"}]}'


class Subject:
    """A relay on a database of its own, and what its claims cost."""

    def __init__(self, ground, database, relay):
        self.ground, self.database, self.relay = ground, database, relay
        self.delivered = 0

    def _statistics(self):
        """(claims, buffers, milliseconds) so far."""
        return self.ground.admin.execute(
            """SELECT coalesce(sum(calls), 0)::int8, coalesce(sum(shared_blks_hit + shared_blks_read), 0)::int8,
                      coalesce(sum(total_exec_time), 0)
               FROM pg_stat_statements JOIN pg_database d ON d.oid = dbid
               WHERE datname = %s AND query LIKE '%%SKIP LOCKED%%' AND query NOT LIKE '%%= ANY%%'""", [self.database.name]).fetchone()

    def deliver(self, n, insert):
        """insert() commits n rows; waits until they are delivered and nothing is under way any more. Returns what claims
        cost for a hundred of them."""
        before = self._statistics()
        self.delivered += n
        insert()
        wait_until(lambda: self.relay.metric("relay_rows_delivered_total") >= self.delivered, 900, what="delivery")
        self.wait_idle()
        claims, buffers, ms = (float(now - then) * FRESH / n for now, then in zip(self._statistics(), before))
        assert claims > 0, "pg_stat_statements knows of no claim: is it another statement now?"
        return {"claims": round(claims, 2), "buffers": round(buffers, 1), "ms": round(ms, 3)}

    def wait_idle(self):
        wait_until(lambda: all(state == "idle" for _, state, _ in self.database.backends()), 60, what="the claims to end")

    def insert(self, n, payload, processed_at="NULL"):
        self.database.execute(
            f"INSERT INTO fga_outbox (payload, processed_at) SELECT %s::jsonb, {processed_at} FROM generate_series(1, %s)", payload, n)

    def rounds(self, size):
        """What claims cost in each round. The cold ones do not count: what relay learns of the table it learns from claims,
        and not at each one."""
        found = []
        due = time.monotonic()
        for _ in range(size.claim_cold + size.claim_rounds):
            due += PAUSE
            time.sleep(max(due - time.monotonic(), 0))
            fresh = archives(keys(FRESH, self.delivered))
            found.append(self.deliver(FRESH, lambda: self.database.insert(*fresh)))
        return found[size.claim_cold:]


@contextmanager
def subject(ground):
    database = ground.database(trigger=True)
    database.execute(f"ALTER DATABASE {database.name} SET pg_stat_statements.track = top")
    store = ground.fresh(database)
    with ground.relay(database, store, "--sweep-interval", "1h", "--min-backoff", "1h", "--max-backoff", "1h") as running:
        yield Subject(ground, database, running.wait_ready())
    database.close()


def grown(ground, size):
    """An empty table, and then with many rows that were processed long ago."""
    found = {}
    with subject(ground) as s:
        found["empty"] = s.rounds(size)
        before = 0
        for processed in size.processed:
            s.insert(processed - before, EMPTY, "now()")
            s.database.execute("VACUUM ANALYZE fga_outbox")
            ground.admin.execute("CHECKPOINT")
            before = processed
            found[f"{processed:,} processed"] = s.rounds(size)
    return found


def old_snapshot(ground, size):
    """Another session holds a snapshot, so that nothing of what is delivered since can be cleaned up: what a claim costs
    while the rows are delivered, and afterwards."""
    through, processed = [], 0
    with subject(ground) as s, psycopg.connect(s.database.url) as report:
        report.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        report.execute("SELECT count(*) FROM fga_outbox")
        # The first ones by themselves: what all others are compared with.
        part = size.snapshot_rows // size.snapshot_parts
        first = min(10 * FRESH, part // 2)
        for part in [first, part - first] + [part] * (size.snapshot_parts - 1):
            processed += part
            through.append({"processed": processed} | s.deliver(part, lambda: s.insert(part, EMPTY)))
        return {f"{size.snapshot_rows:,} under an old snapshot": s.rounds(size)}, through


def parked(ground, size):
    """Refused rows at the head of the table that wait for their next try."""
    with subject(ground) as s:
        s.insert(size.parked_rows, REFUSED)
        wait_until(lambda: s.relay.metric("relay_rows_parked") == size.parked_rows, 300, what="the rows to be refused")
        s.wait_idle()
        return {f"{size.parked_rows:,} parked": s.rounds(size)}


def measure(ground, size, say):
    conditions = grown(ground, size)
    say(f"  {conditions}")
    after, through = old_snapshot(ground, size)
    say(f"  {after}, {through}")
    conditions |= after | parked(ground, size)
    return {"rounds": size.claim_rounds, "conditions": conditions, "through": through}
