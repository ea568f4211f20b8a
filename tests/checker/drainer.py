"""One relay of a history, through all its lives: its links to Postgres and to OpenFGA, and the process of the moment."""

import http.client
import os
import signal
import threading

import logfmt
from gate import Gate
from process import wait_until
from relay import Relay, environment


class Sessions:
    """What a relay knows of its sessions in Postgres, and of its lanes, by its log at level debug."""

    def __init__(self, relay):
        self._relay = relay
        self._at = 0
        self._pids = {}  # connection: the process in Postgres
        self._lanes = {}  # lane: its state

    def _read_on(self):
        with open(self._relay.path, "rb") as f:
            f.seek(self._at)
            text = f.read()
        text = text[:text.rfind(b"\n") + 1]
        self._at += len(text)
        for line in text.splitlines():
            if b' msg="postgres connection" ' in line:
                said = logfmt.parse(line.decode())
                self._pids[said["connection"]] = int(said["pid"]) if said["to"] == "ready" else 0
            elif b" msg=lane " in line:
                said = logfmt.parse(line.decode())
                self._lanes[said["lane"]] = said["to"]

    def pids(self):
        """Of those that it has, as far as it knows."""
        self._read_on()
        return set(self._pids.values()) - {0}

    def has_orphans(self):
        """Whether requests of a lane whose session is lost are still in flight."""
        self._read_on()
        return "orphaned" in self._lanes.values()


class Drainer:
    """What it needs of the world: folder, fga, store, database, toxiproxy, profile."""

    def __init__(self, world, number, lanes, batch_rows):
        self.world = world
        self.name = f"relay-{number}"
        self.folder = f"{world.folder}/{self.name}"
        os.makedirs(self.folder)
        # Held while an act of the nemesis on this relay is under way.
        self.busy = threading.Lock()
        self.gate = Gate(self.name, world.fga, world.profile.settle + 0.5)
        self.to_fga = world.toxiproxy.link(self.gate.port)
        self.to_postgres = world.toxiproxy.link(world.database.cluster.port)
        profile = world.profile
        self.flags = [
            "--lanes", str(lanes), "--batch-rows", str(batch_rows), "--sweep-interval", "1s", "--min-backoff", "100ms", "--max-backoff", "3s",
            "--settle-timeout", f"{profile.settle}s", "--request-timeout", f"{profile.request}s", "--connect-timeout", "2s", "--log-level", "debug",
        ]
        self.relay = None
        self.sessions = None

    def start(self):
        database = self.world.database
        url = database.cluster.url(database.name, port=self.to_postgres.port) + f"&application_name={self.name}"
        env = environment(url, self.world.store, f"http://127.0.0.1:{self.to_fga.port}", FGA_MODEL_ID=None)
        self.relay = Relay(self.folder, *self.flags, env=env)
        self.sessions = Sessions(self.relay)

    def kill(self):
        self.relay.kill()
        self.relay.check()

    def wait_left(self):
        """Waits until nothing of it, which was killed, is on its way. The link and the gate take connections one by one, in order: once one
        of ours was taken, all of its own have been."""
        connection = http.client.HTTPConnection("127.0.0.1", self.to_fga.port, timeout=10)
        try:
            connection.request("GET", "/healthz")
            connection.getresponse().read()
        except http.client.RemoteDisconnected:
            pass  # taken all the same
        finally:
            connection.close()
        self.gate.wait_left()

    def terminate(self):
        """SIGTERM; it must end by itself, and in time. One that has only just begun would simply die of it."""
        self.notices()
        self.relay.stop(timeout=20)
        assert "did not end in time" not in self.relay.text(), f"{self.name} gave up what was in flight after SIGTERM"

    def backends(self):
        """The pids of its sessions in Postgres."""
        with self.world.database.cluster.connect("postgres") as admin:
            rows = admin.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", [self.name]).fetchall()
        return {pid for pid, in rows}

    def notices(self):
        """Waits until it has seen what has become of its connections: whoever answers twice has turned its loop in between."""
        for _ in range(2):
            wait_until(lambda: self.relay.readyz()[0] != 0, 10, what=f"{self.name} to answer its probe")

    def wait_lost(self, pids=None):
        """Waits until it knows that these sessions are lost, or all, and has its answers to what they had sent to OpenFGA."""
        def knows():
            left = self.sessions.pids()
            return not (left if pids is None else left & pids)
        wait_until(knows, 20, what=f"{self.name} to notice that sessions are lost")
        self.notices()
        wait_until(lambda: not self.sessions.has_orphans(), 20, what=f"the requests of {self.name}'s lost sessions to be answered")

    def close(self):
        """Ends it at once."""
        if self.relay is not None and self.relay.process.poll() is None:
            self.relay.signal(signal.SIGCONT)
            self.relay.kill()
        self.gate.close()
