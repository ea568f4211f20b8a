"""Toxiproxy (https://github.com/Shopify/toxiproxy): a TCP proxy whose links a test can slow, cut or let hang."""

import http.client
import json
import subprocess

from openfga import tool
from process import free_port, spawn, wait_until


class Toxiproxy:
    def __init__(self):
        self.port = free_port()
        self.process = spawn(
            [tool("TOXIPROXY", "server"), "-host", "127.0.0.1", "-port", str(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.links = 0
        wait_until(self._answers, 10, what="toxiproxy to start")

    def _answers(self):
        assert self.process.poll() is None
        try:
            return self.request("GET", "/proxies") is not None
        except OSError:
            return False

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None)
            response = connection.getresponse()
            text = response.read()
            assert response.status < 300, text
            return json.loads(text or "true")
        finally:
            connection.close()

    def link(self, port, at=None):
        """A link to a port of this machine; at: the address and port where it listens."""
        self.links += 1
        return Link(self, f"link{self.links}", port, at or ("127.0.0.1", free_port()))

    def close(self):
        self.process.kill()
        self.process.wait()


class Link:
    def __init__(self, toxiproxy, name, port, at):
        self.toxiproxy = toxiproxy
        self.name = name
        self.port = at[1]
        listen = f"{at[0]}:{at[1]}"
        toxiproxy.request("POST", "/proxies", {"name": name, "listen": listen, "upstream": f"127.0.0.1:{port}", "enabled": True})

    def enable(self, enabled):
        """Disabled: every connection is closed, new ones are refused."""
        self.toxiproxy.request("POST", f"/proxies/{self.name}", {"enabled": enabled})

    def add(self, kind, stream="downstream", **attributes):
        """kind: latency, timeout (0: nothing passes, nothing is closed), reset_peer, limit_data, … Returns its name."""
        toxic = f"{kind}_{stream}"
        self.toxiproxy.request("POST", f"/proxies/{self.name}/toxics", {"name": toxic, "type": kind, "stream": stream, "attributes": attributes})
        return toxic

    def remove(self, toxic):
        self.toxiproxy.request("DELETE", f"/proxies/{self.name}/toxics/{toxic}")
