"""An HTTP proxy in front of OpenFGA that keeps every Write, and can answer, delay or lose one in the server's place."""

import http.client
import json
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field

from process import free_port
from rows import tuples_of


@dataclass
class Reply:
    """An answer in OpenFGA's place."""

    status: int = 200
    body: str = "{}"
    headers: dict = field(default_factory=lambda: {"Content-Type": "application/json"})


class Raw(Exception):
    """Raised by a hook: these bytes are the answer, as they stand, and then the connection is closed. `parts`: bytes, or an iterable of
    them, which may be endless and take its time; it ends when the client is gone."""

    def __init__(self, parts):
        super().__init__()
        self.parts = [parts] if isinstance(parts, bytes) else parts


class Drop(Exception):
    """Raised by a hook: close the connection; the server never sees the request."""


class Lose(Exception):
    """Raised by a hook: let the server carry the request out, then close the connection without an answer."""


@dataclass
class Exchange:
    """A request and, once it is there, its answer."""

    method: str
    path: str
    headers: dict
    body: bytes
    at: float
    status: int = 0
    answer: bytes = b""

    @property
    def is_write(self):
        return self.method == "POST" and self.path.endswith("/write")

    @property
    def is_probe(self):
        """A Write that asks only whether writing works: it deletes a tuple that cannot exist."""
        return self.is_write and b"probe:" in self.body

    @property
    def tuples(self):
        return tuples_of(self.body)

    @property
    def deleted(self):
        return tuples_of(self.body, "deletes")


class Proxy:
    """Listens on a port of its own. `hook(exchange)`, where set, may return a Reply, raise Drop or Lose, or return None: then the
    request goes to the server. It runs in a thread of its connection, so it may wait."""

    def __init__(self, upstream_port=None, tls=None, host="127.0.0.1"):
        self.upstream_port = upstream_port
        self.hook = None
        self.exchanges = []
        self.port = free_port(host)
        self.listener = socket.create_server((host, self.port), backlog=64)
        self.tls = tls
        self.url = f"{'https' if tls else 'http'}://{host}:{self.port}"
        self.open = set()
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # close() alone leaves accept() waiting, and the port open
        except OSError:
            pass
        self.listener.close()
        self.cut()

    def cut(self):
        """Closes every connection."""
        for s in list(self.open):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    @property
    def writes(self):
        """Every Write that carries rows' tuples, in the order of arrival."""
        return [e for e in list(self.exchanges) if e.is_write and not e.is_probe]

    def sent(self):
        """The tuples of all Writes that the server accepted, one after the other."""
        return [t for e in self.writes if e.status == 200 for t in e.tuples]

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            self.open.add(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        upstream = None
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls:
                self.open.discard(client)
                client = self.tls.wrap_socket(client, server_side=True)
                self.open.add(client)
            reader = client.makefile("rb")
            while True:
                head = _read_head(reader)
                if head is None:
                    return
                method, path = head[0].split(" ")[:2]
                headers = head[1]
                exchange = Exchange(method, path, headers, _read_body(reader, headers), time.monotonic())
                self.exchanges.append(exchange)
                lose = False
                try:
                    hook = self.hook  # a test may take it away at any time
                    reply = hook(exchange) if hook else None
                except Drop:
                    return
                except Raw as raw:
                    for part in raw.parts:
                        client.sendall(part)
                    return
                except Lose:
                    reply, lose = None, True
                if reply is None:
                    upstream = upstream or _connect(self.upstream_port)
                    reply = _forward(upstream, exchange)
                exchange.answer = reply.body.encode()
                exchange.status = reply.status
                if lose:
                    return
                client.sendall(_message(reply))
        except (OSError, ssl.SSLError, http.client.HTTPException):
            return
        finally:
            self.open.discard(client)
            if upstream:
                upstream[0].close()
            client.close()


def _connect(port):
    s = socket.create_connection(("127.0.0.1", port), timeout=60)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s, s.makefile("rb")


def _forward(upstream, exchange):
    s, reader = upstream
    headers = "".join(f"{k}: {v}\r\n" for k, v in exchange.headers.items())
    s.sendall(f"{exchange.method} {exchange.path} HTTP/1.1\r\n{headers}\r\n".encode("latin-1") + exchange.body)
    head = _read_head(reader)
    if head is None:
        raise OSError("OpenFGA closed the connection")
    body = b"" if exchange.method == "HEAD" else _read_body(reader, head[1])
    kept = {k: v for k, v in head[1].items() if k not in ("transfer-encoding", "content-length")}
    return Reply(int(head[0].split(" ")[1]), body.decode(), kept)


def _message(reply):
    body = reply.body.encode()
    headers = "".join(f"{k}: {v}\r\n" for k, v in reply.headers.items())
    reason = http.client.responses.get(reply.status, "Status")
    return f"HTTP/1.1 {reply.status} {reason}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body


def _line(reader):
    line = reader.readline()
    if not line.endswith(b"\n"):
        raise OSError("the connection ended in the middle of a message")
    return line


def _read(reader, n):
    body = reader.read(n)
    if len(body) < n:
        raise OSError("the connection ended in the middle of a message")
    return body


def _read_head(reader):
    """(first line, headers with lower-case names), or None at the end of the connection."""
    first = reader.readline()
    if not first.strip():
        return None
    headers = {}
    while (line := _line(reader).decode("latin-1").strip()) != "":
        name, value = line.split(":", 1)
        headers[name.lower()] = value.strip()
    return first.decode("latin-1").strip(), headers


def _read_body(reader, headers):
    if headers.get("transfer-encoding") == "chunked":
        chunks = []
        while size := int(_line(reader), 16):
            chunks.append(_read(reader, size))
            _line(reader)
        _line(reader)
        return b"".join(chunks)
    return _read(reader, int(headers.get("content-length", 0)))


def refusal(status, code, message, **headers):
    """An error as OpenFGA words it."""
    return Reply(status, json.dumps({"code": code, "message": message}), {"Content-Type": "application/json", **headers})
