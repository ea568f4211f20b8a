"""What stands between one relay and OpenFGA: it passes every request on, knows which are under way, and can hold new ones back."""

import http.client
import random
import threading
import time

from process import wait_until
from proxy import Drop, Proxy, Reply

# Seconds; together with a slow network and OpenFGA's own deadline they stay below the settle time.
HOLD_MAX = 0.7
LINGER_MAX = 0.8


class Gate:
    """port: where it listens. A request whose client is gone is carried out all the same, as it may be in life."""

    def __init__(self, name, server, settle):
        self.name = name
        self.server = server
        self.settle = settle
        self.lingers = False  # Writes are carried out late, whatever has become of their clients meanwhile
        self.unsettled_until = 0.0  # until then a request whose outcome its relay does not know may have a say
        self._proxy = Proxy()
        self._proxy.hook = self._pass_on
        self.port = self._proxy.port
        self._local = threading.local()
        self._lock = threading.Lock()
        self._under_way = set()
        self._passing = threading.Event()
        self._passing.set()
        self.journal = []  # (begun, ended, relay, status, body) of every Write

    def close(self):
        self._passing.set()
        self._proxy.close()

    def hold(self):
        self._passing.clear()

    def release(self):
        self._passing.set()

    def disturbed(self):
        """The outcome of what is under way may remain unknown to the relay: it settles from now on."""
        self.unsettled_until = max(self.unsettled_until, time.monotonic() + self.settle)

    def is_settled(self):
        return self.unsettled_until < time.monotonic()

    def wait_ended(self, timeout=10):
        """Waits for the end of all that is under way now, not for what comes later."""
        with self._lock:
            now = set(self._under_way)
        wait_until(lambda: not now & self._under_way, timeout, every=0.002, what="requests under way to end")

    def wait_left(self, timeout=10):
        """Waits until its relay, which was killed, has left nothing behind: neither a request nor bytes on their way."""
        wait_until(lambda: not self._proxy.open, timeout, every=0.002, what="the killed relay's connections to end")

    def _pass_on(self, exchange):
        with self._lock:
            self._under_way.add(id(exchange))
        try:
            return self._carry_out(exchange)
        finally:
            with self._lock:
                self._under_way.discard(id(exchange))

    def _carry_out(self, exchange):
        if not self._passing.wait(HOLD_MAX):
            self.disturbed()
            raise Drop
        begun = time.time()
        status = 0
        try:
            if self.lingers and exchange.is_write:
                time.sleep(random.uniform(0, LINGER_MAX))
            status, text = self._ask(exchange)
        except (OSError, http.client.HTTPException):
            self._local.connection = None
            self.disturbed()
            raise Drop from None
        finally:
            if status >= 500:
                self.disturbed()
            if exchange.is_write and not exchange.is_probe:
                self.journal.append((begun, time.time(), self.name, status, exchange.body))
        return Reply(status, text)

    def _ask(self, exchange):
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=30)
        connection.request(exchange.method, exchange.path, exchange.body or None, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode()
