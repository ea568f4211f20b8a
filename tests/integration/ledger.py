"""The ledger's own drainer: claims up to 100 rows, sends one Write a row, updates each, commits. It may run beside any number of relays."""

import http.client
import json
import threading
from urllib.parse import urlsplit

import psycopg


class Ledger:
    CLAIM = "SELECT id, payload FROM fga_outbox WHERE processed_at IS NULL ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 100"

    def __init__(self, database, store, url=None):
        self.database = database
        self.store = store
        self.address = urlsplit(url or store.url)
        self.delivered = 0
        self.failure = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self):
        """Ends the loop after the pass it is in; fails the test if the loop failed."""
        self._end.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self.failure:
            raise self.failure

    def _run(self):
        http_connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=30)
        try:
            with psycopg.connect(self.database.url) as connection:
                while not self._end.is_set():
                    if self._pass(connection, http_connection) == 0:
                        self._end.wait(0.05)
        except Exception as failure:
            self.failure = failure
        finally:
            http_connection.close()

    def _pass(self, connection, http_connection):
        with connection.transaction():
            rows = connection.execute(self.CLAIM).fetchall()
            for id, payload in rows:
                self._write(http_connection, payload)
                connection.execute("UPDATE fga_outbox SET processed_at = now() WHERE id = %s", [id])
        self.delivered += len(rows)
        return len(rows)

    def _write(self, http_connection, payload):
        body = {"authorization_model_id": self.store.model_id, "writes": {"tuple_keys": payload["writes"], "on_duplicate": "ignore"}}
        http_connection.request("POST", f"/stores/{self.store.id}/write", json.dumps(body), {"Content-Type": "application/json"})
        response = http_connection.getresponse()
        answer = response.read()
        assert response.status == 200, answer
