"""The relay itself, as a process."""

import codecs
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time

import logfmt
from process import free_port, spawn, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.path.abspath(os.environ.get("RELAY_BIN", os.path.join(ROOT, "build", "dev", "relay")))

# How many times longer than the release an instrumented build may take where a test asks for speed.
PATIENCE = int(os.environ.get("RELAY_PATIENCE", 1))

# A sanitizer's report always ends the process with this code, which nothing else uses.
SANITIZER_EXIT = 99
_SANITIZER = re.compile(r"ERROR: \w+Sanitizer|: runtime error: |WARNING: \w+Sanitizer")


def environment(database=None, store=None, url=None, **extra):
    """What a relay's environment holds: nothing of ours, but what is named here. A value of None leaves a variable out."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "FGA_", "RELAY_", "DATABASE_URL", "NOTIFY_SOCKET", "WATCHDOG_"))}
    env["ASAN_OPTIONS"] = f"exitcode={SANITIZER_EXIT}:detect_leaks=1:strict_string_checks=1"
    env["UBSAN_OPTIONS"] = f"exitcode={SANITIZER_EXIT}:print_stacktrace=1"
    if database is not None:
        env["DATABASE_URL"] = database if isinstance(database, str) else database.url
    if store is not None:
        env.update(FGA_API_URL=url or store.url, FGA_STORE_ID=store.id, FGA_MODEL_ID=store.model_id)
    for name, value in extra.items():
        env.pop(name, None)
        if value is not None:
            env[name] = str(value)
    return env


def check_output(text):
    """No command may print any of these, whatever a test asks of it."""
    assert not _SANITIZER.search(text), text
    assert "assertion" not in text.lower(), text


def run(*args, env=None, timeout=60, **extra):
    """Runs a command of the relay to its end; returns subprocess's result with text. env: as from environment()."""
    done = subprocess.run(
        [BINARY, *args], env=env if env is not None else environment(**extra), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout
    )
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    check_output(done.stdout + done.stderr)
    return done


class Relay:
    """`relay run`, or what `command` says. Its log goes into a file; `log` reads it. prefix: a command that executes it in its own place,
    in another namespace, say."""

    def __init__(self, folder, *flags, env, command="run", host="127.0.0.1", port=None, prefix=()):
        self.host = host
        self.port = port or free_port(host)
        address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self.path = f"{folder}/relay-{self.port}.log"
        self.json = "json" in flags
        args = [*prefix, BINARY, command, *flags] + (["--http-listen", address] if command == "run" else [])
        with open(self.path, "wb") as stderr:
            self.process = spawn(args, env=env, stdout=subprocess.DEVNULL, stderr=stderr)

    @property
    def pid(self):
        return self.process.pid

    def text(self):
        with open(self.path, "rb") as f:
            return codecs.getincrementaldecoder("utf-8")().decode(f.read())  # a character may still be on its way

    def log(self, **fields):
        """The log's lines as dictionaries; with fields given, those that have them."""
        complete = self.text().split("\n")[:-1]
        lines = [json.loads(line) if self.json else logfmt.parse(line) for line in complete]
        return [line for line in lines if all(line.get(k) == v for k, v in fields.items())]

    def request(self, method, path, headers=None, body=None):
        """(status, headers, text) of the probe's answer."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, dict((k.lower(), v) for k, v in response.getheaders()), response.read().decode()
        finally:
            connection.close()

    def readyz(self):
        """(status, answer); (0, None) while nobody answers."""
        try:
            status, _, text = self.request("GET", "/readyz")
        except (OSError, http.client.HTTPException):
            assert self.process.poll() is None, self.text()
            return 0, None
        return status, json.loads(text)

    def ready(self):
        return self.readyz()[0] == 200

    def reasons(self):
        """What /readyz complains of, as one text."""
        return " | ".join((self.readyz()[1] or {"reasons": []})["reasons"])

    def wait_ready(self, timeout=15):
        wait_until(self.ready, timeout, what=lambda: f"/readyz: {self.readyz()[1]}; log: {self.text()[-3000:]}")
        return self

    def wait_not_ready(self, *texts, timeout=15):
        """Waits for a 503 whose reasons hold all of these texts; returns the reasons."""
        def complains():
            status, answer = self.readyz()
            reasons = " | ".join(answer["reasons"]) if status == 503 else ""
            return all(text.lower() in reasons.lower() for text in texts) and reasons
        return wait_until(complains, timeout, what=lambda: f"{texts} in /readyz: {self.readyz()[1]}; log: {self.text()[-3000:]}")

    def metrics(self):
        """{"name" or 'name{label="value"}': number}"""
        found = {}
        for line in self.request("GET", "/metrics")[2].splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                found[name] = float(value)
        return found

    def metric(self, name):
        return self.metrics()[name]

    def memory(self):
        """{"VmHWM": bytes, "RssAnon": bytes, …}: proc(5), status."""
        with open(f"/proc/{self.pid}/status") as f:
            return {k: int(v) * 1024 for k, v in re.findall(r"^(\w+):\s+(\d+) kB$", f.read(), re.M)}

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=15):
        """Waits for its end; returns the exit code."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout} s: {self.text()[-3000:]}") from None
        self.check()
        return code

    def stop(self, timeout=15):
        """Ends it as an operator does, and expects a clean end."""
        started = time.monotonic()
        self.signal(signal.SIGTERM)
        code = self.wait(timeout)
        assert code == 0, (code, self.text()[-3000:])
        return time.monotonic() - started

    def kill(self):
        self.process.kill()
        self.process.wait()

    def check(self):
        """No sanitizer's report, and nothing that the relay itself calls a bug."""
        text = self.text()
        check_output(text)
        assert not re.search(r"\bbug\b", text, re.I), text

    def close(self):
        """The end of a test: whatever still runs, or was stopped by it, must end well."""
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.stop()
        else:
            self.check()


def raw(port, data, timeout=5, host="127.0.0.1"):
    """Sends bytes to a probe as they are and returns all that comes back until it closes or is silent for `timeout` seconds."""
    with socket.create_connection((host, port), timeout=timeout) as s:
        got = b""
        try:
            s.sendall(data)
            while chunk := s.recv(65536):
                got += chunk
        except (TimeoutError, ConnectionError):
            pass
        return got
