"""One history: the parts, the writers, the nemesis, the end, and the audit."""

import os
import random
import shutil
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException

import psycopg

import audit
import relay as relay_module
import subject
import writer
from drainer import Drainer
from nemesis import Nemesis
from openfga import Server
from postgres import Cluster
from process import wait_until
from toxiproxy import Toxiproxy

# Rows of which it is certain before the end that something is wrong with them, and rows that are still to be delivered or refused.
WRONG = (
    "SELECT count(*) FROM fga_outbox JOIN ledger USING (id)"
    " WHERE attempts > 0 AND kind NOT IN ('bad', 'sick') OR processed_at IS NOT NULL AND kind = 'bad'"
)
LEFT = "SELECT count(*) FROM fga_outbox JOIN ledger USING (id) WHERE processed_at IS NULL AND (kind <> 'bad' OR attempts = 0)"

PATIENCE = 20  # seconds without any progress before it is said that there is none

EPOCHS = 3  # how often a model comes that heals what was refused


@dataclass(frozen=True)
class Profile:
    """Settings that belong together, in seconds: OpenFGA's own deadline, and what the relays are told of it."""

    name: str
    fga_flags: tuple
    settle: int
    request: int


PROFILES = (
    Profile("quick", ("--request-timeout", "0s", "--http-upstream-timeout", "1s", "--listObjects-deadline", "1s", "--listUsers-deadline", "1s"), 3, 5),
    Profile("default", (), 6, 10),
)


class Parts:
    """What histories share: servers. Each history has a database and a store of its own."""

    def __init__(self):
        self.postgres = Cluster()
        self.postgres_of_fga = Cluster()
        self.fga = Server(database=self.postgres_of_fga.create(prefix="openfga"))
        self.fga.database.execute(audit.SCHEMA)
        self.fga.database.reconnect()
        self.toxiproxy = Toxiproxy()
        self.starter = ThreadPoolExecutor(1)

    def close(self):
        self.toxiproxy.close()
        self.fga.close()
        self.postgres_of_fga.close()
        self.postgres.close()
        self.starter.shutdown()


class History:
    """seconds: how long it goes wrong. lanes: a number for all relays; None draws. folder: where evidence is kept."""

    away = psycopg.OperationalError

    def __init__(self, parts, seed, seconds, lanes=None, folder=None):
        rng = random.Random(f"{seed}/history")
        self.seed = seed
        self.seconds = seconds
        self.profile = rng.choice(PROFILES[:1] * 3 + PROFILES[1:])
        self.folder = tempfile.mkdtemp(prefix=f"relay-check-{seed}-", dir=folder)
        self.notes = []
        self.epoch = 0
        self.toxiproxy = parts.toxiproxy
        self.starter = parts.starter
        self.fga = parts.fga
        self.fga.stop()
        self.fga.flags = list(self.profile.fga_flags)
        self.fga.start()
        self.store = self.fga.create_store()
        self.database = parts.postgres.create(prefix="history")
        self.database.create_outbox()
        done = relay_module.run("install", database=self.database)
        assert done.returncode == 0, done.stderr
        self.database.execute(writer.SCHEMA)
        names = [[writer.name_of(t), None] for t in subject.HOT + subject.COLD] + [[writer.name_of(t), subject.FIXED_STATE] for t in subject.FIXED]
        with self.database.connection.cursor() as cursor:
            cursor.executemany("INSERT INTO subject VALUES (%s, %s)", names)
        fixed, = self.database.insert({"writes": [subject.key(t, subject.FIXED_STATE) for t in subject.FIXED]})
        self.database.execute("INSERT INTO ledger VALUES (%s, 'fixed')", fixed)
        self.shape = [(lanes or rng.choice((1, 2, 4, 8)), rng.choice((3, 20, 100))) for _ in range(rng.choice((1, 2, 2, 3, 4)))]
        self.writers_n, self.pause, self.rate = rng.choice((2, 4, 8)), rng.choice((0.01, 0.03, 0.1)), rng.choice((0.3, 1, 3))
        self.drainers = [Drainer(self, n + 1, *shape) for n, shape in enumerate(self.shape)]
        self.nemesis = None
        self.counts = {}
        self._wrong = False

    def describe(self):
        relays = ", ".join(f"{lanes} lanes of {rows} rows" for lanes, rows in self.shape)
        return f"seed {self.seed}: {self.profile.name}; {len(self.shape)} relays: {relays}; {self.writers_n} writers"

    def note(self, started, text):
        self.notes.append((started, time.time(), text))

    def play(self):
        """Returns the violations, a list of texts."""
        try:
            self._play()
            found = audit.Audit(self.database, self.store, [d.gate for d in self.drainers])
            self.counts = found.counts
            return found.violations + self._late
        except AssertionError:
            return [f"the history did not come to its end: {traceback.format_exc()}"]

    def _play(self):
        for d in self.drainers:
            d.start()
        for d in self.drainers:
            d.relay.wait_ready()
        self.database.wait_delivered(timeout=20)
        writers = [writer.Writer(self.database, self.seed, n, lambda: self.epoch, self.pause) for n in range(self.writers_n)]
        self.nemesis = Nemesis(self, self.seed, self.rate)
        try:
            for _ in range(EPOCHS):
                until = time.monotonic() + self.seconds / EPOCHS
                wait_until(lambda: time.monotonic() >= until or self.nemesis.failures or self._is_wrong(), self.seconds + 30, every=0.2)
                self._heal()
        finally:
            self.nemesis.stop()
            for w in writers:
                w.stop()
        self._heal()
        self._late = self._drain()
        for d in self.drainers:
            d.terminate()
            d.gate.wait_ended()

    def _heal(self):
        """A model that knows one type more: what was refused for it is good from now on."""
        known = self.epoch = self.epoch + 1

        def with_starships(model):
            for n in range(known):
                model["type_definitions"].append({
                    "type": f"starship{n}", "relations": {"pilot": {"this": {}}},
                    "metadata": {"relations": {"pilot": {"directly_related_user_types": [{"type": "user"}]}}},
                })

        answers = []

        def writes():
            try:
                self.store.write_model(with_starships)
                return True
            except (OSError, HTTPException, AssertionError) as e:  # it is away
                answers.append(str(e))
                return False

        wait_until(writes, 30, every=0.1, what=lambda: f"OpenFGA to take a model: {answers[-1]}")

    def _ask(self, sql):
        """A number; 0 while Postgres is away."""
        try:
            return self.database.value(sql)
        except self.away:
            self.database.reconnect()
            return 0

    def _is_wrong(self):
        """Whether it is seen already that something is wrong: then there is no use in going on."""
        self._wrong = self._wrong or self._ask(WRONG) > 0
        return self._wrong

    def _drain(self):
        """Waits until all that can be delivered is, and every bad row was refused; returns violations when that comes to a standstill."""
        self.database.reconnect()
        patience = 3 if self._is_wrong() else PATIENCE
        left, since = self._ask(LEFT), time.monotonic()
        while left > 0 and time.monotonic() < since + patience:
            time.sleep(0.1)
            now = self._ask(LEFT)
            if now < left:
                left, since = now, time.monotonic()
        if left == 0:
            return []
        reasons = {d.name: d.relay.readyz() for d in self.drainers}
        return [f"nothing is delivered any more, and {left} rows are left; /readyz: {reasons}"]

    def close(self, keep, violations=()):
        for d in self.drainers:
            d.close()
        try:
            self.database.close()
        except psycopg.OperationalError:
            pass  # the server is what is wrong, and has been told
        if keep:
            with open(f"{self.folder}/violations", "w") as f:
                f.writelines(f"{text}\n" for text in violations)
            with open(f"{self.folder}/nemesis", "w") as f:
                f.writelines(f"{started:.3f} {ended:.3f} {text}\n" for started, ended, text in sorted(self.notes))
        else:
            shutil.rmtree(self.folder)
