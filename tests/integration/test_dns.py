"""Names: a DNS that is silent, one that is not there, and a name whose address changes."""

import os

import pytest

from nameserver import Dns, with_file
from process import free_port, stays, wait_until
from pulse import Pulse
from rows import all_tuples, archive, archives

pytestmark = [pytest.mark.asan, pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace and port 53 need root")]

QUICK = ("--sweep-interval", "300ms", "--min-backoff", "100ms", "--connect-timeout", "500ms", "--settle-timeout", "200ms")
LOCAL = {"openfga.test": "127.0.0.1", "postgres.test": "127.0.0.1"}


@pytest.fixture
def make_dns():
    made = []

    def make(*args, **keywords):
        made.append(Dns(*args, **keywords))
        return made[-1]

    yield make
    for dns in made:
        dns.close()


@pytest.fixture
def resolv_conf(tmp_path):
    """resolv_conf(text): a file that a relay, started with_file, has as its /etc/resolv.conf; again: it is changed."""
    path = tmp_path / "resolv.conf"

    def write(text):
        path.write_text(text)
        return path

    return write


def use(dns):
    return f"nameserver {dns.address}\n"


def postgres(db, host="postgres.test", port=None):
    return db.cluster.url(db.name, port=port).replace("127.0.0.1", host)


def openfga(store, port=None):
    return f"http://openfga.test:{port or store.server.port}"


@pytest.mark.parametrize("silent", ["openfga", "postgres", "both"])
def test_a_dns_that_never_answers_blocks_nothing(db, store, start, make_dns, resolv_conf, silent):
    dns = make_dns(LOCAL, silent=True)
    relay = start(
        db.url if silent == "openfga" else postgres(db), store, *QUICK, ready=False, prefix=with_file(resolv_conf(use(dns))),
        url=store.url if silent == "postgres" else openfga(store),
    )
    pulse = Pulse(relay)
    ids = db.insert(*archives(range(5)))
    for part in ("openfga", "postgres") if silent == "both" else (silent,):
        relay.wait_not_ready(part)
    sweeps = relay.metric("relay_sweeps_total")
    stays(lambda: not db.delivered(*ids), 4)
    wait_until(lambda: relay.metric("relay_sweeps_total") >= sweeps + 3)
    wait_until(lambda: dns.asked)
    assert relay.log(), "every line is one of relay's own"
    dns.silent = False
    db.wait_delivered(*ids, timeout=30)
    relay.wait_ready()
    pulse.stop()
    assert store.tuples() == all_tuples(range(5))
    assert db.attempts() == 0


def test_it_ends_while_names_are_looked_up(db, store, start, make_dns, resolv_conf):
    """With the default time-outs, and a resolver that waits for half a minute: the lookups are far from their end."""
    dns = make_dns(silent=True)
    relay = start(postgres(db), store, ready=False, prefix=with_file(resolv_conf(use(dns) + "options timeout:30 attempts:1\n")), url=openfga(store))
    wait_until(lambda: {"openfga.test", "postgres.test"} <= set(dns.asked))
    assert relay.stop() < 8


def test_a_name_that_moves_to_another_address(db, store, start, toxiproxy, make_dns, resolv_conf):
    """Both are reached at 127.0.0.2, and then, when nobody is there any more, at 127.0.0.3."""
    dns = make_dns({name: "127.0.0.2" for name in LOCAL})
    ports = {name: free_port("127.0.0.2") for name in LOCAL}
    of = {"openfga.test": store.server.port, "postgres.test": db.cluster.port}
    links = {name: toxiproxy.link(of[name], at=("127.0.0.2", ports[name])) for name in LOCAL}
    relay = start(
        postgres(db, port=ports["postgres.test"]), store, *QUICK, prefix=with_file(resolv_conf(use(dns))), url=openfga(store, ports["openfga.test"])
    )
    db.wait_delivered(*db.insert(archive(0)))
    for n, name in enumerate(LOCAL, 1):
        toxiproxy.link(of[name], at=("127.0.0.3", ports[name]))
        links[name].enable(False)
        relay.wait_not_ready(name.split(".")[0])
        dns.hosts[name] = "127.0.0.3"
        db.wait_delivered(*db.insert(archive(n)), timeout=20)
        relay.wait_ready()
    assert store.tuples() == all_tuples(range(3))
    assert db.attempts() == 0


def test_another_nameserver_is_taken_from_resolv_conf(db, store, start, make_dns, resolv_conf):
    silent, answering = make_dns(silent=True), make_dns(LOCAL)
    relay = start(postgres(db), store, *QUICK, ready=False, prefix=with_file(resolv_conf(use(silent))), url=openfga(store))
    ids = db.insert(archive(1))
    wait_until(lambda: {"openfga.test", "postgres.test"} <= set(silent.asked))
    resolv_conf(use(answering))
    db.wait_delivered(*ids, timeout=20)
    relay.wait_ready()


@pytest.mark.parametrize("file", ["empty", "missing"])
def test_without_a_nameserver(db, store, start, resolv_conf, tmp_path, file):
    """Addresses, and the names in /etc/hosts, need none."""
    if file == "empty":
        prefix = with_file(resolv_conf(""))
    else:
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
        prefix = with_file(tmp_path / "etc", at="/etc")
    relay = start(postgres(db, "localhost"), store, *QUICK, prefix=prefix)
    db.wait_delivered(*db.insert(archive(1)))
    relay.wait_ready()


def test_a_name_that_nobody_knows_and_then_somebody_does(db, store, start, make_dns, resolv_conf):
    dns = make_dns()
    relay = start(postgres(db), store, *QUICK, ready=False, prefix=with_file(resolv_conf(use(dns))), url=openfga(store))
    relay.wait_not_ready("openfga.test", "postgres.test")
    dns.hosts.update(LOCAL)
    db.wait_delivered(*db.insert(archive(1)), timeout=30)
