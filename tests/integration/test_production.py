"""What docker/README.md says of TLS, passwords and poolers, beyond its commands."""

import os
import shutil

import pytest

from rows import archive, writes
from scenes import REFUSED, refuse
from stage import RELAYS
from tls import Authority

pytestmark = [
    pytest.mark.xdist_group("stage"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace and a mount namespace need root"),
]

TRUSTED = "sslmode=verify-full&sslrootcert=/run/secrets/db-ca.pem"


@pytest.fixture
def secrets(stage, tmp_path):
    """Files in /run/secrets beside those that are always there."""
    there = set(os.listdir(f"{stage.folder}/run/secrets"))
    shutil.copy(Authority(tmp_path).ca, f"{stage.folder}/run/secrets/other-ca.pem")
    shutil.copy(stage.authority.certificate, f"{stage.folder}/run/secrets/client.pem")
    yield stage
    for name in set(os.listdir(f"{stage.folder}/run/secrets")) - there:
        os.unlink(f"{stage.folder}/run/secrets/{name}")


@pytest.mark.parametrize("url, says", [
    ("db/ledger?sslmode=verify-full", "name a file with the certificates to trust in sslrootcert"),
    ("db/ledger?sslmode=verify-full&sslrootcert=/run/secrets/other-ca.pem", "check sslrootcert"),
    (f"pgbouncer/ledger?{TRUSTED}", "connect by a name that stands in the server's certificate"),
    (f"db/ledger?{TRUSTED}", "name one in sslcert, and its key in sslkey"),
    (f"db/ledger?{TRUSTED}&sslcert=/run/secrets/client.pem&sslkey=/run/secrets/client.key", "check sslkey"),
])
def test_what_is_wrong_with_tls_is_told(secrets, url, says):
    with secrets.let_in("hostssl all relay all cert"):
        done = secrets.shell(f"HOME=/nonexistent DATABASE_URL='postgres://relay@{url}' relay doctor")
        assert done.returncode == 2 and says in done.stdout.splitlines()[1], done.stdout


def test_a_password_file_is_read_at_every_connection(secrets):
    stage = secrets

    def let_have(password):
        stage.ledger.execute(f"ALTER ROLE relay PASSWORD '{password}'")
        stage.write_secret("pgpass", f"db:5432:ledger:relay:{password}\n")
        os.chmod(f"{stage.folder}/run/secrets/pgpass", 0o600)

    let_have("first")
    with stage.let_in("host all relay all scram-sha-256"):
        assert "password" in stage.shell("relay status").stdout
        relay = stage.start_relay(PGPASSFILE="/run/secrets/pgpass")
        let_have("second")
        stage.ledger.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'relay'")
        stage.ledger.wait_delivered(*stage.ledger.insert(archive(1)), timeout=30)
        relay.wait_ready(30)
        stage.stop_relay()


def test_what_works_through_a_pool_in_transaction_mode(stage):
    stage.start_relay()
    refuse(stage, writes(REFUSED))
    with stage.pgbouncer("transaction"):
        pooled = f"DATABASE_URL={RELAYS.replace('@db', '@pgbouncer:6432')} relay"
        for command, says in (("install --role relay", "there already"), ("status", "spaceship"), ("requeue --all-refused", "1 row requeued")):
            done = stage.shell(f"{pooled} {command}")
            assert done.returncode == 0 and says in done.stdout, done.stdout
        stage.stop_relay()
        done = stage.shell(f"{pooled} drain")
        assert done.returncode == 1 and "spaceship" in done.stdout, done.stdout
