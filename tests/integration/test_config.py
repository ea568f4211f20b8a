"""What is configured wrongly is said clearly, in the log and in /readyz, and mended without a restart where that can be."""

import pytest

from process import free_port, wait_until
from relay import environment, run
from rows import all_tuples, archive

pytestmark = pytest.mark.asan

NOBODY = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
QUICK = ("--sweep-interval", "300ms", "--min-backoff", "100ms", "--max-backoff", "500ms")


def said(relay, *texts):
    """Waits until one log line of a warning's or error's level holds all of these."""
    def found():
        return [line for line in relay.log() if line["level"] in ("warning", "error") and all(t.lower() in str(line).lower() for t in texts)]
    wait_until(found, what=lambda: f"{texts} in the log: {relay.text()[-2000:]}")


def complains(relay, *texts):
    relay.wait_not_ready(*texts)
    said(relay, *texts)


def test_a_wrong_store(db, store, start):
    complains(start(db, store, *QUICK, FGA_STORE_ID=NOBODY, ready=False), NOBODY, "store")
    db.insert(archive(1))
    assert db.attempts() == 0


def test_a_malformed_store(db, store, start):
    complains(start(db, store, *QUICK, FGA_STORE_ID="my store", ready=False), "store")


def test_a_wrong_model(db, store, start):
    complains(start(db, store, *QUICK, FGA_MODEL_ID=NOBODY, ready=False), NOBODY, "model")


def test_a_missing_table_and_then_it_is_there(empty_db, store, start):
    relay = start(empty_db, store, *QUICK, ready=False)
    complains(relay, "fga_outbox", "relay install")
    empty_db.create_outbox()
    empty_db.insert(archive(1))
    relay.wait_ready()
    empty_db.wait_delivered()


@pytest.mark.parametrize("missing", ["SELECT", "UPDATE"])
def test_a_missing_privilege_and_then_it_is_granted(db, cluster, store, start, missing):
    role = f"role_{db.name}_{missing.lower()}"
    db.execute(f"CREATE ROLE {role} LOGIN")
    db.execute(f"GRANT SELECT, UPDATE (processed_at, attempts, last_error) ON fga_outbox TO {role}")
    db.execute(f"REVOKE {missing} ON fga_outbox FROM {role}")
    db.insert(archive(1))
    relay = start(cluster.url(db.name, user=role), store, *QUICK, ready=False)
    complains(relay, "fga_outbox", "permission")
    assert db.pending() == 1
    db.execute(f"GRANT SELECT, UPDATE (processed_at, attempts, last_error) ON fga_outbox TO {role}")
    relay.wait_ready()
    db.wait_delivered()
    relay.stop()
    db.execute(f"DROP OWNED BY {role}")
    db.execute(f"DROP ROLE {role}")


def test_an_unreachable_openfga(db, store, start):
    port = free_port()
    complains(start(db, store, *QUICK, url=f"http://127.0.0.1:{port}", ready=False), "127.0.0.1", str(port))


def test_an_openfga_whose_name_nobody_knows(db, store, start):
    complains(start(db, store, *QUICK, url="http://openfga.invalid:8080", ready=False), "openfga.invalid")


def test_an_unreachable_postgres(cluster, store, start):
    port = free_port()
    complains(start(cluster.url("ledger", port=port), store, *QUICK, ready=False), "postgres", str(port))


def test_a_postgres_whose_name_nobody_knows(store, start):
    complains(start("postgres://postgres@postgres.invalid/ledger", store, *QUICK, ready=False), "postgres.invalid")


def test_a_database_that_is_not_there(cluster, store, start):
    complains(start(cluster.url("nowhere"), store, *QUICK, ready=False), "nowhere")


def test_a_wrong_password_is_not_shown(cluster, db, store, start):
    """The role does not exist: the message names it, never the password."""
    relay = start(cluster.url(db.name, user="stranger", password="s3cretpassword"), store, *QUICK, "--log-level", "debug", ready=False)
    complains(relay, "stranger")
    assert "s3cretpassword" not in relay.text() + relay.request("GET", "/readyz")[2]


@pytest.mark.parametrize("url", ["openfga:8080", "ftp://openfga:8080", "http://", "http://a b/", "https//openfga", "http://openfga:99999"])
def test_a_bad_url_for_openfga(db, store, url):
    done = run("run", "--http-listen", f"127.0.0.1:{free_port()}", env=environment(db, store, url))
    assert done.returncode == 2, done.stderr
    assert "fga-api-url" in done.stderr.lower() or "FGA_API_URL" in done.stderr


def test_a_url_with_a_path_and_a_slash(db, store, start, make_proxy):
    proxy = make_proxy(store)

    def strip(e):
        assert e.path.startswith("/fga/"), e.path
        e.path = e.path[4:]

    proxy.hook = strip
    start(db, store, url=proxy.url + "/fga/")
    db.insert(archive(1))
    db.wait_delivered()


def test_a_bad_url_for_postgres(store):
    done = run("run", "--http-listen", f"127.0.0.1:{free_port()}", env=environment("postgres://[::1/x", store))
    assert done.returncode == 2, done.stderr
    assert "DATABASE_URL" in done.stderr


KEY, OTHER = "right-preshared-key-0123456789", "wrong-preshared-key-0123456789"


@pytest.fixture(scope="module")
def guarded():
    import openfga

    server = openfga.Server(keys=[KEY])
    yield server
    server.close()


def test_the_right_token(db, guarded, start):
    store = guarded.create_store()
    relay = start(db, store, *QUICK, "--log-level", "debug", FGA_API_TOKEN=KEY)
    db.insert(archive(1))
    db.wait_delivered()
    assert store.tuples() == all_tuples([1])
    assert KEY not in relay.text()


@pytest.mark.parametrize("token", [OTHER, None], ids=["wrong", "missing"])
def test_a_wrong_or_missing_token(db, guarded, start, token):
    store = guarded.create_store()
    relay = start(db, store, *QUICK, "--log-level", "debug", FGA_API_TOKEN=token, ready=False)
    db.insert(archive(1))
    reasons = relay.wait_not_ready("401")
    assert "FGA_API_TOKEN" in reasons
    said(relay, "401", "FGA_API_TOKEN")
    assert db.pending() == 1 and db.attempts() == 0
    assert OTHER not in relay.text() + relay.request("GET", "/readyz")[2] + str(relay.metrics())


def test_a_token_from_a_file(db, guarded, start, tmp_path):
    store = guarded.create_store()
    (tmp_path / "token").write_text(KEY + "\n")
    start(db, store, *QUICK, FGA_API_TOKEN_FILE=tmp_path / "token")
    db.insert(archive(1))
    db.wait_delivered()


def test_everything_from_files(db, store, start, tmp_path):
    for name, value in (("url", store.url), ("id", store.id), ("model", store.model_id), ("database", db.url)):
        (tmp_path / name).write_text(value + "\n")
    start(None, None, *QUICK, DATABASE_URL_FILE=tmp_path / "database", FGA_API_URL_FILE=tmp_path / "url", FGA_STORE_ID_FILE=tmp_path / "id",
          FGA_MODEL_ID_FILE=tmp_path / "model")
    db.insert(archive(1))
    db.wait_delivered()


def test_a_value_and_its_file_at_once(db, store, tmp_path):
    (tmp_path / "token").write_text(KEY)
    done = run("run", env=environment(db, store, FGA_API_TOKEN="x", FGA_API_TOKEN_FILE=tmp_path / "token"))
    assert done.returncode == 2 and "FGA_API_TOKEN_FILE" in done.stderr


def test_a_file_that_is_not_there(db, store, tmp_path):
    done = run("run", env=environment(db, store, FGA_API_TOKEN_FILE=tmp_path / "nothing"))
    assert done.returncode == 2 and "FGA_API_TOKEN_FILE" in done.stderr and "nothing" in done.stderr


def test_a_store_by_its_name(db, memory_fga, start):
    store = memory_fga.create_store(name=f"only {db.name} & co")
    relay = start(db, store, *QUICK, FGA_STORE_ID=None, FGA_STORE_NAME=f"only {db.name} & co")
    db.insert(archive(1))
    db.wait_delivered()
    assert store.tuples() == all_tuples([1])
    assert relay.ready()


def test_no_store_of_that_name_and_then_one(db, memory_fga, start):
    name = f"later {db.name}"
    relay = start(db, None, *QUICK, FGA_API_URL=memory_fga.url, FGA_STORE_NAME=name, ready=False)
    complains(relay, name)
    store = memory_fga.create_store(name=name)
    db.insert(archive(1))
    db.wait_delivered()
    assert store.tuples() == all_tuples([1])


def test_two_stores_of_that_name(db, memory_fga, start):
    name = f"twice {db.name}"
    for _ in range(2):
        memory_fga.create_store(name=name)
    relay = start(db, None, *QUICK, FGA_API_URL=memory_fga.url, FGA_STORE_NAME=name, ready=False)
    complains(relay, name, "FGA_STORE_ID")


def test_a_name_that_is_only_the_beginning_of_anothers(db, memory_fga, start):
    memory_fga.create_store(name=f"prefix {db.name} longer")
    complains(start(db, None, *QUICK, FGA_API_URL=memory_fga.url, FGA_STORE_NAME=f"prefix {db.name}", ready=False), f"prefix {db.name}")


def test_the_model_left_out_is_the_latest(db, store, start):
    start(db, store, *QUICK, FGA_MODEL_ID=None)
    db.insert(archive(1))
    db.wait_delivered()
    assert store.tuples() == all_tuples([1])


def test_a_store_without_a_model(db, memory_fga, start):
    store = memory_fga.create_store(model=False)
    relay = start(db, store, *QUICK, FGA_MODEL_ID=None, ready=False)
    complains(relay, "model")
    store.write_model()
    relay.wait_ready()
    db.insert(archive(1))
    db.wait_delivered()


def test_https_with_a_ca_file(db, store, make_proxy, authority, start):
    proxy = make_proxy(store, tls=authority.context())
    start(db, store, *QUICK, "--fga-ca-file", authority.ca, url=proxy.url.replace("127.0.0.1", "localhost"))
    db.insert(archive(1))
    db.wait_delivered()
    assert store.tuples() == all_tuples([1])


def test_https_is_refused_without_the_ca(db, store, make_proxy, authority, start):
    proxy = make_proxy(store, tls=authority.context())
    relay = start(db, store, *QUICK, url=proxy.url, ready=False)
    complains(relay, "certificate")
    assert proxy.exchanges == []


def test_https_is_refused_for_another_host(db, store, make_proxy, authority, start):
    """The certificate is for 127.0.0.1 and localhost."""
    proxy = make_proxy(store, tls=authority.context(), host="127.0.0.2")
    complains(start(db, store, *QUICK, "--fga-ca-file", authority.ca, url=proxy.url, ready=False), "certificate")
    assert proxy.exchanges == []


def test_a_ca_file_that_is_not_there(db, store):
    done = run("run", "--fga-ca-file", "/nowhere/ca.pem", env=environment(db, store))
    assert done.returncode == 2 and "/nowhere/ca.pem" in done.stderr


@pytest.mark.parametrize("flags, texts", [
    (["--sweep-interval", "10"], ["sweep-interval", "10s"]),
    (["--sweep-interval", "-1s"], ["sweep-interval"]),
    (["--lanes", "x"], ["lanes"]),
    (["--log-level", "loud"], ["log-level", "debug"]),
    (["--log-format", "xml"], ["log-format", "json"]),
    (["--http-listen", "8090"], ["http-listen"]),
    (["--table", "a.b.c"], ["table"]),
    (["--batch-bytes", "lots"], ["batch-bytes"]),
    (["--sweep"], ["sweep"]),
    (["--sweep-intervall", "10s"], ["sweep-interval"]),
    (["--role", "x"], ["role"]),
])
def test_a_wrong_flag_says_what_would_be_right(db, store, flags, texts):
    done = run("run", *flags, env=environment(db, store))
    assert done.returncode == 2, done.stderr
    assert all(t in done.stderr for t in texts), done.stderr
    assert done.stdout == ""


def test_a_wrong_variable_is_named(db, store):
    done = run("run", env=environment(db, store, RELAY_SWEEP_INTERVAL="often"))
    assert done.returncode == 2 and "RELAY_SWEEP_INTERVAL" in done.stderr


def test_a_flag_wins_over_its_variable(db, store, start):
    """The variable alone would never deliver without a trigger."""
    relay = start(db, store, "--no-listen", "--sweep-interval", "200ms", RELAY_SWEEP_INTERVAL="1h")
    db.insert(archive(1))
    db.wait_delivered()
    wait_until(lambda: relay.metric("relay_sweeps_total") >= 3)


@pytest.mark.parametrize("command", [[], ["run"], ["drain"], ["install"], ["status"], ["requeue"], ["doctor"], ["healthcheck"]])
def test_help_and_version(command):
    for flag in ("--help", "--version"):
        done = run(*command, flag, env=environment())
        assert done.returncode == 0 and done.stdout and not done.stderr
    assert "--version" in run("--help", env=environment()).stdout


def test_an_unknown_command(db, store):
    done = run("deliver", env=environment(db, store))
    assert done.returncode == 2 and "drain" in done.stderr
