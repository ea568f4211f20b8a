"""A client that goes on inserting, whatever becomes of Postgres."""

import threading

import psycopg

from rows import archive


class Load:
    """Inserts archives one by one until it is stopped. A row whose commit got no answer may be there or not; then its number comes
    again."""

    def __init__(self, database):
        self.database = database
        self.n = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        connection = None
        try:
            while not self._end.wait(0.002):
                try:
                    connection = connection or psycopg.connect(self.database.url, autocommit=True)
                    self.database.insert(archive(self.n), connection=connection)
                    self.n += 1
                except psycopg.OperationalError:
                    if connection is not None:
                        connection.close()
                    connection = None
        finally:
            if connection is not None:
                connection.close()

    def stop(self):
        """Returns the numbers of the archives that are certainly there."""
        self._end.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        return range(self.n)
