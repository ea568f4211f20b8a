"""What the tests get: a Postgres cluster and OpenFGA servers a worker, a database and a store a test, and relays that cannot outlive it."""

import signal

import pytest

import openfga
import relay as relay_module
from ledger import Ledger
from load import Load
from postgres import Cluster
from process import die_with_parent, wait_until
from prometheus import Prometheus
from proxy import Proxy
from relay import Relay, environment
from stage import Network, Stage
from tls import Authority
from toxiproxy import Toxiproxy
from wire import Wire

# Workers die with the run, and everything they started dies with them.
die_with_parent(signal.SIGKILL)


def pytest_collection_modifyitems(items):
    """The long ones first, so that none is left alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="session")
def cluster():
    made = Cluster()
    yield made
    made.close()


@pytest.fixture(scope="session")
def calm():
    """A cluster where no transaction can be prepared, as Postgres comes: doctor has nothing to warn of."""
    made = Cluster(settings="max_prepared_transactions = 0\n")
    yield made
    made.close()


def left(database):
    """Waits until no session is in the database any more: it can be copied."""
    with database.cluster.connect("postgres") as admin:
        sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"
        wait_until(lambda: admin.execute(sessions, [database.name]).fetchone()[0] == 0)


@pytest.fixture(scope="session")
def templates(cluster):
    """Databases to copy: with the ledger's table alone, and with the relay's trigger as well."""
    bare = cluster.create(prefix="bare")
    bare.create_outbox()
    bare.reconnect()
    left(bare)
    installed = cluster.create(template=bare.name, prefix="installed")
    done = relay_module.run("install", database=installed)
    assert done.returncode == 0, done.stderr
    left(installed)
    return bare.name, installed.name


@pytest.fixture
def own_db():
    """A database in a cluster that the test may stop."""
    cluster = Cluster()
    made = cluster.create()
    made.create_outbox()
    yield made
    made.reconnect()
    cluster.close()


@pytest.fixture
def bare_db(cluster, templates):
    """The ledger's table, no trigger."""
    made = cluster.create(template=templates[0])
    yield made
    made.close()


@pytest.fixture
def db(cluster, templates):
    """The ledger's table with the relay's trigger."""
    made = cluster.create(template=templates[1])
    yield made
    made.close()


@pytest.fixture
def empty_db(cluster):
    """Nothing in it."""
    made = cluster.create()
    yield made
    made.close()


@pytest.fixture(scope="session")
def memory_fga():
    """OpenFGA with the memory datastore: for many tests, so nobody may stop it."""
    made = openfga.Server(flags=openfga.PATIENT)
    yield made
    made.close()


@pytest.fixture(scope="session")
def durable_fga(cluster):
    """OpenFGA on a database of this cluster: what is in it survives a stop. Whoever stops it starts it again."""
    made = openfga.Server(database=cluster.create(prefix="openfga"), flags=openfga.PATIENT)
    yield made
    made.close()


@pytest.fixture
def make_fga():
    """make_fga(keys=…, flags=…): a server of the test's own."""
    made = []

    def make(**keywords):
        made.append(openfga.Server(**keywords))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def store(memory_fga):
    """A store of the test's own, with the model."""
    return memory_fga.create_store()


@pytest.fixture
def durable_store(durable_fga):
    if durable_fga.process is None:
        durable_fga.start()
    return durable_fga.create_store()


@pytest.fixture
def make_proxy():
    """make_proxy(store): a Proxy in front of a store's server; make_proxy(None): one whose hook answers everything."""
    made = []

    def make(store, **keywords):
        made.append(Proxy(store.server.port if store else None, **keywords))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


@pytest.fixture
def proxy(make_proxy, store):
    return make_proxy(store)


@pytest.fixture
def wire(cluster):
    made = Wire(cluster.port)
    yield made
    made.close()


@pytest.fixture(scope="session")
def toxiproxy():
    made = Toxiproxy()
    yield made
    made.close()


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def network():
    made = Network()
    yield made
    made.close()


@pytest.fixture(scope="session")
def whole_stage(network, tmp_path_factory):
    with network.entered():
        made = Stage(tmp_path_factory.mktemp("stage"))
    yield made
    with network.entered():
        made.close()


@pytest.fixture
def stage(network, whole_stage):
    """What the documents speak of, as new; this test is in its network. Those who share it are one xdist_group."""
    with network.entered():
        whole_stage.reset()
        yield whole_stage
        whole_stage.rest()


@pytest.fixture
def prometheus(tmp_path):
    """prometheus(relay): a Prometheus with our configuration that has scraped this relay, and found nothing wrong."""
    made = []

    def make(relay):
        made.append(Prometheus(f"{tmp_path}/prometheus-{len(made)}", f"127.0.0.1:{relay.port}"))
        wait_until(lambda: made[-1].value("relay_ready") == 1 and not made[-1].firing(), 60)
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def start(tmp_path):
    """start(database, store, *flags, url=…, ready=True, NAME=value…): a relay; variables by their names, None to leave one out."""
    made = []

    def make(database, store, *flags, url=None, ready=True, host="127.0.0.1", port=None, prefix=(), **extra):
        made.append(Relay(tmp_path, *flags, env=environment(database, store, url, **extra), host=host, port=port, prefix=prefix))
        return made[-1].wait_ready() if ready else made[-1]

    yield make
    failure = None
    for relay in made:
        try:
            relay.close()
        except AssertionError as e:
            relay.kill()
            failure = failure or e
    if failure:
        raise failure


@pytest.fixture
def ledger():
    """ledger(database, store, url=…): a loop of the ledger's own."""
    made = []

    def make(*args, **keywords):
        made.append(Ledger(*args, **keywords))
        return made[-1]

    yield make
    for loop in made:
        loop.stop()


@pytest.fixture
def load():
    """load(database): a client that inserts archives 0, 1, 2, … until stop()."""
    made = []

    def make(database):
        made.append(Load(database))
        return made[-1]

    yield make
    for loading in made:
        loading.stop()
