"""What tests of Postgres's faults share: finding the relay's sessions, holding them up where they are, and what must be true throughout."""

import threading
from contextlib import contextmanager

from process import wait_until
from rows import all_tuples

QUICK = ("--sweep-interval", "300ms", "--min-backoff", "100ms", "--max-backoff", "500ms")


def sessions(database, condition="true"):
    """The pids of the relay's sessions; the condition is on pg_stat_activity."""
    found = database.execute(
        f"SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'relay%%' AND {condition}"
    ).fetchall()
    return [pid for pid, in found]


def with_rows(database):
    """The pids of the relay's sessions that hold rows while OpenFGA is asked. A claim that found none has no id of a transaction."""
    return sessions(database, "state = 'idle in transaction' AND backend_xid IS NOT NULL")


def wait_connected(database, relay, n=5):
    """Waits until all n sessions of relays are made, and what is said and asked at the start is over. relay: one of them."""
    wait_until(lambda: relay.metric('relay_canaries_total{result="seen"}') > 0, 30)
    wait_until(lambda: len(sessions(database, "state = 'idle' AND query <> ''")) == n, 30)


def waiting_for_a_lock(database, query="%"):
    """The pids of the relay's sessions that wait for a lock in a statement like this."""
    return sessions(database, f"wait_event_type = 'Lock' AND query ILIKE '{query}'".replace("%", "%%"))


@contextmanager
def locked(database, mode):
    """The table is locked by a transaction, which is handed over and committed at the end. SHARE lets claims through, and holds up marks;
    ACCESS EXCLUSIVE holds up both."""
    with database.transaction() as other:
        other.execute(f"LOCK TABLE {database.table} IN {mode} MODE")
        yield other


def says(relay, *texts, timeout=15):
    """Waits for one line of a warning's or an error's level that holds all of these texts."""
    def found():
        return [line for line in relay.log() if line["level"] in ("warning", "error") and all(t.lower() in str(line).lower() for t in texts)]
    wait_until(found, timeout, what=lambda: f"{texts} in the log: {relay.text()[-3000:]}")


def complains(relay, *texts, timeout=15):
    """/readyz and the log say what is wrong, and /livez is fine."""
    relay.wait_not_ready(*texts, timeout=timeout)
    says(relay, *texts)
    assert relay.request("GET", "/livez")[0] == 200


def all_is_well(database, store, relay, numbers, timeout=30):
    """The relay has come back by itself: archives with these numbers are delivered, all of them and no others, and no row was charged."""
    relay.wait_ready(timeout)
    database.wait_delivered(timeout=timeout)
    assert store.tuples() == all_tuples(numbers)
    assert database.attempts() == 0
    assert database.value(f"SELECT count(*) FROM {database.table} WHERE last_error IS NOT NULL") == 0


class Gate:
    """A proxy's hook that keeps back every Write that carries rows, until it is opened."""

    def __init__(self, proxy):
        self.entered, self.leave = threading.Event(), threading.Event()
        proxy.hook = self

    def __call__(self, exchange):
        if exchange.is_write and not exchange.is_probe:
            self.entered.set()
            self.leave.wait(60)

    def wait_entered(self):
        assert self.entered.wait(15)

    def open(self):
        self.leave.set()
