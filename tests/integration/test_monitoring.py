"""What is monitored: the gauges that alerts need, and the alerts, the dashboard and the Compose profile that need them."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
import yaml

from process import wait_until
from relay import ROOT
from rows import archive, deletes, viewer, writes

MONITORING = f"{ROOT}/docker/monitoring"
AGE = "relay_oldest_pending_age_seconds"
DELETE_AGE = "relay_oldest_pending_delete_age_seconds"
STATES = ("unchecked", "ready", "backoff", "halted")

# A relay's labels come from the scrape; the rest of a query that is no metric of its.
SCRAPED = {"job", "instance"}
WORDS = {"and", "or", "unless", "up"}


def load(name):
    with open(f"{MONITORING}/{name}") as f:
        return yaml.safe_load(f)


def rules():
    return [rule for group in load("alerts.yml")["groups"] for rule in group["rules"]]


def panels():
    return load("grafana/relay.json")["panels"]


def queries():
    """Every query of the rules and the dashboard, with the dashboard's variables filled in."""
    of_panels = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [rule["expr"] for rule in rules()] + [q.replace("$__rate_interval", "5m").replace("$instance", ".*") for q in of_panels]


def promtool(*args, **keywords):
    assert shutil.which("promtool"), "no promtool: Debian's package prometheus"
    done = subprocess.run(["promtool", *args], cwd=MONITORING, capture_output=True, text=True, timeout=300, **keywords)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def until(condition):
    return wait_until(condition, 30)


def openfga_state(relay):
    """The one state of which the gauge is 1."""
    metrics = relay.metrics()
    of = {state: metrics[f'relay_openfga_state{{state="{state}"}}'] for state in STATES}
    assert sorted(of.values()) == [0, 0, 0, 1], of
    return max(of, key=of.get)


# The gauges


@pytest.mark.asan
def test_metrics_keep_to_prometheus_rules(db, store, start):
    relay = start(db, store)
    db.wait_delivered(*db.insert(archive(1)))
    assert promtool("check", "metrics", input=relay.request("GET", "/metrics")[2]) == ""


@pytest.mark.asan
def test_openfgas_state_is_told(db, durable_fga, durable_store, start):
    relay = start(db, durable_store, "--sweep-interval", "100ms")
    assert openfga_state(relay) == "ready"
    durable_fga.stop()
    until(lambda: openfga_state(relay) == "backoff")
    assert relay.metric("relay_ready") == 0
    durable_fga.start()
    until(lambda: openfga_state(relay) == "ready")
    durable_store.delete()
    until(lambda: openfga_state(relay) == "halted")
    assert relay.metric("relay_ready") == 0


@pytest.mark.asan
def test_a_delete_that_waits_grows_old(db, durable_fga, durable_store, start):
    relay = start(db, durable_store, "--sweep-interval", "100ms")
    durable_fga.stop()
    until(lambda: openfga_state(relay) == "backoff")
    first, = db.insert(archive(1))
    db.execute("UPDATE fga_outbox SET created_at = created_at - interval '1 hour'")
    db.insert({"writes": [], "deletes": []}, {"deletes": {"user": "user:a"}}, "7", '["deletes"]', "null")
    until(lambda: relay.metric("relay_rows_pending") == 6 and relay.metric(AGE) > 0)
    assert relay.metric(DELETE_AGE) == 0
    db.insert(deletes(viewer("anne", 1)))
    young = until(lambda: relay.metric(DELETE_AGE))
    until(lambda: relay.metric(DELETE_AGE) > young)
    metrics = relay.metrics()
    assert metrics[DELETE_AGE] < 3600 <= metrics[AGE]
    durable_fga.start()
    db.wait_delivered(first, timeout=30)
    until(lambda: relay.metric(DELETE_AGE) == 0)


def test_the_oldest_delete_is_looked_for_among_the_first_thousand(db, durable_fga, durable_store, start):
    relay = start(db, durable_store, "--sweep-interval", "100ms")
    durable_fga.stop()
    until(lambda: openfga_state(relay) == "backoff")
    db.insert(*[{}] * 1000, deletes(viewer("anne", 1)))
    until(lambda: relay.metric("relay_rows_pending") == 1001)
    assert relay.metric(DELETE_AGE) == 0
    db.execute("UPDATE fga_outbox SET processed_at = now() WHERE id = (SELECT min(id) FROM fga_outbox)")
    until(lambda: relay.metric(DELETE_AGE) > 0)
    durable_fga.start()


@pytest.mark.asan
def test_refused_rows_are_told_from_those_held_behind_them(db, store, start):
    """And a revocation that is held grows old like any other."""
    relay = start(db, store, "--sweep-interval", "100ms", "--min-backoff", "1h", "--max-backoff", "1h")
    assert relay.metric("relay_rows_refused") == 0
    refused, = db.insert(writes(viewer("anne", 1), ("spaceship:s1", "parent", "archive:a1")))
    until(lambda: relay.metric("relay_rows_refused") == 1)
    held, = db.insert(deletes(viewer("anne", 1)))
    until(lambda: relay.metric("relay_rows_parked") == 2)
    assert relay.metric("relay_rows_refused") == 1
    young = until(lambda: relay.metric(DELETE_AGE))
    until(lambda: relay.metric(DELETE_AGE) > young)
    db.execute("UPDATE fga_outbox SET processed_at = now() WHERE id = %s", refused)
    relay.signal(signal.SIGHUP)
    db.wait_delivered(held, timeout=30)
    until(lambda: relay.metric("relay_rows_refused") == relay.metric("relay_rows_parked") == 0)


def test_when_it_was_started(db, store, start):
    before = int(time.time())
    relay = start(db, store)
    assert before <= relay.metric("process_start_time_seconds") <= time.time()


# What comes with it


def test_promtool_accepts_the_configuration_and_the_alerts():
    promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", "--lint-fatal", "alerts.yml")
    promtool("test", "rules", "alerts_test.yml")


def test_promtool_accepts_every_query(tmp_path):
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": [
        {"record": f"query:{n}", "expr": query} for n, query in enumerate(queries())]}]}))
    promtool("check", "rules", str(path))


def test_every_query_asks_for_metrics_that_there_are(db, store, start):
    there = start(db, store).metrics()
    names = {series.split("{")[0] for series in there}
    for query in queries():
        for name, matchers in re.findall(r"(\w+)\{([^}]*)\}", query):
            for label, value in re.findall(r'(\w+)="([^"]*)"', matchers):
                assert label in SCRAPED or f'{name}{{{label}="{value}"}}' in there, query
        bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\b(by|without|on|ignoring|group_left|group_right) *\([^)]*\)", " ", query)
        asked = set(re.findall(r"\b[a-zA-Z_:][\w:]*\b(?! *\()", bare)) - WORDS
        assert asked <= names, (query, asked - names)
        assert asked or "up" in bare, query


def test_every_alert_says_how_bad_it_is_and_what_to_do():
    for rule in rules():
        assert rule["for"] and rule["labels"]["severity"] in ("critical", "warning"), rule
        assert all(len(rule["annotations"][text]) > 20 for text in ("summary", "description")), rule


def test_every_alert_was_seen_firing():
    with open(f"{MONITORING}/alerts_test.yml") as f:
        fired = re.findall(r'''labels: '{alertname="(\w+)", severity="(\w+)"}'$''', f.read(), re.M)
    assert set(fired) == {(rule["alert"], rule["labels"]["severity"]) for rule in rules()}


def test_every_alert_has_its_section():
    with open(f"{ROOT}/docker/README.md") as f:
        sections = re.findall(r"^### (\w+)\n\n(.+?)(?=^##|\Z)", f.read().split("\n## Alerts\n")[1], re.M | re.S)
    assert [name for name, _ in sections] == [rule["alert"] for rule in rules()]
    for (name, text), rule in zip(sections, rules()):
        assert f"*{rule['labels']['severity']}*" in text, name


def test_prometheus_itself_scrapes_a_relay_and_fires(db, durable_fga, durable_store, start, prometheus):
    relay = start(db, durable_store, "--sweep-interval", "300ms")
    server = prometheus(relay)
    target, = server.data("targets")["activeTargets"]
    assert (target["scrapeUrl"], target["labels"]["job"]) == (f"http://127.0.0.1:{relay.port}/metrics", "relay")
    db.wait_delivered(*db.insert(*map(archive, range(3))))
    until(lambda: server.value('relay_rows_delivered_total{job="relay"}') == 3)

    def loaded():
        return {rule["name"]: rule["health"] for group in server.data("rules")["groups"] for rule in group["rules"]}

    until(lambda: loaded() == {rule["alert"]: "ok" for rule in rules()})
    assert server.firing() == {}
    durable_fga.stop()
    try:
        said = server.wait_firing("RelayOpenFGAUnavailable")
        assert f"OpenFGA is not available to relay 127.0.0.1:{relay.port}" in said
    finally:
        durable_fga.start()


def test_the_dashboard_is_whole():
    with open(f"{MONITORING}/grafana/relay.json") as f:
        dashboard = json.load(f)
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids)) > 0
    assert {variable["name"] for variable in dashboard["templating"]["list"]} == {"datasource", "instance"}
    cells = set()
    for panel in dashboard["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}" and panel["title"] and panel["description"] and panel["targets"]
        at = panel["gridPos"]
        covered = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not covered & cells and max(x for x, _ in covered) < 24, panel["title"]
        cells |= covered


# The Compose profile


def test_compose_accepts_the_profile():
    """The Compose that docker/up would choose."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("COMPOSE_")}
    script = ["bash", "-c", ". ./compose.sh && compose --profile monitoring config"]
    done = subprocess.run(script, cwd=f"{ROOT}/docker", env=env, capture_output=True, text=True, timeout=300)
    if "neither 'docker compose' nor 'docker-compose' is here" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    assert {"prometheus", "grafana", "relay"} <= set(yaml.safe_load(done.stdout)["services"])


def test_the_profiles_services_have_their_files_and_stay_on_this_machine():
    with open(f"{ROOT}/docker/compose.yaml") as f:
        services = yaml.safe_load(f)["services"]
    assert {name: service["profiles"] for name, service in services.items() if "profiles" in service} == {
        "prometheus": ["monitoring"], "grafana": ["monitoring"]}
    mounted = {}
    for name in ("prometheus", "grafana"):
        service = services[name]
        assert re.search(r":-[\w/]+:v?\d+\.\d+\.\d+}$", service["image"])
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        for volume in service["volumes"]:
            source, target, mode = volume.split(":")
            with open(f"{ROOT}/docker/{source}") as f:
                assert f.read()
            assert mode == "ro"
            mounted[target] = source
    # Where prometheus.yml, Grafana's provider and its home look for what they name.
    assert all(f"/etc/prometheus/{name}" in mounted for name in ["prometheus.yml", *load("prometheus.yml")["rule_files"]])
    board, = [target for target, source in mounted.items() if source.endswith("relay.json")]
    assert board.startswith(load("grafana/provider.yml")["providers"][0]["options"]["path"] + "/")
    assert services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == board
    url, port = re.fullmatch(r"http://(\w+):(\d+)", load("grafana/datasource.yml")["datasources"][0]["url"]).groups()
    assert services[url]["ports"][0].endswith(f":{port}")
    target, = load("prometheus.yml")["scrape_configs"][0]["static_configs"][0]["targets"]
    assert services[target.split(":")[0]]["ports"][0].endswith(":" + target.split(":")[1])
