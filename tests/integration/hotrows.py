"""Rows that set and take away the same few tuples again and again, and what must be left of them."""

import random

from rows import archive, archive_tuples, deletes, viewer, writes

HOT = [viewer(f"u{n}", "hot") for n in range(4)]


class HotRows:
    """Inserts rows into a database and knows what OpenFGA must hold when all are delivered in the order of their ids."""

    def __init__(self, database, seed=1):
        self.database = database
        self.rng = random.Random(seed)
        self.expected = set()
        self.archives = 0

    def insert(self, n, connection=None):
        """n rows: every other one an archive, and the others on the hot tuples. Returns their ids."""
        payloads = []
        for i in range(n):
            if i % 2:
                payloads.append(self._archive())
                continue
            t = self.rng.choice(HOT)
            payloads.append(deletes(t) if t in self.expected else writes(t))
            self.expected ^= {t}
        return self.database.insert(*payloads, connection=connection)

    def insert_archives(self, n):
        """n rows that have no tuple in common."""
        return self.database.insert(*[self._archive() for _ in range(n)])

    def _archive(self):
        number = self.archives
        self.archives += 1
        self.expected |= set(archive_tuples(number))
        return archive(number)
