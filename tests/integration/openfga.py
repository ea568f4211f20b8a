"""A real OpenFGA server, and stores in it."""

import http.client
import json
import os
import shutil
import ssl
import subprocess
import tempfile

from process import free_port, spawn, wait_until

# For servers that nobody holds up: what a busy machine delays is not refused.
PATIENT = ("--request-timeout", "60s")

MODEL = os.path.join(os.path.dirname(__file__), "model.json")


def _gopath():
    go = shutil.which("go") or "/usr/local/go/bin/go"
    return subprocess.run([go, "env", "GOPATH"], check=True, capture_output=True, text=True).stdout.strip()


def tool(variable, name):
    """The path of a program that `go install` put into its folder; an environment variable may name another."""
    return os.environ.get(variable) or shutil.which(name) or os.path.join(_gopath(), "bin", name)


def current():
    return tool("OPENFGA", "openfga")


def old():
    """OpenFGA 1.9.5, which does not know on_duplicate and on_missing."""
    return tool("OPENFGA_OLD", "openfga-1.9.5/openfga")


class Server:
    """OpenFGA with the memory datastore, or on Postgres when `database` is given: then what is in it survives stop() and start(). authority:
    whose certificate it shows, so that it speaks https only. port: a free one unless given."""

    def __init__(self, database=None, keys=(), flags=(), bearer=None, binary=None, authority=None, port=None):
        self.folder = tempfile.mkdtemp(prefix="relay-fga-")
        self.port = port or free_port()
        self.grpc_port = free_port()  # 1.9.5 connects to it as it is given: not 0
        self.host = "127.0.0.1"
        self.url = f"http{'s' if authority else ''}://{self.host}:{self.port}"
        self.authority = authority
        self.binary = binary or current()
        self.database = database
        self.keys = list(keys)
        self.bearer = bearer or (self.keys[0] if self.keys else None)  # what the tests' own requests show
        self.flags = list(flags)
        self.process = None
        self.log = open(f"{self.folder}/log", "ab")
        if database:
            self.migrate()
        self.start()

    def _datastore(self):
        return ["--datastore-engine", "postgres", "--datastore-uri", self.database.url] if self.database else []

    def migrate(self):
        """Makes the tables, or brings them up to what `binary` needs."""
        subprocess.run([self.binary, "migrate", *self._datastore(), "--log-level", "error"], check=True, stdout=self.log, stderr=self.log)

    def start(self):
        assert self.process is None
        args = [
            self.binary, "run", "--http-addr", f"{self.host}:{self.port}", "--grpc-addr", f"{self.host}:{self.grpc_port}", "--metrics-enabled=false",
            "--playground-enabled=false", "--log-level", "error", *self._datastore(), *self.flags,
        ]
        if self.authority:
            args += ["--http-tls-enabled", "--http-tls-cert", self.authority.certificate, "--http-tls-key", self.authority.key]
        if self.keys:
            args += ["--authn-method", "preshared", "--authn-preshared-keys", ",".join(self.keys)]
        self.process = spawn(args, stdout=self.log, stderr=self.log, cwd=self.folder)
        wait_until(self._answers, 30, what="OpenFGA to start")

    def _answers(self):
        assert self.process.poll() is None, open(f"{self.folder}/log").read()[-2000:]
        try:
            return self.request("GET", "/healthz")[0] == 200
        except OSError:
            return False

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def close(self):
        if self.process is not None:
            self.stop()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def request(self, method, path, body=None):
        """(status, answer)"""
        if self.authority:
            trusted = ssl.create_default_context(cafile=self.authority.ca)
            connection = http.client.HTTPSConnection(self.host, self.port, timeout=30, context=trusted)
        else:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        headers = {"Content-Type": "application/json"}
        if self.bearer:
            headers["Authorization"] = f"Bearer {self.bearer}"
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read() or "null")
        finally:
            connection.close()

    def create_store(self, name="test", model=True):
        status, answer = self.request("POST", "/stores", {"name": name})
        assert status == 201, answer
        store = Store(self, answer["id"])
        if model:
            store.write_model()
        return store

    def analyze(self):
        """What autovacuum does by itself in time; without statistics every Write into a new store reads all of it."""
        with self.database.cluster.connect(self.database.name) as connection:
            connection.execute("ANALYZE tuple")


class Store:
    def __init__(self, server, id):
        self.server = server
        self.id = id
        self.model_id = None

    @property
    def url(self):
        return self.server.url

    def post(self, path, body):
        status, answer = self.server.request("POST", f"/stores/{self.id}/{path}", body)
        assert status in (200, 201), answer
        return answer

    def write_model(self, change=None):
        """Writes the test model, after change(model) where given; the latest one is model_id."""
        with open(MODEL) as f:
            model = json.load(f)
        if change:
            change(model)
        self.model_id = self.post("authorization-models", model)["authorization_model_id"]
        return self.model_id

    def tuples(self, **key):
        """The stored tuples, all or those that match, as a set of (user, relation, object)."""
        return {(t["user"], t["relation"], t["object"]) for t in self.keys(**key)}

    def keys(self, **key):
        """The stored tuple keys as OpenFGA answers them, with their conditions."""
        found, token = [], ""
        while True:
            body = {"page_size": 100, "continuation_token": token, "consistency": "HIGHER_CONSISTENCY"}
            if key:
                body["tuple_key"] = key
            answer = self.post("read", body)
            found += [t["key"] for t in answer["tuples"]]
            token = answer["continuation_token"]
            if not token:
                return found

    def has(self, user, relation, object):
        return bool(self.keys(user=user, relation=relation, object=object))

    def check(self, user, relation, object):
        key = {"user": user, "relation": relation, "object": object}
        return self.post("check", {"tuple_key": key, "consistency": "HIGHER_CONSISTENCY"})["allowed"]

    def write(self, *tuples):
        self.post("write", {"writes": {"tuple_keys": [dict(zip(("user", "relation", "object"), t)) for t in tuples]}})

    def delete(self):
        status, answer = self.server.request("DELETE", f"/stores/{self.id}")
        assert status == 204, answer
