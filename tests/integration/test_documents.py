"""README.md and docker/README.md are true: every command in them is run, as a reader would type it, on real parts at the addresses that they
name, and what they show of its output is what comes out. A block that is new is run like the others, or fails."""

import json
import os
import re
from contextlib import nullcontext

import pytest

import documents
import relay
from scenes import SCENES
from stage import PORT, port_of

pytestmark = [
    pytest.mark.xdist_group("stage"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace and a mount namespace need root"),
]

# What is not run here, and what tells of it instead.
ELSEWHERE = {
    "docker/up": "test_compose.py runs it",
    "tests/run": "it runs this test",
    "cmake --workflow --preset package && apt install ./build/package/relay_*.deb": "test_package.py makes it, and installs it in a container",
    "editor /etc/relay/relay.env": "test_package.py appends to the file",
    "systemd-run --pipe --quiet -p User=relay -p EnvironmentFile=/etc/relay/relay.env relay doctor": "test_package.py runs it in a container",
    "systemctl enable --now relay": "test_package.py runs it in a container",
    "cmake --workflow --preset dev": "what is tested was made by it, or by another preset that tests/run builds",
    "COMPOSE_PROFILES=monitoring PROMETHEUS_PORT=9090 GRAFANA_PORT=3000 docker/up": "it pulls images of others; test_monitoring.py has Compose read it",
}
LANGUAGES_ELSEWHERE = {"ts": "test_wait.py runs it"}

# How the commands of a section end, where not all end well.
ENDS = {
    "README.md: Running it": [1, 0, 1],
    "docker/README.md: A pool in transaction mode": [2, 0, 0, 3],
    "docker/README.md: Backups and restores": [1, 1, 0, 0],
    "docker/README.md: RelayNotReady": [0, 2, 0, 0],
    "docker/README.md: RelayHalted": [2],
}

# What changes nothing is asked again: a relay that others keep from the processor for seconds does not answer in time.
LOOKS = re.compile(r"^[^|;&]*\b(curl|relay (doctor|status|healthcheck))\b")

# Flags that are not relay's: of OpenFGA, or of what makes and runs it.
FLAG, VARIABLE = re.compile(r"(?<![\w-])--[a-z][a-z-]+"), re.compile(r"\b(?:FGA|RELAY|DATABASE)_[A-Z_]+")
FLAGS_OF_OTHERS = {"--datastore-max-open-conns", "--install", "--minutes", "--now", "--pipe", "--preset", "--quiet", "--workflow"}


def commands(section):
    return [command for block in section.blocks if block.language == "console" for command in block.commands()]


def is_elsewhere(command):
    return re.sub(r"\s+# .*", "", command.text) in ELSEWHERE


def here(section):
    """The commands and the other blocks that are tried out here."""
    return [c for c in commands(section) if not is_elsewhere(c)] + [
        block for block in section.blocks if block.language not in LANGUAGES_ELSEWHERE and block.language != "console"]


SECTIONS = [section for name in documents.NAMES for section in documents.sections(name, documents.read(name))]


class Typist:
    """Types a section's blocks, one after the other."""

    def __init__(self, stage, section):
        self.stage = stage
        self.section = section
        self.exports = []
        self.ends = iter(ENDS.get(str(section)) or [0] * len(commands(section)))
        self.kinds = {"console": self.console, "sql": self.sql, "json": self.payload}

    def type(self, block):
        if block.language not in LANGUAGES_ELSEWHERE:
            assert block.language in self.kinds, f"{self.section}: how is {block.language} tried out?"
            self.kinds[block.language](block)

    def console(self, block):
        for command in block.commands():
            if not is_elsewhere(command):
                self.command(command)

    def once(self, text):
        """(how it ended, what it printed)"""
        if port_of(text) is not None:
            return 0, self.stage.serve(text, self.exports)
        done = self.stage.shell("\n".join([*self.exports, text]))
        return done.returncode, done.stdout

    def command(self, command):
        wanted = next(self.ends)
        for _ in range(3 if LOOKS.search(command.text) else 1):
            code, printed = self.once(command.text)
            if code == wanted and documents.agrees(command.output, printed.splitlines()):
                break
        else:
            raise AssertionError(f"{self.section}: {command.text}\nends with {code}, not {wanted}, or prints something else:\n{printed}")
        if command.text.startswith("export "):
            self.exports.append(command.text)

    def sql(self, block):
        done = self.stage.sql(block.text)
        assert done.returncode == 0, f"{self.section}: {block.text}\n{done.stdout}"

    def payload(self, block):
        """A row's, which goes out when a relay comes."""
        self.stage.ledger.insert(json.loads(block.text))


def play(stage, section):
    """A relay runs meanwhile, unless the section starts one in its place."""
    if PORT not in [port_of(command.text) for command in commands(section)]:
        stage.start_relay()
    scene = SCENES.get(str(section))
    with scene(stage) if scene else nullcontext():
        typist = Typist(stage, section)
        for block in section.blocks:
            typist.type(block)


@pytest.mark.parametrize("section", [section for section in SECTIONS if here(section)], ids=str)
def test_what_a_section_says_is_so(stage, section):
    play(stage, section)


def test_what_is_listed_here_stands_in_the_documents():
    names = {str(section) for section in SECTIONS}
    assert set(SCENES) <= names and set(ENDS) <= names
    for name, ends in ENDS.items():
        section, = [s for s in SECTIONS if str(s) == name]
        assert len(ends) == len([c for c in commands(section) if not is_elsewhere(c)])
    there = {re.sub(r"\s+# .*", "", c.text) for section in SECTIONS for c in commands(section)}
    assert set(ELSEWHERE) <= there
    assert set(LANGUAGES_ELSEWHERE) <= {block.language for section in SECTIONS for block in section.blocks}


@pytest.mark.parametrize("wrong", [
    "```console\n$ relay doctors\n```",
    "```console\n$ relay healthcheck --port 8090\n```",
    "```console\n$ relay status --json\n{}\n```",
    "```console\n$ relay doctor\n…\nok       trigger        it notifies channel fga_outbox\n```",
    "```console\n$ export FGA_STORE_NAME=another\n$ relay doctor\n```",
    "```console\n$ relay run --lanes none\n```",
    "```console\nrelay doctor\n```",
    "```sql\nSELECT attempt FROM fga_outbox;\n```",
    "```json\n{\"writes\": [}\n```",
    "```toml\nlanes = 4\n```",
    "```console\n$ relay doctor\n",
])
def test_what_is_not_so_fails(stage, wrong):
    with pytest.raises((AssertionError, ValueError)):
        section, = documents.sections("README.md", f"# A title\n\n{wrong}")
        play(stage, section)


@pytest.mark.parametrize("shown, printed, agrees", [
    (["id 9, 14.2 s"], ["id 10, 3 min 1 s"], True),
    (["store  14  tuples"], ["store 3  tuples"], True),
    (["store  14  tuples"], ["stores 14  tuples"], False),
    (["ok  15.18 (Debian 15.18-0+deb12u1)"], ["ok  17.6 (Debian 17.6-0+deb13u1)"], True),
    (["one", "…", "four"], ["one", "two", "three", "four"], True),
    (["one", "…"], ["one"], True),
    (["one"], ["one", "two"], False),
    (["one", "two"], ["one"], False),
    (["…", "two"], ["one", "two", "three"], False),
    (["one … three"], ["one two three"], True),
    (["one … three"], ["one two"], False),
    ([], ["whatever"], True),
])
def test_numbers_may_differ_and_nothing_else(shown, printed, agrees):
    assert documents.agrees(shown, printed) == agrees


def test_every_option_that_is_named_is_one():
    names = re.findall(r"^  (\w+) ", relay.run("--help", env=relay.environment()).stdout, re.M)
    assert "reconcile" in names
    text = "\n".join(relay.run(name, "--help", env=relay.environment()).stdout for name in names)
    for document in map(documents.read, documents.NAMES):
        assert set(FLAG.findall(document)) - FLAGS_OF_OTHERS - set(FLAG.findall(text)) == set()
        variables = set(VARIABLE.findall(text))
        assert set(VARIABLE.findall(document)) - variables - {f"{name}_FILE" for name in variables} == set()


def anchors(text):
    """As GitHub makes them of headings."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", text, re.M)}


@pytest.mark.parametrize("name", [*documents.NAMES, "src/README.md", "tests/bench/README.md"])
def test_every_link_leads_somewhere(name):
    for target in re.findall(r"\]\(([^)]+)\)", documents.read(name)):
        path, _, anchor = target.partition("#")
        if "://" not in path:
            other = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            assert os.path.exists(f"{relay.ROOT}/{other}"), target
            assert not anchor or anchor in anchors(documents.read(other)), target
