"""What the documents speak of, for real: Postgres on the host db, OpenFGA on openfga, relay on relay, each at its usual port, in a network of
its own (network_namespaces(7)), with names and secrets that only the documents' commands see (mount_namespaces(7)). Only root may make it."""

import ctypes
import os
import re
import shlex
import shutil
import signal
import subprocess
from contextlib import contextmanager

import openfga
from issuer import AUDIENCE, SECRET, Issuer, Signer
from pgbouncer import Pgbouncer
from postgres import Cluster, Database
from process import libc, spawn, wait_until
from relay import BINARY, Relay, check_output, environment
from rows import archive
from tls import Authority

CLONE_NEWNET = 0x40000000
HOSTS = """
127.0.0.1 localhost db db2 openfga relay pgbouncer issuer.example
127.0.0.2 db1
"""
ENTER = 'mount --bind "$0/hosts" /etc/hosts && mount --bind "$0/run" /run && exec "$@"'
PORT = 8090
RELAYS = "postgres://relay@db/ledger"


def _check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Network:
    """With nothing in it but a loopback device: every port is free."""

    def __init__(self):
        self.outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        _check(libc.unshare(CLONE_NEWNET))
        self.inside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        finally:
            _check(libc.setns(self.outside, CLONE_NEWNET))

    @contextmanager
    def entered(self):
        """This thread, and what it starts, is in there."""
        _check(libc.setns(self.inside, CLONE_NEWNET))
        try:
            yield
        finally:
            _check(libc.setns(self.outside, CLONE_NEWNET))

    def close(self):
        os.close(self.inside)
        os.close(self.outside)


def port_of(command):
    """Where the relay that a command starts answers; None: it starts none, and comes to its end."""
    words = shlex.split(command, comments=True)
    while words and re.match(r"\w+=", words[0]):
        words.pop(0)
    is_run = words[:1] == ["relay"] and (len(words) == 1 or words[1] == "run" or words[1].startswith("--"))
    if not is_run or {"--help", "--version"} & set(words):
        return None
    given = re.search(r"(?:--http-listen[ =]|RELAY_HTTP_LISTEN=)\S*:(\d+)", command)
    return int(given[1]) if given else PORT


class Stage:
    """ledger: the database, as `relay install --role relay` leaves it; store: the store of that name, with the model. Both are new after
    reset()."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.relay = None
        self.authority = Authority(self.folder, ("db", "openfga", "issuer.example"))
        self._lay_out()
        self.cluster = Cluster(port=5432, settings="max_prepared_transactions = 0\n")
        self._offer_tls()
        self.ledger = Database(self.cluster, "ledger")
        self._create_databases()
        self.openfga = openfga.Server(port=8080, database=self.of_openfga, flags=openfga.PATIENT)
        self.store = None

    def close(self):
        self.rest()
        self.openfga.close()
        self.cluster.close()

    def _lay_out(self):
        """The files that only the commands see where they belong."""
        os.makedirs(f"{self.folder}/run/secrets")
        os.mkdir(f"{self.folder}/bin")
        os.symlink(BINARY, f"{self.folder}/bin/relay")
        with open(f"{self.folder}/hosts", "w") as f:
            f.write(HOSTS)
        for name in ("db-ca.pem", "fga-ca.pem"):
            shutil.copy(self.authority.ca, f"{self.folder}/run/secrets/{name}")
        self.write_secret("client-secret", SECRET)

    def write_secret(self, name, text):
        with open(f"{self.folder}/run/secrets/{name}", "w") as f:
            f.write(text)

    def _offer_tls(self):
        """To whoever asks for it."""
        owner = os.stat(self.cluster.data)
        for path, name in ((self.authority.certificate, "server.crt"), (self.authority.key, "server.key"), (self.authority.ca, "root.crt")):
            to = shutil.copy(path, f"{self.cluster.data}/{name}")
            os.chown(to, owner.st_uid, owner.st_gid)
            os.chmod(to, 0o600)
        with self.cluster.connect("postgres") as admin:
            admin.execute("ALTER SYSTEM SET ssl_ca_file = 'root.crt'")
            admin.execute("ALTER SYSTEM SET ssl = on")
        self._reload()

    def _reload(self):
        """Postgres's settings and pg_hba.conf are in force, for connections that begin from now on."""
        def loaded():
            with self.cluster.connect("postgres") as admin:
                return admin.execute("SELECT pg_conf_load_time()").fetchone()[0]

        before = loaded()
        with self.cluster.connect("postgres") as admin:
            admin.execute("SELECT pg_reload_conf()")
        wait_until(lambda: loaded() > before, 30)

    def _create_databases(self):
        with self.cluster.connect("postgres") as admin:
            admin.execute("CREATE ROLE owner LOGIN CREATEROLE")
            admin.execute("CREATE ROLE openfga LOGIN")
            admin.execute("CREATE DATABASE installed OWNER owner")
            admin.execute("CREATE DATABASE openfga OWNER openfga")
        self.of_openfga = Database(self.cluster, "openfga")
        self.of_openfga.url = self.cluster.url("openfga", user="openfga")
        done = self.shell("DATABASE_URL=postgres://owner@db/installed relay install --role relay")
        assert done.returncode == 0, done.stdout

    def rest(self):
        """Nobody is connected to the ledger's database any more."""
        self.ledger.reconnect()
        self.stop_relay()

    def reset(self):
        self.rest()
        with self.cluster.connect("postgres") as admin:
            admin.execute("DROP DATABASE IF EXISTS ledger WITH (FORCE)")
            wait_until(lambda: not admin.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = 'installed'").fetchone()[0])
            admin.execute("CREATE DATABASE ledger TEMPLATE installed OWNER owner")
        if self.store:
            self.store.delete()
        self.store = self.openfga.create_store("ledger")

    def environment(self):
        """A reader's. Nothing is lost here that would have to settle, and a busy machine is slow."""
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        return environment(RELAYS, FGA_API_URL="http://openfga:8080", FGA_STORE_NAME="ledger", PATH=path, RELAY_SETTLE_TIMEOUT="100ms", RELAY_CONNECT_TIMEOUT="20s")

    def enter(self, *command):
        """What runs a command where the names and the files are."""
        return ["unshare", "--mount", "sh", "-c", ENTER, self.folder, *command]

    def shell(self, command, **keywords):
        """Runs it as a reader does, to its end; what it printed on either stream is stdout."""
        done = subprocess.run(
            self.enter("bash", "-c", command), env=self.environment(), cwd=self.folder, stdin=keywords.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, **keywords,
        )
        check_output(done.stdout)
        return done

    def sql(self, text):
        return self.shell("psql -qXAt -v ON_ERROR_STOP=1 -d postgres://postgres@db/ledger", stdin=None, input=text)

    def start_relay(self, **extra):
        self.relay = Relay(self.folder, "--sweep-interval", "1s", env={**self.environment(), **extra}, port=PORT, prefix=self.enter())
        return self.relay.wait_ready(30)

    def stop_relay(self):
        if self.relay is not None:
            self.relay, relay = None, self.relay
            relay.close()

    def serve(self, command, exports=()):
        """Starts the relay of this command, after these, has it deliver a row and what was pending, and ends it; returns what it printed."""
        port, path = port_of(command), f"{self.folder}/served"
        with open(path, "w") as output:
            script = "\n".join([*exports, f"exec env {command}"])
            process = spawn(self.enter("bash", "-c", script), env=self.environment(), stdout=output, stderr=output, cwd=self.folder)

        def printed():
            with open(path) as f:
                return f.read()

        def ready():
            assert process.poll() is None, printed()
            return self.shell(f"relay healthcheck --http-listen 127.0.0.1:{port}").returncode == 0

        try:
            wait_until(ready, 30, every=0.05, what=printed)
            self.ledger.insert(archive(port))
            self.ledger.wait_delivered(timeout=30)
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, printed()
        finally:
            process.kill()
            process.wait()
        check_output(printed())
        assert not re.search("level=(warning|error)", printed()), printed()
        return printed()

    @contextmanager
    def let_in(self, line):
        """With this line before all others in pg_hba.conf, for connections that begin then."""
        path = f"{self.cluster.data}/pg_hba.conf"
        with open(path) as f:
            before = f.read()

        def write(text):
            with open(path, "w") as f:
                f.write(text)
            self._reload()

        write(f"{line}\n{before}")
        try:
            yield
        finally:
            write(before)

    @contextmanager
    def pgbouncer(self, mode):
        pooler = Pgbouncer(self.cluster, mode, user="relay", port=6432)
        try:
            yield
        finally:
            pooler.close()

    @contextmanager
    def guarded_openfga(self):
        """By https on port 8443, with tokens of issuer.example, and a store of the same name."""
        signer = Signer(self.folder)
        discovery = Issuer(signer)
        signer.name = discovery.url
        issuer = Issuer(signer, authority=self.authority, port=443)
        flags = ["--authn-method", "oidc", "--authn-oidc-issuer", discovery.url, "--authn-oidc-audience", AUDIENCE, *openfga.PATIENT]
        server = openfga.Server(port=8443, authority=self.authority, flags=flags, bearer=signer.token())
        try:
            yield server.create_store("ledger")
        finally:
            server.close()
            issuer.stop()
            discovery.stop()
