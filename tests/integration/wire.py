"""A TCP forwarder in front of Postgres that understands its protocol, so that a test can have something happen at one exact message."""

import queue
import socket
import struct
import threading

from process import free_port

# PostgreSQL, "Message Formats": what a client sends, and what the server ends a statement with.
PARSE, BIND, EXECUTE, SYNC = b"P", b"B", b"E", b"S"
COMPLETE, EMPTY, SUSPENDED = b"C", b"I", b"s"


class Session:
    """One connection through it. `executed` are the statements that the server has not answered yet, by their prepared names."""

    def __init__(self, client, server):
        self.client = client
        self.server = server
        self.bound = ""
        self.trip = []
        self.executed = queue.SimpleQueue()
        self.passes = {"client": True, "server": True}  # whether what this side sends arrives

    def shut(self, *sockets):
        for s in sockets or (self.client, self.server):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        self.shut()

    def reset(self):
        """Both ends get a RST: closed at once, when the readers have let go of it."""
        self.mute()
        for s in (self.client, self.server):
            try:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.shutdown(socket.SHUT_RD)  # the readers end, and nothing is sent
                s.close()
            except OSError:
                pass

    def orphan(self):
        """The client sees the connection gone; the server hears nothing of it."""
        self.passes = {"client": False, "server": False}
        self.shut(self.client)

    def mute(self, *sides):
        """Nothing that these sides (or both) send arrives any more, and nothing is closed."""
        for side in sides or ("client", "server"):
            self.passes[side] = False


class Message:
    """kind: the letter; b"" for the first one. name: the statement that a Bind or Execute, or the answer to it, is about. trip, of a Sync:
    all statements of the round trip that it ends."""

    def __init__(self, session, side, kind, body):
        self.session = session
        self.side = side
        self.kind = kind
        self.body = body
        self.name = ""
        self.trip = []

    @property
    def rows(self):
        """How many rows a SELECT has answered with."""
        return int(self.body.rstrip(b"\0").split()[-1]) if self.body.startswith(b"SELECT") else 0


def _keep_alive(s):
    """Notices within seconds that the other end is gone, as a server with tcp_keepalives_idle does in time."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 2), (socket.TCP_USER_TIMEOUT, 2000)):
        s.setsockopt(socket.IPPROTO_TCP, option, value)


class Wire:
    """Listens on a port of its own. `hook(message)`, where set, is called before a message is passed on, and `after(message)` behind it;
    they may act on message.session."""

    def __init__(self, port, host="127.0.0.1"):
        self.upstream = port
        self.hook = None
        self.after = None
        self.sessions = []
        self.port = free_port(host)
        self.listener = socket.create_server((host, self.port), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()
        for session in self.sessions:
            session.shut()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.upstream), timeout=30)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            for s in (client, server):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _keep_alive(s)
            session = Session(client, server)
            self.sessions.append(session)
            for side in ("client", "server"):
                threading.Thread(target=self._pump, args=(session, side), daemon=True).start()

    def _pump(self, session, side):
        here, there = (session.client, session.server) if side == "client" else (session.server, session.client)
        reader = here.makefile("rb")
        first = side == "client"
        try:
            while True:
                kind = b"" if first else reader.read(1)
                length = reader.read(4)
                if len(length) < 4:
                    break
                body = reader.read(struct.unpack("!I", length)[0] - 4)
                first = False
                message = Message(session, side, kind, body)
                self._name(message)
                if self.hook:
                    self.hook(message)
                if session.passes[side]:
                    there.sendall(kind + length + body)
                if self.after:
                    self.after(message)
        except (OSError, ValueError):
            pass
        reader.close()
        if session.passes[side]:
            session.shut(there)

    def _name(self, message):
        session = message.session
        if message.side == "client":
            if message.kind == BIND:
                session.bound = message.body.split(b"\0")[1].decode()
                session.trip.append(session.bound)
            if message.kind == EXECUTE:
                session.executed.put(session.bound)
            if message.kind == SYNC:
                message.trip, session.trip = session.trip, []
            message.name = session.bound
        elif message.kind in (COMPLETE, EMPTY, SUSPENDED):
            message.name = session.executed.get()
