"""An application: a thread that changes tuples, and records each change as a row of the outbox in the same transaction.

It locks what it changes (its own rows, in sorted order) before it draws the outbox id, as an application must whose order is to be kept.
Everything it does is drawn from the seed, its own number and that of the step, so a step is the same whatever became of others."""

import json
import random
import threading
import time

import psycopg

import subject

SCHEMA = """
CREATE TABLE subject (name text PRIMARY KEY, state text);
CREATE TABLE ledger (id bigint PRIMARY KEY, kind text NOT NULL);
"""

# kind of row: weight. good: any; large: more tuples than a request takes; sick: refused until a later model; bad: refused for ever;
# crowd: hundreds of rows without tuples at once, so that relays are busy, hush the trigger and move their horizon.
KINDS = {"hot": 80, "mixed": 8, "archive": 15, "large": 3, "empty": 1, "sick": 1, "bad": 2.5, "crowd": 1.5}
CROWD = "WITH made AS (INSERT INTO fga_outbox (payload) SELECT '{}' FROM generate_series(1, %s) RETURNING id) INSERT INTO ledger SELECT id, 'crowd' FROM made"


def name_of(tuple_):
    return " ".join(tuple_)


class Writer:
    """epoch(): the number of the type that no model knows yet."""

    def __init__(self, database, seed, number, epoch, pause):
        self.database = database
        self.seed = seed
        self.number = number
        self.epoch = epoch
        self.pause = pause
        self.failure = None
        self.steps = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self):
        self._end.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self.failure:
            raise self.failure

    def _run(self):
        connection = None
        try:
            while not self._end.is_set():
                try:
                    connection = connection or psycopg.connect(self.database.url)
                    self._step(connection, random.Random(f"{self.seed}/writer {self.number}/{self.steps}"))
                    self.steps += 1
                except psycopg.OperationalError:
                    # The server is away. Committed or not, the next step reads what is there.
                    if connection is not None:
                        connection.close()
                    connection = None
                    self.steps += 1
                    self._end.wait(0.05)
        except Exception as e:
            self.failure = e
        finally:
            if connection is not None:
                connection.close()

    def _step(self, connection, rng):
        rows = [self._draw(rng, n) for n in range(rng.choice((1, 1, 1, 2, 5)))]
        touched = sorted({name_of(t) for _, tuples, _ in rows for t in tuples})
        delay = rng.choice((0, 0, 0.002, 0.01, 0.05)) if rng.random() < 0.97 else 0.5
        rolls_back = rng.random() < 0.08
        states = dict(connection.execute("SELECT name, state FROM subject WHERE name = ANY(%s) ORDER BY name FOR UPDATE", [touched]).fetchall())
        assert len(states) == len(touched)
        for kind, tuples, make in rows:
            if kind == "crowd":
                connection.execute(CROWD, [rng.randrange(200, 800)])
                continue
            if kind not in ("sick", "bad"):
                payload = self._change(tuples, states, rng)
            elif kind == "sick":
                payload = self._change(tuples, states, rng)
                payload.setdefault("writes", []).append(make())
            else:
                payload = make()
            if kind == "archive":
                payload = make()
            id = connection.execute("INSERT INTO fga_outbox (payload) VALUES (%s::jsonb) RETURNING id", [json.dumps(payload)]).fetchone()[0]
            connection.execute("INSERT INTO ledger VALUES (%s, %s)", [id, kind])
            if rng.random() < 0.3:
                time.sleep(delay)
        connection.execute(
            "UPDATE subject AS s SET state = x.state FROM unnest(%s::text[], %s::text[]) AS x (name, state) WHERE s.name = x.name",
            [touched, [states[n] for n in touched]],
        )
        time.sleep(delay)
        if rolls_back:
            connection.rollback()
        else:
            connection.commit()
        self._end.wait(rng.uniform(0, 2 * self.pause))

    def _draw(self, rng, n):
        """(kind, the tuples it changes, what makes the rest of it)"""
        kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
        unique = f"{self.number}x{self.steps}x{n}"
        if kind == "hot":
            return kind, rng.sample(subject.HOT, rng.choice((1, 1, 2, 3, 5))), None
        if kind == "mixed":
            return kind, rng.sample(subject.HOT, 1) + rng.sample(subject.COLD, rng.randrange(1, 20)), None
        if kind == "large":
            return kind, rng.sample(subject.COLD, rng.randrange(101, 230)) + rng.sample(subject.HOT, rng.randrange(3)), None
        if kind == "sick":
            epoch = self.epoch()
            return kind, rng.sample(subject.HOT, 1), lambda: subject.key(("user:s", "pilot", f"starship{epoch}:{unique}"))
        if kind == "bad":
            bad = rng.choice(BAD)
            return kind, [], lambda: bad(unique, rng)
        if kind == "archive":
            job, archive = f"capture_job:{unique}", f"archive:{unique}"
            return kind, [], lambda: {"writes": [subject.key((job, "parent", archive)), subject.key(("organization:acme", "parent", job))]}
        return kind, [], None

    def _change(self, tuples, states, rng):
        """A payload that OpenFGA takes when the tuples are in these states; they become what it leaves behind."""
        payload = {}
        for t in tuples:
            name, draw = name_of(t), rng.random()
            state, wanted = states[name], rng.choice(("",) * 3 + subject.YEARS)
            if draw < 0.4:
                payload.setdefault("deletes", []).append(subject.key(t))
                states[name] = None
            elif state is None or draw < 0.5:
                # What is there already is written once more.
                states[name] = wanted if state is None else state
                payload.setdefault("writes", []).append(subject.key(t, states[name]))
                if draw > 0.95:
                    payload["writes"].append(subject.key(t, states[name]))
            else:
                # The way to change a condition: deleted and written in one row.
                payload.setdefault("deletes", []).append(subject.key(t))
                payload.setdefault("writes", []).append(subject.key(t, wanted))
                states[name] = wanted
        return payload


def _writes(*tuples):
    return {"writes": [subject.key(t) for t in tuples]}


# Refused for ever, by relay itself or by OpenFGA. A row that can be read must not name a tuple of another row: that would wait.
BAD = (
    lambda u, rng: _writes((f"spaceship:{u}", "parent", f"archive:{u}")),
    lambda u, rng: _writes((f"user:{u}", "pilot", f"archive:{u}")),
    lambda u, rng: _writes((f"user:{u}", "viewer", f"archive:{u}"), (f"capture_job:{u}", "viewer", f"archive:{u}")),
    lambda u, rng: {"writes": [{**subject.key((f"user:{u}", "viewer", f"archive:{u}")), "condition": {"name": "unheard_of", "context": {}}}]},
    lambda u, rng: {"writes": [subject.key(rng.choice(subject.FIXED), "2039")]},
    lambda u, rng: {"write": [subject.key(rng.choice(subject.HOT))]},
    lambda u, rng: {"writes": [{"user": "user:h1", "object": "archive:hot"}]},
    lambda u, rng: {"deletes": [subject.key(rng.choice(subject.HOT))], "writes": "none"},
    lambda u, rng: [subject.key(rng.choice(subject.HOT))],
)
