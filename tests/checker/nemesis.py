"""What goes wrong: acts on one relay, each drawn by a thread of that relay's own, and acts on what all relays share.

The relay's promise of order has one exception: a relay that dies, or loses the session that holds its rows, while the outcome of one of
its requests is unknown; nobody can keep those rows then. So an act that takes a relay's session away (`_robbed`) waits until OpenFGA may
no longer carry out anything whose outcome that relay does not know, and holds the other relays' requests back until what is under way at
that moment has come to its end (milliseconds). All else may happen at any time, to several relays at once."""

import random
import signal
import threading
import time
from contextlib import contextmanager

from process import wait_until


class Nemesis:
    """rate: acts a second and relay, on the average, with what they last left out. Failures of its threads are raised by stop()."""

    def __init__(self, world, seed, rate):
        self.world = world
        self.seed = seed
        self.rate = rate
        self.done = {}  # act: how often
        self.failures = []
        self._end = threading.Event()
        # Held while relays end or are robbed of sessions, and while an outage of OpenFGA begins.
        self._stage = threading.RLock()
        self._outage = False
        jobs = [(f"{d.name}", ON_RELAY, d) for d in world.drainers] + [("shared", ON_ALL, None)]
        self._threads = [threading.Thread(target=self._run, args=job, daemon=True) for job in jobs]
        for thread in self._threads:
            thread.start()

    def stop(self):
        """Ends after the acts that are under way: everything is healed then."""
        self._end.set()
        for thread in self._threads:
            thread.join(90)
            assert not thread.is_alive()
        if self.failures:
            raise self.failures[0]

    def _run(self, name, acts, drainer):
        n = 0
        try:
            while not self._end.is_set():
                rng = random.Random(f"{self.seed}/nemesis {name}/{n}")
                n += 1
                if self._end.wait(rng.expovariate(self.rate if drainer else self.rate / 5)):
                    return
                act = rng.choice(acts)
                started = time.time()
                done = act(self, drainer, rng) if drainer else act(self, rng)
                label = act.__name__ if done is not False else f"{act.__name__} (not settled: left out)"
                self.done[label] = self.done.get(label, 0) + 1
                self.world.note(started, f"{name}: {label}")
        except Exception as e:
            self.failures.append(e)
            self._end.set()

    def _begin(self, start):
        """Starts a process from a thread that stays: processes die with the thread that started them (prctl(2), PR_SET_PDEATHSIG)."""
        self.world.starter.submit(start).result()

    def _wait_settled(self, *drainers):
        """Gives up after a while: others may disturb them again and again."""
        until = time.monotonic() + self.world.profile.settle + 2
        while time.monotonic() < until and not self._end.is_set() and not self._are_settled(*drainers):
            time.sleep(0.05)

    def _are_settled(self, *drainers):
        return not self._outage and all(d.gate.is_settled() for d in drainers)

    @contextmanager
    def _robbed(self, *victims):
        """The victims lose sessions in this block. Yields False when they do not settle: then they must not."""
        self._wait_settled(*victims)
        with self._stage:
            if not self._are_settled(*victims):
                yield False
                return
            others = [d for d in self.world.drainers if d not in victims]
            for other in others:
                other.gate.hold()
            try:
                yield True
            finally:
                for other in others:
                    other.gate.release()

    # Acts on one relay

    def kill(self, d, rng):
        pause = rng.choice((0, 0.2, 1))
        with d.busy:
            with self._robbed(d) as may:
                if not may:
                    return False
                d.kill()
                d.wait_left()
            self._end.wait(pause)
            self._begin(d.start)

    def terminate(self, d, rng):
        pause = rng.choice((0, 0.5))
        with d.busy:
            self._wait_settled(d)
            with self._stage:
                if not self._are_settled(d):
                    return False
                d.terminate()
            self._end.wait(pause)
            self._begin(d.start)

    def terminate_with_unknown_outcome(self, d, rng):
        """It may not end before what it does not know is settled."""
        with d.busy:
            with self._stage:
                if self._outage:
                    return False
                d.to_fga.enable(False)
                d.to_fga.enable(True)
                d.gate.disturbed()
                d.terminate()
            self._begin(d.start)

    def freeze(self, d, rng):
        seconds = rng.uniform(0.1, 3)
        with d.busy:
            d.relay.signal(signal.SIGSTOP)
            self._end.wait(seconds)
            d.relay.signal(signal.SIGCONT)

    def hangup(self, d, rng):
        with d.busy:
            d.notices()  # one that has only just begun would die of it
            d.relay.signal(signal.SIGHUP)

    def end_backends(self, d, rng):
        share = rng.choice((0.3, 1))
        with d.busy, self._robbed(d) as may:
            if not may:
                return False
            pids = [pid for pid in sorted(d.backends()) if rng.random() < share]
            with self.world.database.cluster.connect("postgres") as admin:
                admin.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS pid", [pids])
            wait_until(lambda: not d.backends() & set(pids), 10, every=0.002, what="terminated backends to end")
            self._digest(d, set(pids))

    def cut_from_postgres(self, d, rng):
        seconds = rng.uniform(0, 2)
        with d.busy:
            with self._robbed(d) as may:
                if not may:
                    return False
                d.to_postgres.enable(False)
                self._digest(d)
            self._end.wait(seconds)
            d.to_postgres.enable(True)

    def mute_postgres(self, d, rng):
        """Nothing passes; then the connections end."""
        seconds, stream = rng.uniform(0.2, 3), rng.choice(("upstream", "downstream"))
        with d.busy:
            toxic = d.to_postgres.add("timeout", stream, timeout=0)
            self._end.wait(seconds)
            while True:
                with self._robbed(d) as may:
                    if may:
                        d.to_postgres.remove(toxic)
                        d.to_postgres.enable(False)
                        self._digest(d)
                        break
                time.sleep(0.1)
            d.to_postgres.enable(True)

    def reset_from_postgres(self, d, rng):
        seconds = rng.uniform(0, 1)
        with d.busy:
            with self._robbed(d) as may:
                if not may:
                    return False
                toxic = d.to_postgres.add("reset_peer", timeout=0)  # at the next answer: those that wait for OpenFGA go on until they ack
                self._digest(d, set())
            self._end.wait(seconds)
            d.to_postgres.remove(toxic)

    def slow_postgres(self, d, rng):
        seconds, stream, latency = rng.uniform(0.5, 4), rng.choice(("upstream", "downstream")), rng.choice((5, 50, 300))
        with d.busy:
            toxic = d.to_postgres.add("latency", stream, latency=latency, jitter=latency // 2)
            self._end.wait(seconds)
            d.to_postgres.remove(toxic)

    def _digest(self, d, pids=None):
        """After the loss of these sessions, or of all: it knows, and what it had sent is carried out."""
        d.wait_lost(pids)
        d.gate.wait_ended()

    def cut_from_fga(self, d, rng):
        seconds, lingers, cuts = rng.choice((0.1, 1, 3)) * rng.random(), rng.random() < 0.6, rng.choice((1, 1, 3))
        with d.busy, self._disturbed(d, lingers):
            for _ in range(cuts):
                if lingers:
                    self._end.wait(0.3)  # so that there is something that does
                d.to_fga.enable(False)
                self._end.wait(seconds)
                d.to_fga.enable(True)

    def toxic_to_fga(self, d, rng):
        kind, stream, attributes = rng.choice((
            ("timeout", "downstream", {"timeout": 0}),  # the answer is lost
            ("timeout", "upstream", {"timeout": 0}),
            ("timeout", "downstream", {"timeout": 300}),
            ("reset_peer", "downstream", {"timeout": 0}),
            ("reset_peer", "downstream", {"timeout": 20}),
            ("limit_data", "downstream", {"bytes": 100}),
            ("limit_data", "downstream", {"bytes": 3000}),
            ("latency", "downstream", {"latency": 200, "jitter": 150}),
            ("latency", "upstream", {"latency": 150, "jitter": 100}),
            ("bandwidth", "downstream", {"rate": 1}),
            ("slicer", "downstream", {"average_size": 5, "size_variation": 2, "delay": 2000}),
        ))
        seconds, lingers = rng.uniform(0.2, 3), rng.random() < 0.5
        with d.busy, self._disturbed(d, lingers):
            toxic = d.to_fga.add(kind, stream, **attributes)
            self._end.wait(seconds)
            d.to_fga.remove(toxic)

    @contextmanager
    def _disturbed(self, d, lingers):
        """The path from this relay to OpenFGA is disturbed in this block. lingers: and what is sent is carried out late."""
        with self._stage:
            d.gate.unsettled_until = float("inf")
        d.gate.lingers = lingers
        try:
            yield
        finally:
            d.gate.lingers = False
            d.gate.unsettled_until = 0
            d.gate.disturbed()

    # Acts on what all share

    def restart_postgres(self, rng):
        how, seconds = rng.choice((signal.SIGINT, signal.SIGQUIT)), rng.choice((0, 0.5, 2))
        cluster, drainers = self.world.database.cluster, self.world.drainers
        for d in drainers:
            d.busy.acquire()
        try:
            with self._robbed(*drainers) as may:
                if not may:
                    return False
                cluster.stop(how)
                try:
                    for d in drainers:
                        self._digest(d)
                    self._end.wait(seconds)
                finally:
                    self._begin(cluster.start)
        finally:
            for d in drainers:
                d.busy.release()

    def restart_fga(self, rng):
        seconds = rng.choice((0, 0.5, 2))
        with self._out():
            self.world.fga.stop()
            self._end.wait(seconds)
            self._begin(self.world.fga.start)

    def restart_postgres_of_fga(self, rng):
        how, seconds = rng.choice((signal.SIGINT, signal.SIGQUIT)), rng.choice((0, 0.5, 2))
        with self._out():
            self.world.fga.database.cluster.stop(how)
            self._end.wait(seconds)
            self._begin(self.world.fga.database.cluster.start)

    @contextmanager
    def _out(self):
        """OpenFGA is away in this block."""
        with self._stage:
            self._outage = True
        try:
            yield
        finally:
            with self._stage:
                for d in self.world.drainers:
                    d.gate.disturbed()
                self._outage = False

    def hold_rows(self, rng):
        """Somebody else has rows in flight for a while, and then lets them go."""
        seconds, n, skip = rng.uniform(0.1, 3), rng.choice((1, 5, 50)), rng.choice((0, 0, 3))
        database = self.world.database
        try:
            with database.cluster.connect(database.name) as other:
                other.execute("BEGIN")
                other.execute(
                    "SELECT id FROM fga_outbox WHERE processed_at IS NULL ORDER BY id OFFSET %s LIMIT %s FOR UPDATE SKIP LOCKED", [skip, n]
                )
                self._end.wait(seconds)
                other.execute("ROLLBACK")
        except self.world.away:
            return False


ON_RELAY = (
    Nemesis.kill, Nemesis.kill, Nemesis.kill, Nemesis.terminate, Nemesis.terminate_with_unknown_outcome, Nemesis.freeze, Nemesis.hangup,
    Nemesis.end_backends, Nemesis.end_backends, Nemesis.cut_from_postgres, Nemesis.mute_postgres, Nemesis.reset_from_postgres, Nemesis.slow_postgres,
    Nemesis.cut_from_fga, Nemesis.cut_from_fga, Nemesis.cut_from_fga, Nemesis.cut_from_fga, Nemesis.toxic_to_fga, Nemesis.toxic_to_fga, Nemesis.toxic_to_fga,
)
ON_ALL = (Nemesis.restart_postgres, Nemesis.restart_fga, Nemesis.restart_postgres_of_fga, Nemesis.hold_rows, Nemesis.hold_rows)
