"""Client credentials against a real OpenFGA in OIDC mode, and preshared keys that rotate."""

import signal
import threading
import time

import pytest

import openfga
from issuer import AUDIENCE, CLIENT, SECRET, Issuer, Signer
from proxy import Reply, refusal
from process import stays, wait_until
from relay import environment, run
from rows import all_tuples, archive, archives, unknown

pytestmark = pytest.mark.asan

QUICK = ("--sweep-interval", "300ms", "--min-backoff", "100ms", "--max-backoff", "500ms", "--log-level", "debug")


@pytest.fixture(scope="module")
def signer(tmp_path_factory):
    return Signer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def oidc(signer):
    """OpenFGA that trusts the signer's tokens."""
    discovery = Issuer(signer)
    signer.name = discovery.url
    server = openfga.Server(
        flags=["--authn-method", "oidc", "--authn-oidc-issuer", discovery.url, "--authn-oidc-audience", AUDIENCE, *openfga.PATIENT],
        bearer=signer.token(),
    )
    yield server
    server.close()
    discovery.stop()


@pytest.fixture
def store(oidc):
    return oidc.create_store()


@pytest.fixture
def make_issuer(signer, oidc):
    made = []

    def make(**keywords):
        made.append(Issuer(signer, **keywords))
        return made[-1]

    yield make
    for issuer in made:
        issuer.stop()


@pytest.fixture
def issuer(make_issuer):
    return make_issuer()


def bearer(exchange):
    return exchange.headers.get("authorization", "").removeprefix("Bearer ")


def keeps_secrets(relay, *secrets):
    """Nothing that can be seen of a relay shows one of these."""
    seen = relay.text() + relay.request("GET", "/readyz")[2] + relay.request("GET", "/metrics")[2]
    for secret in secrets:
        assert secret and secret not in seen


def some_in_time(issuer, lifetime):
    """Whether a token was asked for before the one before it had ended: a busy machine is late now and then, and not each time."""
    times = [f.at for f in issuer.fetches]
    return any(b - a < lifetime for a, b in zip(times, times[1:]))


def never_halted(relay):
    assert not [line for line in relay.log() if line.get("to") in ("halted", "backoff")], relay.text()


def test_a_token_is_fetched_and_shown(db, store, issuer, start):
    relay = start(db, store, *QUICK, **issuer.settings(FGA_API_SCOPES="read write"))
    db.insert(archive(1))
    db.wait_delivered()
    assert store.tuples() == all_tuples([1])
    wait_until(lambda: relay.metric("relay_sweeps_total") > 5)
    assert [f.form for f in issuer.fetches] == [
        {"grant_type": "client_credentials", "client_id": CLIENT, "client_secret": SECRET, "audience": AUDIENCE, "scope": "read write"}
    ]
    keeps_secrets(relay, SECRET, *issuer.tokens)


def test_an_issuer_with_a_path_and_a_secret_from_a_file(db, store, issuer, start, tmp_path):
    def elsewhere(fetch):
        assert fetch.path == "/realms/x/token"
        fetch.path = "/oauth/token"

    issuer.hook = elsewhere
    (tmp_path / "secret").write_text(SECRET + "\n")
    settings = issuer.settings(FGA_CLIENT_SECRET=None, FGA_CLIENT_SECRET_FILE=tmp_path / "secret")
    start(db, store, *QUICK, **settings | {"FGA_API_TOKEN_ISSUER": issuer.url + "/realms/x/token"})
    db.insert(archive(1))
    db.wait_delivered()


def test_one_fetch_however_many_requests_wait(db, store, issuer, start, make_proxy):
    """Four requests are under way when their token is revoked, and the issuer is in no hurry."""
    proxy = make_proxy(store)
    relay = start(db, store, "--sweep-interval", "1h", "--lanes", "4", "--batch-rows", "1", "--max-in-flight", "4", url=proxy.url,
                  **issuer.settings())
    first = issuer.tokens[0]
    together = threading.Barrier(4)
    refused = []

    def revoked(exchange):
        if exchange.is_write and bearer(exchange) == first:
            together.wait(10)
            refused.append(exchange)
            return refusal(401, "invalid_claims", "invalid claims")

    def slow(_):
        wait_until(lambda: len(refused) == 4 and relay.metric("relay_requests_in_flight") == 4)

    proxy.hook, issuer.hook = revoked, slow
    db.insert(*archives(range(4)))
    db.wait_delivered()
    assert len(issuer.fetches) == 2
    assert [bearer(e) for e in proxy.writes if e.status == 200] == 4 * [issuer.tokens[1]]
    assert len(proxy.writes) == 8
    assert store.tuples() == all_tuples(range(4)) and db.attempts() == 0
    never_halted(relay)


@pytest.mark.slow
def test_a_ten_second_token_is_renewed_before_it_ends(db, store, make_issuer, start, make_proxy, load):
    issuer = make_issuer(expires_in=10, lifetime=15)  # a request may be late
    proxy = make_proxy(store)
    began = time.monotonic()
    relay = start(db, store, *QUICK, url=proxy.url, **issuer.settings())
    loading = load(db)
    refused = issuer.fetches[0].at + 15
    wait_until(lambda: time.monotonic() > refused + 2, 30)
    wait_until(lambda: some_in_time(issuer, 10), 30)
    numbers = loading.stop()
    db.wait_delivered()
    assert len(issuer.fetches) <= 1 + (time.monotonic() - began) / 9, "none before nine tenths of its life"
    wait_until(lambda: {e.status for e in proxy.exchanges if not e.is_probe} == {200})  # one may be under way
    first, second, *_ = issuer.tokens
    assert {first, second} <= {bearer(e) for e in list(proxy.exchanges)} <= set(issuer.tokens)
    assert all(bearer(e) != first for e in list(proxy.exchanges) if e.at > refused)
    assert all_tuples(numbers) <= store.tuples()
    never_halted(relay)


@pytest.mark.slow
def test_an_idle_relay_renews_as_well(db, store, make_issuer, start):
    """So that the next row does not wait for a token. It lives long enough for a busy machine's delays to be small beside it."""
    issuer = make_issuer(expires_in=10)
    began = time.monotonic()
    start(db, store, "--sweep-interval", "1h", **issuer.settings())
    wait_until(lambda: len(issuer.fetches) >= 3 and some_in_time(issuer, 10), 60)
    assert len(issuer.fetches) <= 1 + (time.monotonic() - began) / 9, "none before nine tenths of its life"


@pytest.mark.parametrize("expires_in", [300, None], ids=["said", "not said"])
def test_a_five_minute_token(db, store, make_issuer, start, expires_in):
    issuer = make_issuer(expires_in=expires_in)
    relay = start(db, store, *QUICK, **issuer.settings())
    db.insert(archive(1))
    db.wait_delivered()
    assert [line["lifetime_ms"] for line in relay.log(msg="fetched a token")] == ["300000"]
    assert len(issuer.fetches) == 1


def test_an_issuer_that_is_away_at_the_start(db, store, issuer, start):
    issuer.stop()
    relay = start(db, store, *QUICK, ready=False, **issuer.settings())
    db.insert(archive(1))
    reasons = relay.wait_not_ready("no token: the issuer cannot be reached")
    assert f"127.0.0.1 port {issuer.port}" in reasons
    assert relay.readyz()[1]["openfga"] == "backoff"
    issuer.start()
    db.wait_delivered()
    assert store.tuples() == all_tuples([1]) and db.attempts() == 0
    relay.wait_ready()


@pytest.mark.slow
def test_an_issuer_that_goes_away_later(db, store, make_issuer, start):
    issuer = make_issuer(expires_in=60)  # so that it is renewed, or is not, six seconds before its end
    began = time.monotonic()
    relay = start(db, store, *QUICK, **issuer.settings())
    issuer.stop()
    db.insert(archive(1))
    db.wait_delivered()  # with the token of before
    relay.wait_not_ready("no token: the issuer cannot be reached", timeout=90)
    assert time.monotonic() - began >= 60, "all is well until the token ends"
    assert relay.log(msg="cannot renew the token")
    db.insert(archive(2))
    stays(lambda: db.pending() == 1, 0.5)
    issuer.start()
    db.wait_delivered()
    assert store.tuples() == all_tuples([1, 2]) and db.attempts() == 0


@pytest.mark.parametrize("status, state", [(429, "backoff"), (503, "backoff"), (400, "halted"), (403, "halted")])
def test_an_issuer_that_will_not(db, store, issuer, start, status, state):
    issuer.hook = lambda fetch: (status, {"error": "not_now"})
    relay = start(db, store, *QUICK, ready=False, **issuer.settings())
    db.insert(archive(1))
    relay.wait_not_ready(f"no token: the issuer answered {status} not_now")
    assert relay.readyz()[1]["openfga"] == state
    issuer.hook = None
    db.wait_delivered()
    assert db.attempts() == 0


@pytest.mark.parametrize("answer, text", [
    ({"access_token": "SECRET-TOKEN", "expires_in": "soon"}, "expires_in"),
    ({"access_token": "SECRET-TOKEN\r\nX: y"}, "access_token that cannot be sent"),
    ({"token": "SECRET-TOKEN"}, "no access_token"),
    ("access_token=SECRET-TOKEN&token_type=bearer", "not answer as an issuer"),
], ids=["lifetime", "line break", "none", "form"])
def test_an_issuer_that_answers_nonsense(db, store, issuer, start, answer, text):
    issuer.hook = lambda fetch: (200, answer)
    relay = start(db, store, *QUICK, ready=False, **issuer.settings())
    assert "FGA_API_TOKEN_ISSUER" in relay.wait_not_ready(text)
    keeps_secrets(relay, "SECRET-TOKEN")


def test_a_token_that_is_revoked_early(db, store, issuer, start, make_proxy):
    proxy = make_proxy(store)
    relay = start(db, store, "--sweep-interval", "1h", url=proxy.url, **issuer.settings())
    db.insert(archive(1))
    db.wait_delivered()
    first = issuer.tokens[0]
    revoked = {first}
    proxy.hook = lambda e: refusal(401, "invalid_claims", f"not {bearer(e)}") if bearer(e) in revoked else None
    db.insert(archive(2))
    db.wait_delivered()
    revoked.add(issuer.tokens[1])  # once is no reason to do without a fresh one at once
    db.insert(archive(3))
    db.wait_delivered()
    _, second, third = issuer.tokens
    assert [(e.status, bearer(e)) for e in proxy.writes] == [(200, first), (401, first), (200, second), (401, second), (200, third)]
    assert len(issuer.fetches) == 3 and db.attempts() == 0
    assert store.tuples() == all_tuples([1, 2, 3])
    never_halted(relay)
    keeps_secrets(relay, *issuer.tokens)


def test_a_token_that_ends_before_the_issuer_said(db, store, make_issuer, start):
    """OpenFGA itself refuses it."""
    issuer = make_issuer(expires_in=3600)

    def first_is_short(_):
        issuer.lifetime = 2 if len(issuer.fetches) == 1 else 3600

    issuer.hook = first_is_short
    relay = start(db, store, "--sweep-interval", "1h", **issuer.settings())
    ends = time.monotonic() + 3.1
    db.insert(archive(1))
    db.wait_delivered()
    wait_until(lambda: time.monotonic() > ends)
    db.insert(archive(2))
    db.wait_delivered()
    assert len(issuer.fetches) == 2 and db.attempts() == 0
    never_halted(relay)


def test_a_wrong_secret_and_then_the_right_one(db, store, issuer, start, tmp_path):
    """The issuer gives back what it was sent."""
    wrong = "wrong-secret/0123456789"
    (tmp_path / "secret").write_text(wrong)
    relay = start(db, store, *QUICK, ready=False, **issuer.settings(FGA_CLIENT_SECRET=None, FGA_CLIENT_SECRET_FILE=tmp_path / "secret"))
    db.insert(archive(1))
    reasons = relay.wait_not_ready("401 invalid_client")
    assert "check FGA_CLIENT_ID and FGA_CLIENT_SECRET" in reasons and "is not the secret" in reasons
    assert relay.readyz()[1]["openfga"] == "halted"
    assert [line for line in relay.log(level="error") if "FGA_CLIENT_SECRET" in line.get("reason", "")]
    keeps_secrets(relay, wrong)
    assert db.pending() == 1 and db.attempts() == 0
    (tmp_path / "secret").write_text(SECRET)
    db.wait_delivered()
    relay.wait_ready()


def test_a_token_for_another_audience(db, store, make_issuer, start, make_proxy):
    """OpenFGA refuses each, and the issuer is not asked for one at every try."""
    issuer = make_issuer(audience="https://elsewhere.example/")
    proxy = make_proxy(store)
    relay = start(db, store, *QUICK, url=proxy.url, ready=False, **issuer.settings())
    reasons = relay.wait_not_ready("401 invalid_claims")
    assert "FGA_API_TOKEN_ISSUER and FGA_API_AUDIENCE" in reasons
    assert relay.readyz()[1]["openfga"] == "halted"
    wait_until(lambda: len(proxy.exchanges) >= 6)
    assert len(issuer.fetches) <= len(proxy.exchanges) - 2
    keeps_secrets(relay, *issuer.tokens)
    issuer.audience = AUDIENCE
    relay.signal(signal.SIGHUP)
    relay.wait_ready()


def test_forbidden_is_not_the_tokens_fault(db, store, issuer, start, make_proxy):
    proxy = make_proxy(store)
    proxy.hook = lambda e: refusal(401, "forbidden", "the principal is not authorized to perform the action")
    relay = start(db, store, *QUICK, url=proxy.url, ready=False, **issuer.settings())
    assert "FGA_CLIENT_ID may do" in relay.wait_not_ready("401 forbidden")
    wait_until(lambda: len(proxy.exchanges) > 2)
    assert len(issuer.fetches) == 1


def test_nobody_who_gives_the_token_back_gets_it_shown(db, store, issuer, start, make_proxy):
    proxy = make_proxy(store)
    relay = start(db, store, *QUICK, url=proxy.url, **issuer.settings())
    token = issuer.tokens[0]
    proxy.hook = lambda e: refusal(400, "validation_error", f"you sent {bearer(e)}") if e.is_write else None
    [id] = db.insert(archive(1))
    wait_until(lambda: db.attempts() > 0)
    error = db.execute("SELECT last_error FROM fga_outbox WHERE id = %s", id).fetchone()[0]
    assert "you sent ***" in error and token not in error
    proxy.hook = lambda e: Reply(502, f"<pre>Authorization: Bearer {bearer(e)}</pre>")
    relay.wait_not_ready("Authorization: Bearer ***")
    keeps_secrets(relay, token, token[:40])


def test_the_time_that_a_request_waited_for_its_token_is_not_settled(db, store, issuer, start, make_proxy):
    """A write waits a while for a token, is sent, and its outcome unknown: OpenFGA's deadline for it begins when it was sent."""
    proxy = make_proxy(store)
    start(db, store, "--sweep-interval", "1h", "--settle-timeout", "2s", url=proxy.url, **issuer.settings())
    first = issuer.tokens[0]
    lost, granted = [], []

    def hook(exchange):
        if exchange.is_write and bearer(exchange) == first:
            return refusal(401, "invalid_claims", "invalid claims")
        if exchange.is_write and not lost:
            lost.append(exchange)
            return Reply(504, "")

    def slow(fetch):
        begun = time.monotonic()
        wait_until(lambda: time.monotonic() > begun + 1.5)
        granted.append(time.monotonic())  # and so before it was sent

    proxy.hook, issuer.hook = hook, slow
    db.insert(archive(1))
    db.wait_delivered(timeout=10)
    assert lost and time.monotonic() - granted[0] > 1.9


def test_drain(db, store, issuer):
    db.insert(archive(1), unknown(1))
    done = run("drain", env=environment(db, store, **issuer.settings(FGA_CLIENT_SECRET="wrong")))
    assert done.returncode == 2 and "FGA_CLIENT_SECRET" in done.stderr
    issuer.stop()
    done = run("drain", env=environment(db, store, **issuer.settings()))
    assert done.returncode == 3 and "the issuer cannot be reached" in done.stderr
    issuer.start()
    done = run("drain", env=environment(db, store, **issuer.settings()))
    assert done.returncode == 1 and db.pending() == 1
    assert SECRET not in done.stderr


def test_a_refused_token_is_replaced_once(db, store, make_issuer, make_proxy):
    issuer = make_issuer(audience="https://elsewhere.example/")
    proxy = make_proxy(store)
    done = run("drain", env=environment(db, store, proxy.url, **issuer.settings()))
    assert done.returncode == 2 and "401 invalid_claims" in done.stderr
    assert [bearer(e) for e in proxy.exchanges] == issuer.tokens and len(issuer.tokens) == 2


@pytest.mark.parametrize("changes, text", [
    ({"FGA_API_TOKEN": "key"}, "FGA_API_TOKEN and FGA_CLIENT_ID are both given"),
    ({"FGA_CLIENT_SECRET": None}, "FGA_CLIENT_SECRET"),
    ({"FGA_API_TOKEN_ISSUER": None}, "FGA_API_TOKEN_ISSUER"),
    ({"FGA_API_TOKEN_ISSUER": "ftp://x"}, "FGA_API_TOKEN_ISSUER"),
    ({"FGA_CLIENT_ID": None}, "FGA_CLIENT_ID"),
], ids=["two kinds", "no secret", "no issuer", "bad issuer", "no client"])
def test_settings_that_do_not_fit(db, store, issuer, changes, text):
    done = run("run", env=environment(db, store, **issuer.settings(**{"FGA_CLIENT_ID": CLIENT} | changes)))
    assert done.returncode == 2 and text in done.stderr
    assert SECRET not in done.stderr


def test_a_secret_is_no_flag(db, store):
    done = run("run", "--fga-client-secret", "x", env=environment(db, store))
    assert done.returncode == 2 and "FGA_CLIENT_SECRET_FILE" in done.stderr


# Preshared keys

OLD, NEW = "old-preshared-key-0123456789", "new-preshared-key-0123456789"


@pytest.fixture(scope="module")
def guarded():
    """It knows the new key only."""
    server = openfga.Server(keys=[NEW], flags=openfga.PATIENT)
    yield server
    server.close()


@pytest.fixture
def rotating(guarded, make_proxy):
    """A store behind a proxy that lets the old key in until `until.set()`."""
    store = guarded.create_store()
    proxy = make_proxy(store)
    proxy.until = threading.Event()

    def exchange_key(exchange):
        exchange.key = bearer(exchange)
        if exchange.key == OLD and not proxy.until.is_set():
            exchange.headers["authorization"] = f"Bearer {NEW}"

    proxy.hook = exchange_key
    return store, proxy


def test_a_rotated_key_is_read_again_when_the_old_one_is_refused(db, rotating, start, tmp_path):
    store, proxy = rotating
    (tmp_path / "key").write_text(OLD)
    relay = start(db, store, "--sweep-interval", "1h", url=proxy.url, FGA_API_TOKEN_FILE=tmp_path / "key")
    db.insert(archive(1))
    db.wait_delivered()
    (tmp_path / "key").write_text(NEW + "\n")
    proxy.until.set()
    db.insert(archive(2))
    db.wait_delivered()
    assert [(e.status, e.key) for e in proxy.writes] == [(200, OLD), (401, OLD), (200, NEW)]
    assert store.tuples() == all_tuples([1, 2]) and db.attempts() == 0
    never_halted(relay)
    keeps_secrets(relay, OLD, NEW)


def test_a_key_that_is_rotated_after_the_old_one_was_refused(db, rotating, start, tmp_path):
    store, proxy = rotating
    (tmp_path / "key").write_text(OLD)
    relay = start(db, store, *QUICK, url=proxy.url, FGA_API_TOKEN_FILE=tmp_path / "key")
    proxy.until.set()
    db.insert(archive(1))
    assert "FGA_API_TOKEN" in relay.wait_not_ready("401")
    (tmp_path / "key").unlink()  # as some write a file anew
    wait_until(lambda: relay.log(msg="cannot read a secret's file again"))
    (tmp_path / "key").write_text(NEW)
    db.wait_delivered()
    relay.wait_ready()
    assert db.attempts() == 0
    keeps_secrets(relay, OLD, NEW)


def test_a_rotated_key_is_read_again_on_sighup(db, rotating, start, tmp_path):
    store, proxy = rotating
    (tmp_path / "key").write_text(OLD)
    relay = start(db, store, "--sweep-interval", "1h", url=proxy.url, FGA_API_TOKEN_FILE=tmp_path / "key")
    (tmp_path / "key").write_text(NEW)
    relay.signal(signal.SIGHUP)
    wait_until(lambda: relay.log(msg="the preshared key has changed"))
    db.insert(archive(1))
    db.wait_delivered()
    assert [e.key for e in proxy.writes] == [NEW]
    proxy.until.set()
    db.insert(archive(2))
    db.wait_delivered()
    wait_until(lambda: {e.status for e in proxy.exchanges if not e.is_probe} == {200})  # one may be under way


@pytest.mark.parametrize("from_file", [False, True])
def test_a_key_that_stays_the_same_is_not_tried_twice(db, rotating, tmp_path, from_file):
    store, proxy = rotating
    proxy.until.set()
    (tmp_path / "key").write_text(OLD)
    key = {"FGA_API_TOKEN_FILE": tmp_path / "key"} if from_file else {"FGA_API_TOKEN": OLD}
    done = run("drain", env=environment(db, store, proxy.url, **key))
    assert done.returncode == 2 and "401 unauthenticated" in done.stderr
    assert [e.key for e in proxy.exchanges] == [OLD]


def test_a_key_that_changes_again_and_again_is_tried_once_more(db, rotating, tmp_path):
    store, proxy = rotating
    (tmp_path / "key").write_text("key-0")

    def next_key(exchange):
        exchange.key = bearer(exchange)
        (tmp_path / "key").write_text(f"key-{len(proxy.exchanges)}")

    proxy.hook = next_key
    done = run("drain", env=environment(db, store, proxy.url, FGA_API_TOKEN_FILE=tmp_path / "key"))
    assert done.returncode == 2 and "401 unauthenticated" in done.stderr
    assert [e.key for e in proxy.exchanges] == ["key-0", "key-1"]
