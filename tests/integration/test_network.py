"""The network fails at every point of a row's way, to Postgres and to OpenFGA: all is delivered, in order, and charged to nobody."""

import os
import threading
from contextlib import contextmanager

import pytest

from hotrows import HotRows
from netns import Netns
from process import free_port, wait_until
from proxy import Lose
from pulse import Pulse
from rows import archive_tuples
from wire import BIND, COMPLETE, PARSE, SYNC, Wire

FLAGS = ("--sweep-interval", "300ms", "--min-backoff", "100ms", "--connect-timeout", "3s", "--request-timeout", "1s")
SOON = ("--settle-timeout", "300ms")

# How a message of each phase is known.
PHASES = {
    "connect": lambda m: m.kind == b"",
    "prepare": lambda m: m.side == "client" and m.kind == PARSE,
    "claim": lambda m: m.side == "client" and m.kind == BIND and m.name == "relay_claim",
    "claimed": lambda m: m.side == "server" and m.kind == COMPLETE and m.name == "relay_claim" and m.rows > 0,
    "ack": lambda m: m.side == "client" and m.kind == BIND and m.name == "relay_delivered",
    "commit": lambda m: m.side == "client" and m.kind == BIND and m.name == "relay_commit",
    "commit sent": lambda m: m.side == "client" and m.kind == SYNC and "relay_commit" in m.trip,
    "committed": lambda m: m.side == "server" and m.kind == COMPLETE and m.name == "relay_commit",
}


class Strikes:
    """A hook: acts on the session of the first messages that fit, `times` of them."""

    def __init__(self, fits, act, times):
        self.fits = fits
        self.act = act
        self.left = times
        self.struck = []
        self.lock = threading.Lock()

    def __call__(self, message):
        if not self.fits(message):
            return
        with self.lock:
            if self.left == 0 or message.session in self.struck:
                return
            self.left -= 1
            self.struck.append(message.session)
        self.act(message.session)


@contextmanager
def unharmed(relay, db, store, rows):
    """Around a fault and its end: the probe answers all the while, the sweep ticks, and then every row has had its effect, in order."""
    pulse = Pulse(relay)
    yield
    sweeps = relay.metric("relay_sweeps_total")
    db.wait_delivered(timeout=30)
    relay.wait_ready(timeout=30)
    wait_until(lambda: relay.metric("relay_sweeps_total") >= sweeps + 2)
    pulse.stop()
    assert store.tuples() == rows.expected
    assert db.attempts() == 0
    assert relay.stop() < 8


@pytest.mark.asan
@pytest.mark.parametrize("fault", ["cut", "reset", "orphan"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_connection_to_postgres_is_lost(db, cluster, store, wire, start, phase, fault):
    """cut: both ends see it closed; reset: with a RST; orphan: Postgres does not see it for a while, and keeps the rows locked."""
    rows = HotRows(db)
    strikes = Strikes(PHASES[phase], lambda session: getattr(session, fault)(), 3)
    if phase == "commit sent":
        wire.after = strikes
    else:
        wire.hook = strikes
    rows.insert(30)
    relay = start(cluster.url(db.name, port=wire.port), store, *FLAGS, *SOON, ready=False)
    with unharmed(relay, db, store, rows):
        wait_until(lambda: rows.insert(2) and strikes.left == 0, 20, every=0.05)
        rows.insert(30)
        if fault == "orphan":
            wait_until(lambda: relay.metric("relay_reconnections_total") >= 3)
            rows.insert(10)
            for session in strikes.struck:
                session.shut(session.server)


@pytest.mark.parametrize("fault", ["cut", "reset", "orphan"])
def test_a_connection_is_lost_while_postgres_commits(db, cluster, store, wire, start, proxy, fault):
    """A deferred trigger waits for the test in the midst of COMMIT: the marks are committed after the relay has lost the connection. It
    must neither take the rows for free nor send them again."""
    db.execute(
        "CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS"
        " 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END';"
        "CREATE CONSTRAINT TRIGGER wait_for_test AFTER UPDATE ON fga_outbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_for_test()"
    )
    waiting = "SELECT client_port FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory' AND query = 'COMMIT'"
    rows = HotRows(db)
    relay = start(cluster.url(db.name, port=wire.port), store, *FLAGS, *SOON, url=proxy.url)
    with unharmed(relay, db, store, rows):
        db.execute("SELECT pg_advisory_lock(1)")
        first = rows.insert_archives(1)
        port, = wait_until(lambda: [row[0] for row in db.execute(waiting).fetchall()])
        session, = (s for s in wire.sessions if s.server.getsockname()[1] == port)
        lost = relay.metric("relay_reconnections_total")
        getattr(session, fault)()
        wait_until(lambda: relay.metric("relay_reconnections_total") > lost)
        sweeps = relay.metric("relay_sweeps_total")
        wait_until(lambda: relay.metric("relay_sweeps_total") >= sweeps + 3)
        assert not db.delivered(*first)
        db.execute("SELECT pg_advisory_unlock(1)")
        db.wait_delivered(*first)
        session.shut(session.server)
        rows.insert(20)
    sent = [t for e in proxy.writes for t in e.tuples]
    assert all(sent.count(t) == 1 for t in archive_tuples(0))


@pytest.mark.slow
def test_connections_to_postgres_go_mute(db, cluster, store, wire, start):
    """Four of five lanes' connections swallow everything, each in another phase, and nothing is closed: the fifth one delivers
    meanwhile, and the rows of the four come when they are given up."""
    phases = ["claim", "claimed", "commit", "committed"]
    strikes = [Strikes(PHASES[phase], lambda session: session.mute(), 1) for phase in phases]
    struck = []
    lock = threading.Lock()

    def hook(message):
        with lock:
            if message.session in struck:
                return
            for strike in strikes:
                strike(message)
                if message.session in strike.struck:
                    struck.append(message.session)
                    return

    wire.hook = hook
    rows = HotRows(db)
    relay = start(cluster.url(db.name, port=wire.port), store, *FLAGS, *SOON, "--lanes", "5", ready=False)
    with unharmed(relay, db, store, rows):
        wait_until(lambda: rows.insert(1) and len(struck) == len(phases), 20, every=0.05)
        db.wait_delivered(*rows.insert_archives(20))
        wait_until(lambda: "no answer within" in relay.text(), 60)
        for session in struck:
            session.shut(session.server)


LATE = ("--settle-timeout", "6s")

# toxic, streams, its attributes, whether rows pass it, and flags. A request that is held up may be carried out late: settle-timeout.
TOXICS = {
    "reset": ("reset_peer", ["downstream"], {"timeout": 0}, False, SOON),
    "request reset": ("reset_peer", ["upstream"], {"timeout": 0}, False, SOON),
    "request cut short": ("limit_data", ["upstream"], {"bytes": 100}, False, SOON),
    "answer cut short": ("limit_data", ["downstream"], {"bytes": 20}, False, SOON),
    "answers swallowed": ("timeout", ["downstream"], {"timeout": 0}, False, SOON),
    "requests swallowed": ("timeout", ["upstream"], {"timeout": 0}, False, SOON),
    "all swallowed": ("timeout", ["upstream", "downstream"], {"timeout": 0}, False, SOON),
    "late answers": ("latency", ["downstream"], {"latency": 1300}, False, SOON),
    "late requests": ("latency", ["upstream"], {"latency": 1300}, False, LATE),
    "slow": ("latency", ["upstream", "downstream"], {"latency": 150, "jitter": 100}, True, LATE),
    "narrow": ("bandwidth", ["upstream", "downstream"], {"rate": 20}, True, LATE),
    "in crumbs": ("slicer", ["upstream", "downstream"], {"average_size": 40, "size_variation": 20, "delay": 2000}, True, LATE),
}


@pytest.mark.parametrize("toxic", TOXICS)
def test_the_link_to_openfga_fails(db, store, start, toxiproxy, toxic):
    """While rows are delivered, and then from the first connection on."""
    kind, streams, attributes, passes, flags = TOXICS[toxic]
    link = toxiproxy.link(store.server.port)
    rows = HotRows(db)
    relay = start(db, store, *FLAGS, *flags, url=f"http://127.0.0.1:{link.port}")
    with unharmed(relay, db, store, rows):
        rows.insert(10)
        made = [link.add(kind, stream, **attributes) for stream in streams]
        rows.insert(20)
        if passes:
            db.wait_delivered(timeout=30)
        else:
            relay.wait_not_ready("openfga")
        rows.insert(10)
        for name in made:
            link.remove(name)


def test_answers_are_lost(db, store, start, proxy):
    """Written, and the connection closed in place of the answer, for the first three Writes: the rows are sent again before anything else
    on their tuples."""
    left = [3]
    lock = threading.Lock()

    def hook(exchange):
        with lock:
            if exchange.is_write and not exchange.is_probe and left[0] > 0:
                left[0] -= 1
                raise Lose

    proxy.hook = hook
    rows = HotRows(db)
    rows.insert(40)
    relay = start(db, store, *FLAGS, *SOON, url=proxy.url, ready=False)
    with unharmed(relay, db, store, rows):
        wait_until(lambda: left[0] == 0)
        rows.insert(20)


class Far:
    """Postgres and OpenFGA at the other end of a cable that is the relay's only one."""

    def __init__(self, netns, cluster, db, store, toxiproxy):
        self.netns = netns
        self.wire = Wire(cluster.port, host=netns.here)
        self.link = toxiproxy.link(store.server.port, at=(netns.here, free_port(netns.here)))
        self.ports = {"postgres": self.wire.port, "openfga": self.link.port}
        self.database = f"postgres://postgres@{netns.here}:{self.wire.port}/{db.name}?sslmode=disable"
        self.url = f"http://{netns.here}:{self.link.port}"

    def connections(self, party):
        """The relay's own ports of its connections to this party."""
        text = self.netns.run("ss", "-Htn", "state", "established", "dport", "=", f":{self.ports[party]}")
        return [int(line.split()[2].rsplit(":", 1)[1]) for line in text.splitlines()]

    def closing(self, party):
        """Connections that are closed, while the kernel still tries to deliver what was sent on them."""
        return self.netns.run("ss", "-Htn", "state", "fin-wait-1", "dport", "=", f":{self.ports[party]}")


@pytest.fixture
def far(cluster, db, store, toxiproxy):
    if os.geteuid() != 0:
        pytest.skip("a network namespace needs root")
    netns = Netns()
    made = Far(netns, cluster, db, store, toxiproxy)
    yield made
    made.wire.close()
    netns.close()


@pytest.mark.asan
@pytest.mark.parametrize("ways", [("out",), ("in",), ("out", "in")], ids=["requests", "answers", "both"])
@pytest.mark.parametrize("party", ["postgres", "openfga"])
def test_packets_vanish(db, store, start, far, party, ways):
    """No FIN, no RST, no ICMP, as when a cable is pulled. What the relay has given up by then must not arrive afterwards."""
    quick = "&tcp_user_timeout=1500&keepalives_idle=1&keepalives_interval=1&keepalives_count=2"
    rows = HotRows(db)
    relay = start(far.database + quick, store, *FLAGS, *SOON, url=far.url, host=far.netns.there, port=free_port(), prefix=far.netns.prefix)
    with unharmed(relay, db, store, rows):
        db.wait_delivered(*rows.insert(20))
        far.netns.swallow(far.ports[party], *ways)
        rows.insert(20)
        relay.wait_not_ready(party, timeout=30)
        if party == "openfga":
            assert far.closing(party) == "", "a request that was given up would arrive when the cable is back"
        rows.insert(20)
        far.netns.heal()


def test_every_connection_to_openfga_is_forgotten(db, store, start, far):
    """A firewall that has lost its table: the packets of every connection vanish, and new connections work. Only what is sent before the
    first time-out is lost (a question, and a Write or two), and not one request for each connection."""
    rows = HotRows(db)
    relay = start(
        far.database, store, *FLAGS, *SOON, "--request-timeout", "3s", "--batch-rows", "20", url=far.url, host=far.netns.there, port=free_port(), prefix=far.netns.prefix
    )
    far.link.add("latency", latency=300)

    def connected():
        """The connections that all rows have left behind, once there are many; one that a time-out ended took the older ones with it."""
        rows.insert_archives(400)
        db.wait_delivered(timeout=60)
        found = far.connections("openfga")
        return len(found) >= 5 and found

    with unharmed(relay, db, store, rows):
        old = wait_until(connected, 60)
        far.netns.swallow_from(*old)
        rows.insert(2)
        db.wait_delivered(timeout=60)
        assert far.netns.swallowed_from() <= 3 < len(old)
