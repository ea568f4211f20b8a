"""The probe's page, in a real Chromium: what it shows while relay delivers, when it cannot, and when relay is gone."""

import base64
import hashlib
import json
import re
import signal

import pytest

from browser import Browser
from process import wait_until
from rows import archive, archives, deletes, unknown, writes

TELEPHONE = (390, 844)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    made = Browser(tmp_path_factory.mktemp("chromium"))
    yield made
    made.close()


@pytest.fixture
def browser(chromium):
    """On no page, with nothing in its logs; afterwards nothing may have been complained of, or asked for elsewhere."""
    chromium.open("about:blank")
    chromium.scheme("light")
    chromium.complaints()
    chromium.requests()
    chromium.lost = False  # whether relay was to be missed
    yield chromium
    if not chromium.lost:
        assert chromium.complaints() == []
    chromium.size(1120, 900)


def look(browser, relay):
    browser.open(f"http://127.0.0.1:{relay.port}/")
    sees(browser, "#tiles", "Pending")


def sees(browser, selector, *texts):
    """Waits until all of these texts are shown there."""
    wait_until(lambda: all(text in browser.text(selector) for text in texts), 30, every=0.1, what=lambda: f"{texts} in {browser.text(selector)!r}")


def tile(browser, name):
    """(value, note)"""
    lines = browser.run("return [...document.querySelectorAll('.tile')].map((t) => [...t.children].map((e) => e.textContent))")
    return next((value, note) for title, value, note in lines if title == name)


def legend(browser, plot):
    """{"rows": "12/s", …}: the latest values of a plot."""
    items = browser.run(
        "return [...document.querySelectorAll('.plot')].filter((p) => p.querySelector('h2').textContent === arguments[0])"
        ".flatMap((p) => [...p.querySelectorAll('.legend span')].map((e) => e.textContent))", plot)
    return dict(item.rsplit(" ", 1) if "/s" in item else item.split(" ", 1) for item in items)


def overview(relay, query=""):
    status, _, text = relay.request("GET", "/overview.json" + query)
    assert status == 200, text
    return json.loads(text)


def samples(relay):
    """[{"at": …, "rows": …}, …]"""
    history = overview(relay)["history"]
    return [dict(zip(history["names"], values, strict=True)) for values in history["samples"]]


def latest(relay):
    """The last of them; none yet: {}"""
    return (samples(relay) or [{}])[-1]


def test_it_shows_how_delivery_goes(db, store, start, browser, load):
    relay = start(db, store)
    loading = load(db)
    look(browser, relay)
    sees(browser, "#headline", "Delivering")
    sees(browser, "header", "delivers fga_outbox")
    wait_until(lambda: tile(browser, "Commit to acceptance")[0].endswith("s"), 30)
    wait_until(lambda: legend(browser, "Delivered")["rows"] != "0/s", 30, what=lambda: legend(browser, "Delivered"))
    assert legend(browser, "OpenFGA’s answers").keys() == {"delivered", "retry", "split", "rejected", "halt"}
    wait_until(lambda: tile(browser, "Listening") == ("yes", "Postgres connected; OpenFGA ready"), 30)
    sees(browser, "#parked", "None.")
    loading.stop()
    sees(browser, "#headline", "Ready; nothing to deliver")


@pytest.mark.asan
def test_what_it_shows_is_what_the_metrics_say(db, store, start):
    relay = start(db, store, "--sweep-interval", "200ms")
    # Before /metrics is asked, which looks afresh as well.
    wait_until(lambda: all(latest(relay).get(name) == 1 for name in ("ready", "listening", "openfga")), 20)
    db.insert(*archives(range(300)))
    db.wait_delivered()
    wait_until(lambda: sum(s["rows"] for s in samples(relay)) == overview(relay)["minute"]["rows"] == 300, 20)
    taken = samples(relay)
    assert relay.metric("relay_rows_delivered_total") == 300
    assert sum(s["tuples"] for s in taken) == 600 == relay.metric("relay_tuples_delivered_total")
    assert sum(s["delivered"] for s in taken) == relay.metric('relay_requests_total{verdict="delivered"}')
    for kind in ("age", "request"):
        assert all(0 < s[f"{kind}_p50"] <= s[f"{kind}_p95"] <= s[f"{kind}_p99"] for s in taken if s["delivered"] > 0)
        assert all(s[f"{kind}_p50"] is None for s in taken if s["delivered"] == 0)
    wait_until(lambda: latest(relay)["pending"] == overview(relay)["pending"] == 0, 20)


@pytest.mark.asan
def test_only_what_is_new_is_sent(db, store, start):
    relay = start(db, store)
    wait_until(lambda: len(samples(relay)) >= 2, 20)
    told = overview(relay)["history"]
    later = overview(relay, f"?since={told['next']}")["history"]
    assert len(told["samples"]) == told["next"] and len(later["samples"]) == later["next"] - told["next"]
    wait_until(lambda: overview(relay, f"?since={told['next']}")["history"]["samples"], 20)
    assert overview(relay, f"?since={told['next']}")["history"]["samples"][0] == overview(relay)["history"]["samples"][told["next"]]
    assert len(overview(relay, "?since=999999")["history"]["samples"]) > 2, "another process's number brings all"
    for wrong in ("?since=", "?since=-1", "?since=x", "?since=1&since=2", "?from=1", "?since=99999999999999999999"):
        status, _, text = relay.request("GET", "/overview.json" + wrong)
        assert status == 400 and "since=42" in text, wrong


def test_openfga_stops_in_the_middle(db, durable_fga, durable_store, start, browser, load):
    relay = start(db, durable_store, "--sweep-interval", "300ms")
    loading = load(db)
    look(browser, relay)
    sees(browser, "#headline", "Delivering")
    durable_fga.stop()
    try:
        sees(browser, "#headline", "Not delivering")
        sees(browser, "#why", "openfga:", "cannot be reached")
        sees(browser, "#tiles", "OpenFGA backoff")
        wait_until(lambda: int(tile(browser, "Pending")[0].replace(",", "").split()[0]) > 0, 30)
        wait_until(lambda: browser.run("return document.querySelectorAll('#strip rect[fill=\"var(--bad)\"]').length") > 0, 30)
        assert "not delivering" in browser.run("return document.title")
    finally:
        durable_fga.start()
    sees(browser, "#headline", "Delivering")
    wait_until(lambda: browser.text("#why") == "", 30, what=lambda: browser.text("#why"))
    loading.stop()


@pytest.mark.asan
def test_refused_and_held_rows_with_reason_and_id(db, store, start, browser):
    relay = start(db, store)
    refused = db.insert(*[unknown(n) for n in range(7)])
    [held] = db.insert(deletes(("spaceship:s0", "parent", "archive:a0"), ("user:anne", "viewer", "archive:a0")))
    wait_until(lambda: overview(relay)["parked"]["refused"] == 7 and overview(relay)["parked"]["held"] == 1, 20, what=lambda: overview(relay)["parked"])
    look(browser, relay)
    sees(browser, "#reasons", "type 'spaceship' not found", f"{refused[0]}, {refused[1]}", ", …")
    sees(browser, "#reasons", f"held behind row {refused[0]}", str(held))
    sees(browser, "#remedy", "relay requeue --all-refused")
    sees(browser, "#why", "7 rows refused")
    assert tile(browser, "Refused") == ("7", "rows; held behind others 1")


def test_a_reason_is_text_whatever_is_in_it(db, store, start, browser):
    """OpenFGA repeats what it refuses, and anybody may have written that."""
    script = "<img src=x onerror=document.title='taken'>"
    relay = start(db, store)
    db.insert(writes((f"spaceship:{script}", "parent", "archive:a1")))
    db.insert({"writes": [], script: 1})
    wait_until(lambda: overview(relay)["parked"]["refused"] == 2, 20)
    look(browser, relay)
    sees(browser, "#reasons", script)
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert "taken" not in browser.run("return document.title")


def test_it_says_when_it_has_lost_touch(db, store, start, browser):
    relay = start(db, store)
    look(browser, relay)
    assert browser.text("#lost") == ""
    browser.lost = True
    relay.signal(signal.SIGSTOP)
    try:
        sees(browser, "#lost", "No answer from relay since")
        assert browser.run("return document.title") == "relay: no answer"
    finally:
        relay.signal(signal.SIGCONT)
    wait_until(lambda: browser.text("#lost") == "", 30)
    sees(browser, "#headline", "Ready")


def test_another_relay_in_its_place_begins_anew(db, store, start, browser):
    browser.lost = True
    relay = start(db, store)
    wait_until(lambda: len(samples(relay)) >= 2, 20)
    look(browser, relay)
    relay.stop()
    sees(browser, "#lost", "No answer from relay since")
    later = start(db, store, port=relay.port)
    wait_until(lambda: browser.text("#lost") == "", 30)
    wait_until(lambda: browser.run("return started") == overview(later)["started_ms"], 30)
    wait_until(lambda: [s["at"] for s in browser.run("return samples")] == [s["at"] for s in samples(later)], 30)


def test_nothing_from_elsewhere_and_nothing_that_changes_state(db, store, start, browser):
    relay = start(db, store)
    look(browser, relay)
    origin = f"http://127.0.0.1:{relay.port}/"
    asked = [url for url in browser.requests() if not url.startswith("data:image/svg+xml")]
    assert asked[0] == origin and all(re.fullmatch(re.escape(origin) + r"(overview\.json\?since=\d+)?", url) for url in asked), asked
    assert browser.run("return document.querySelectorAll('form, button, input, a, iframe, script[src], link[rel=stylesheet]').length") == 0
    # The policy is in force: what is not in the page itself does not run, and is not fetched.
    browser.run("const s = document.createElement('script'); s.textContent = 'document.title = \"taken\"'; document.body.append(s)")
    browser.run("document.body.insertAdjacentHTML('beforeend', '<style>body { display: none }</style>')")
    assert "taken" not in browser.run("return document.title")
    assert browser.run("return getComputedStyle(document.body).display") == "block"
    assert browser.run("return fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"
    assert len([c for c in browser.complaints() if "Content Security Policy" in c]) >= 3


@pytest.mark.asan
def test_the_policy_names_just_what_is_in_the_page(db, store, start):
    relay = start(db, store)
    status, headers, html = relay.request("GET", "/")
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    for directive in ("default-src", "base-uri", "form-action", "frame-ancestors"):
        assert policy[directive] == "'none'"
    for tag in ("style", "script"):
        [text] = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.S)
        assert policy[f"{tag}-src"] == f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
    assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
    status, headers, text = relay.request("HEAD", "/")
    assert (status, text) == (200, "") and int(headers["content-length"]) == len(html.encode())


@pytest.mark.asan
@pytest.mark.parametrize("flags, variable", [(["--no-page"], None), ([], "1")], ids=["flag", "environment"])
def test_no_page(db, store, start, flags, variable):
    relay = start(db, store, *flags, RELAY_NO_PAGE=variable)
    for path in ("/", "/overview.json"):
        status, _, text = relay.request("GET", path)
        assert status == 404 and "overview" not in text
    assert relay.ready()


def test_light_and_dark_and_on_a_telephone(db, store, start, browser):
    relay = start(db, store)
    db.insert(unknown(1))
    look(browser, relay)
    sees(browser, "#reasons", "spaceship")
    ground = {}
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        colour = browser.run("return getComputedStyle(document.body).backgroundColor")
        ground[scheme] = sum(map(int, re.findall(r"\d+", colour)))
    assert ground["light"] > 600 and ground["dark"] < 150
    browser.size(*TELEPHONE, mobile=True)
    assert browser.run("return innerWidth") == TELEPHONE[0]
    assert browser.run("return document.documentElement.scrollWidth") <= TELEPHONE[0], "nothing is wider than the screen"
    assert float(browser.run("return getComputedStyle(document.querySelector('#reasons td')).fontSize").removesuffix("px")) >= 13


def test_a_value_under_the_pointer(db, store, start, browser):
    relay = start(db, store)
    db.insert(*archives(range(50)))
    db.wait_delivered()
    wait_until(lambda: any(s["rows"] for s in samples(relay)) and latest(relay)["rows"] == 0, 20)
    look(browser, relay)
    busy = next(i for i, s in enumerate(browser.run("return samples")) if s["rows"] > 0)
    pointed = browser.run(
        "const s = samples[arguments[0]], box = PLOTS[0].svg.getBoundingClientRect();"
        "PLOTS[0].svg.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + box.width * x(s.at, last.now_ms) / WIDTH }));"
        "return PLOTS[0].legend[0].textContent", busy)
    assert pointed.startswith("rows ") and pointed != "rows 0/s"
    browser.run("PLOTS[0].svg.dispatchEvent(new PointerEvent('pointerleave'))")
    assert legend(browser, "Delivered")["rows"] == "0/s"
