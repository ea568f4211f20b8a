"""PgBouncer in front of a cluster: a pooler as operators have it."""

import os
import pwd
import shutil
import signal
import tempfile

import psycopg

from process import free_port, spawn, wait_until

CONF = """
[databases]
* = host=127.0.0.1 port={server} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
"""


class Pgbouncer:
    """mode: transaction or session. size: how many sessions a database gets at most. user: whom Postgres sees. port: a free one unless
    given."""

    def __init__(self, cluster, mode, size=20, user="postgres", port=None):
        self.port = port or free_port()
        self.folder = tempfile.mkdtemp(prefix="relay-pgbouncer-")
        os.chmod(self.folder, 0o755)
        with open(f"{self.folder}/ini", "w") as f:
            f.write(CONF.format(server=cluster.port, port=self.port, mode=mode, size=size, user=user))
        owner = {}
        if os.getuid() == 0:  # it refuses to run as root, like Postgres
            entry = pwd.getpwnam("postgres")
            owner = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        self.log = open(f"{self.folder}/log", "wb")
        self.process = spawn([shutil.which("pgbouncer", path="/usr/sbin:/usr/bin"), f"{self.folder}/ini"], stdout=self.log, stderr=self.log, **owner)
        wait_until(self._answers, what=lambda: open(f"{self.folder}/log").read())

    def _answers(self):
        try:
            psycopg.connect(self.url("postgres")).close()
            return True
        except psycopg.OperationalError:
            return False

    def url(self, database):
        return f"postgres://postgres@127.0.0.1:{self.port}/{database}?sslmode=disable"

    def close(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
