"""/wait: an application that has committed a row asks whether it is delivered, and is answered as soon as it is."""

import http.client
import json
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from faults import QUICK, Gate, says, sessions
from process import stays, wait_until
from proxy import Reply
from relay import ROOT, raw
from rows import archive, archive_tuples, archives, deletes, unknown

pytestmark = pytest.mark.asan

PATIENT = ("--request-timeout", "1m")  # for what a test itself holds up for long


def query(*ids, timeout="20s"):
    return "/wait?" + "&".join([f"id={id}" for id in ids] + [f"timeout={timeout}"])


def ask(relay, path):
    """(status, answer)"""
    connection = http.client.HTTPConnection(relay.host, relay.port, timeout=60)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        assert response.getheader("content-type") == "application/json"
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def connect(relay):
    """Has it ask Postgres once, so that its connection is there: where none is when the time is over, the answer is another one."""
    assert ask(relay, query(10**9)) == missing(10**9)


@contextmanager
def asking(relay, *paths):
    """Asks all of these at the same time, and goes on when all wait; yields futures of ask's answers."""
    before = relay.metric("relay_waits")
    with ThreadPoolExecutor(len(paths)) as pool:
        answers = [pool.submit(ask, relay, path) for path in paths]
        wait_until(lambda: relay.metric("relay_waits") == before + len(paths), what=lambda: [a.done() and a.result() for a in answers])
        yield answers


def delivered(*ids):
    return 200, {"status": "delivered", "ids": list(ids)}


def pending(*ids):
    return 504, {"status": "pending", "ids": list(ids)}


def missing(id):
    return 404, {"status": "missing", "ids": [id]}


@pytest.fixture
def bystander(db, store, start):
    """A relay that delivers nothing, since it has no OpenFGA."""
    relay = start(db, store, url="http://127.0.0.1:1", ready=False)
    relay.wait_not_ready("openfga")
    return relay


def test_a_row_that_this_relay_delivers(db, store, proxy, start):
    relay = start(db, store, url=proxy.url)
    gate = Gate(proxy)
    id, = db.insert(archive(1))
    gate.wait_entered()
    with asking(relay, query(id), query(id)) as answers:
        gate.open()
        assert [a.result() for a in answers] == [delivered(id)] * 2
    assert db.delivered(id)
    assert relay.metric("relay_waits") == 0
    assert ask(relay, query(id)) == delivered(id)


def test_its_own_marks_need_no_question(db, cluster, store, proxy, start):
    """Postgres lets it have the connections that deliver, and no other."""
    role = f"role_{db.name}"
    db.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 2")
    try:
        db.execute(f"GRANT SELECT, UPDATE (processed_at, attempts, last_error) ON fga_outbox TO {role}")
        relay = start(cluster.url(db.name, user=role), store, "--lanes", "1", url=proxy.url)
        gate = Gate(proxy)
        good, bad = db.insert(archive(1), unknown(1))
        gate.wait_entered()
        with asking(relay, query(good), query(bad)) as answers:
            says(relay, "too many connections", "connection': 'wait'")
            assert relay.ready(), "what waits meet is no matter for /readyz"
            gate.open()
            assert answers[0].result() == delivered(good)
            code, answer = answers[1].result()
            assert code == 409 and answer["ids"] == [bad] and "spaceship" in answer["reason"]
        assert relay.metric("relay_wait_questions_total") == 0
        relay.stop()
    finally:
        db.execute(f"DROP OWNED BY {role}")
        db.execute(f"DROP ROLE {role}")


def test_a_row_that_is_delivered_already(db, store, start):
    id, = db.insert(archive(1))
    db.execute("UPDATE fga_outbox SET processed_at = now()")
    relay = start(db, store)
    assert ask(relay, query(id)) == delivered(id)


def test_a_table_that_is_emptied(db, store, proxy, start):
    """Its ids begin again: what was delivered under the same one before is not taken for it."""
    relay = start(db, store, *QUICK, url=proxy.url)
    id, = db.insert(archive(1))
    assert ask(relay, query(id)) == delivered(id)
    assert ask(relay, query(id)) == delivered(id)
    gate = Gate(proxy)
    db.execute("TRUNCATE fga_outbox RESTART IDENTITY")
    assert db.insert(archive(2)) == [id]
    gate.wait_entered()
    connect(relay)
    assert ask(relay, query(id, timeout="100ms")) == pending(id)
    gate.open()
    assert ask(relay, query(id)) == delivered(id)


def test_a_row_that_another_one_delivers(db, bystander):
    """Marked by hand, as the ledger's own loop does: nobody tells this relay."""
    relay = bystander
    first, second, third = db.insert(*archives(range(3)))
    with asking(relay, query(first), query(second, first), query(third)) as answers:
        wait_until(lambda: relay.metric("relay_wait_questions_total") > 2)
        assert relay.metric("relay_waits") == 3
        db.execute("UPDATE fga_outbox SET processed_at = now() WHERE id < %s", third)
        assert [a.result() for a in answers[:2]] == [delivered(first), delivered(second, first)]
        assert not answers[2].done()
        db.execute("UPDATE fga_outbox SET processed_at = now()")
        assert answers[2].result() == delivered(third)


def test_while_this_ones_openfga_is_away_another_relay_delivers(db, store, proxy, start):
    relay = start(db, store, *QUICK, url=proxy.url)
    proxy.hook = lambda e: Reply(503, "", {})
    ids = db.insert(*archives(range(5)))
    relay.wait_not_ready("openfga")
    with asking(relay, query(*ids)) as (answer,):
        start(db, store, *QUICK)
        assert answer.result() == delivered(*ids)


def test_a_row_that_is_refused(db, store, proxy, start, bystander):
    relay = start(db, store, "--min-backoff", "1h", "--max-backoff", "1h", url=proxy.url)
    gate = Gate(proxy)
    good, bad = db.insert(archive(1), unknown(1))
    gate.wait_entered()
    with asking(relay, query(bad)) as (answer,):
        gate.open()
        code, told = answer.result()
    attempts, reason = db.row(bad)[1:]
    assert (code, told) == (409, {"status": "refused", "ids": [bad], "reason": reason}) and attempts == 1
    assert "spaceship" in reason
    assert ask(relay, query(bad)) == (code, told), "refused before, and still pending"
    db.wait_delivered(good)
    assert ask(relay, query(good, bad)) == (code, told)
    assert ask(bystander, query(bad)) == (code, told), "another relay knows it from the row"


def test_a_refused_row_is_mended(db, store, start):
    relay = start(db, store, "--lanes", "1", "--min-backoff", "1h", "--max-backoff", "1h")
    id, = db.insert(unknown(1))
    wait_until(lambda: db.attempts() == 1)
    db.wait_delivered(*db.insert(archive(2)))  # so its only lane has heard that the refusal is committed, and has told those who waited
    db.execute("UPDATE fga_outbox SET payload = %s, attempts = 0, last_error = NULL WHERE id = %s", json.dumps(archive(1)), id)
    with asking(relay, query(id)) as (answer,):
        relay.signal(signal.SIGHUP)
        assert answer.result() == delivered(id)


def test_a_row_that_is_not_there(db, store, start):
    relay = start(db, store)
    assert ask(relay, query(1000000)) == missing(1000000)
    id, = db.insert(archive(1))
    db.wait_delivered()
    assert ask(relay, query(id, 1000000)) == missing(1000000)
    with db.transaction() as open_one:
        later, = db.insert(archive(2), connection=open_one)
        assert ask(relay, query(later)) == missing(later)
    assert ask(relay, query(later)) == delivered(later)


def test_the_time_is_over(db, store, proxy, start):
    relay = start(db, store, url=proxy.url)
    gate = Gate(proxy)
    id, = db.insert(archive(1))
    gate.wait_entered()
    connect(relay)
    for timeout in ("1ms", "100ms", "500ms"):
        assert ask(relay, query(id, timeout=timeout)) == pending(id)
    gate.open()
    assert ask(relay, query(id)) == delivered(id)


@pytest.mark.slow
def test_several_rows(db, store, proxy, start):
    relay = start(db, store, *QUICK, *PATIENT, url=proxy.url)
    first, second = db.insert(*archives(range(2)))
    db.wait_delivered()
    gate = Gate(proxy)
    third, fourth = db.insert(*archives(range(2, 4)))
    gate.wait_entered()
    # So long that Postgres has told of the first two.
    assert ask(relay, query(first, third, second, fourth, timeout="10s")) == pending(third, fourth)
    with asking(relay, query(first, third, second, fourth, third)) as (answer,):
        gate.open()
        assert answer.result() == delivered(first, third, second, fourth)
    most = db.insert(*archives(range(10, 110)))
    assert ask(relay, query(*most)) == delivered(*most)


WRONG = [
    ("", "id is missing"),
    ("?timeout=2s", "id is missing"),
    ("?id=0", "positive number"),
    ("?id=-1", "positive number"),
    ("?id=x", "positive number"),
    ("?id=1&id=", "positive number"),
    ("?id=9223372036854775808", "positive number"),
    ("?id=1&timeout=5", "no unit"),
    ("?id=1&timeout=soon", "not a time"),
    ("?id=1&timeout=31s", "at most 30s"),
    ("?id=1&timeout=1s&timeout=2s", "twice"),
    ("?ids=1", "not known"),
    ("?id=1&x=%22%0a", "not known"),
    ("?" + "&".join(f"id={n}" for n in range(1, 102)), "more than 100"),
]


def test_bad_parameters(store, start):
    """Postgres is not needed to say so."""
    relay = start("postgres://127.0.0.1:1/nothing", store, ready=False)
    relay.wait_not_ready("postgres")
    for parameters, says in WRONG:
        code, answer = ask(relay, "/wait" + parameters)
        assert code == 400 and answer["status"] == "wrong" and set(answer) == {"status", "reason"}
        assert says in answer["reason"]


def test_methods_and_protocol(db, store, proxy, start):
    """HEAD waits as well, and POST never does; a connection serves one request after the other."""
    relay = start(db, store, *PATIENT, url=proxy.url)
    gate = Gate(proxy)
    id, = db.insert(archive(1))
    gate.wait_entered()
    connect(relay)
    assert relay.request("POST", query(id))[0] == 405
    assert relay.request("HEAD", query(id, timeout="10ms"))[::2] == (504, "")
    connection = http.client.HTTPConnection(relay.host, relay.port, timeout=60)
    connection.request("GET", query(id, timeout="30s"))
    wait_until(lambda: relay.metric("relay_waits") == 1)
    stays(lambda: relay.metric("relay_waits") == 1, 6, every=0.2)  # longer than a silent connection may last
    gate.open()
    response = connection.getresponse()
    assert response.status == 200 and json.loads(response.read())["status"] == "delivered"
    for path, expected in (("/livez", 200), (query(), 400), (query(10**9), 404), (query(10**9, timeout="1ms"), 504), (query(id), 200)):
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        assert response.status == expected, path
    connection.close()
    two = f"GET {query(id)} HTTP/1.1\r\nHost: x\r\n\r\nGET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answers = raw(relay.port, two.encode(), timeout=30)
    assert answers.count(b"HTTP/1.1 200 OK") == 2 and answers.endswith(b"ok\n")


def open_request(relay, path, behind=b""):
    client = socket.create_connection((relay.host, relay.port), timeout=60)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() + behind)
    return client


@pytest.mark.parametrize("how", ["close", "reset", "shutdown", "pipelined"])
def test_a_client_that_goes_away_is_forgotten(db, store, proxy, start, how):
    relay = start(db, store, url=proxy.url)
    gate = Gate(proxy)
    id, = db.insert(archive(1))
    gate.wait_entered()
    client = open_request(relay, query(id, timeout="30s"), b"GET /livez HTTP/1.1\r\n\r\n" if how == "pipelined" else b"")
    other = open_request(relay, query(id, timeout="30s"))
    wait_until(lambda: relay.metric("relay_waits") == 2)
    if how == "shutdown":
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    elif how == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    wait_until(lambda: relay.metric("relay_waits") == 1)
    gate.open()
    assert other.recv(100).startswith(b"HTTP/1.1 200 OK")
    other.close()


def test_many_wait(db, store, proxy, start):
    """As many as may, and idle connections beside them; health checks still get their answers, and everybody gets the right one."""
    relay = start(db, store, *PATIENT, url=proxy.url)
    gate = Gate(proxy)
    ids = db.insert(*archives(range(100)))
    gate.wait_entered()
    clients, idle = [], []
    try:
        for n in range(500):
            clients.append(open_request(relay, query(ids[n % 100], timeout="30s")))
            if n % 10 == 0:
                idle.append(socket.create_connection((relay.host, relay.port)))
            if n % 100 == 99:  # whoever is not waiting yet may have to give way to a new connection, like an idle one
                wait_until(lambda: relay.metric("relay_waits") == len(clients))
        code, answer = ask(relay, query(ids[0]))
        assert code == 503 and answer["status"] == "unknown" and "too many" in answer["reason"]
        assert relay.ready()
        gate.open()
        for n, client in enumerate(clients):
            assert json.loads(client.recv(1000).split(b"\r\n\r\n")[1])["ids"] == [ids[n % 100]]
        assert relay.metric("relay_waits") == 0
        assert ask(relay, query(*ids)) == delivered(*ids)
    finally:
        for client in clients + idle:
            client.close()


def test_its_connection_is_there_only_while_it_is_needed(db, bystander):
    relay = bystander
    named = "application_name = 'relay wait'"
    assert not sessions(db, named)
    id, = db.insert(archive(1))
    with asking(relay, query(id)) as (answer,):
        wait_until(lambda: sessions(db, named))
        db.execute("UPDATE fga_outbox SET processed_at = now()")
        assert answer.result() == delivered(id)
    wait_until(lambda: not sessions(db, named), 30)
    assert ask(relay, query(id)) == delivered(id)


def test_postgres_restarts_during_a_wait(own_db, store, start):
    """Asked again when it is back, it tells what became of the rows."""
    relay = start(own_db, store, url="http://127.0.0.1:1", ready=False)
    relay.wait_not_ready("openfga")
    id, = own_db.insert(archive(1))
    with asking(relay, query(id, timeout="30s")) as (answer,):
        wait_until(lambda: relay.metric("relay_wait_questions_total") > 0)
        own_db.reconnect()
        own_db.cluster.restart()
        asked = relay.metric("relay_wait_questions_total")
        wait_until(lambda: relay.metric("relay_wait_questions_total") > asked, 20)
        own_db.execute("UPDATE fga_outbox SET processed_at = now()")
        assert answer.result() == delivered(id)


@pytest.mark.slow
def test_postgres_is_away_when_the_time_is_over(own_db, store, start):
    relay = start(own_db, store, *QUICK)
    own_db.reconnect()
    own_db.cluster.stop()
    code, answer = ask(relay, query(7, timeout="6s"))
    assert code == 503 and answer["status"] == "unknown" and answer["ids"] == [7] and "postgres" in answer["reason"]
    own_db.cluster.start()
    relay.wait_ready(30)
    assert ask(relay, query(7)) == missing(7)


def test_sigterm_ends_waits(db, store, proxy, start):
    """What is in flight still gets its answer; who waits for something else is told, and so is who comes later."""
    relay = start(db, store, "--shutdown-timeout", "1m", url=proxy.url)
    gate = Gate(proxy)
    id, = db.insert(archive(1))
    gate.wait_entered()
    held, = db.insert(deletes(*archive_tuples(1)))
    with asking(relay, query(id, timeout="30s"), query(held, timeout="30s")) as (in_flight, behind):
        relay.signal(signal.SIGTERM)
        wait_until(lambda: relay.log(msg="stopping"))
        code, answer = ask(relay, query(id))
        assert code == 503 and answer["status"] == "unknown" and "stopping" in answer["reason"]
        gate.open()
        assert in_flight.result() == delivered(id)
        code, answer = behind.result()
        assert code == 503 and answer["ids"] == [held] and "stopping" in answer["reason"]
    assert relay.wait() == 0


class Shim(BaseHTTPRequestHandler):
    """Carries the queries of README's example, {"sql", "values"}, to Postgres."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(asked["sql"])
        done = self.server.connection.execute(re.sub(r"\$\d+", "%s", asked["sql"]), [json.dumps(v) for v in asked["values"]] or None)
        body = json.dumps({"rows": [{"id": str(id)} for id, in done.fetchall()] if done.description else []}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def shim(db):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shim)
    server.connection, server.asked = db.connection, []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


# What the example takes for granted: a client as node-postgres has it, and a framework's answer.
PRELUDE = """
const client = { query: async (sql, values = []) =>
  (await fetch("%(shim)s", { method: "POST", body: JSON.stringify({ sql, values }) })).json() };
const plan = %(plan)s, relay = "%(relay)s";
const reply = { status: (code) => console.log(code) };
"""


@pytest.mark.skipif(not shutil.which("node"), reason="no Node.js")
@pytest.mark.parametrize("plan, expected", [(archive(1), "201"), (unknown(1), "spaceship")], ids=["delivered", "refused"])
def test_readmes_example(db, store, start, shim, tmp_path, plan, expected):
    relay = start(db, store)
    with open(f"{ROOT}/README.md") as f:
        example, = re.findall(r"```ts\n(.*?)```", f.read(), re.S)
    values = {"shim": f"http://127.0.0.1:{shim.server_port}", "plan": json.dumps(plan), "relay": f"http://127.0.0.1:{relay.port}"}
    script = tmp_path / "example.mjs"
    script.write_text(PRELUDE % values + example)
    for _ in range(3):
        done = subprocess.run(["node", script], capture_output=True, text=True, timeout=60)
        if done.stdout != "202\n":
            break  # it came within the time that the example gives it
    assert shim.asked[0] == "BEGIN" and shim.asked[-1] == "COMMIT"
    assert expected in done.stdout + done.stderr, done
    assert (done.returncode == 0) == (expected == "201")
