"""What Tab does in bash, zsh and fish, and what else is made from the tables of commands and options."""

import os
import pty
import re
import shutil
import subprocess
import termios

import pytest

from process import wait_until
from relay import BINARY, environment, run

GENERATED = os.path.join(os.path.dirname(BINARY), "packaging")
COMMANDS = ["run", "drain", "install", "status", "requeue", "healthcheck", "doctor", "reconcile"]

needs = {shell: pytest.mark.skipif(shutil.which(shell) is None, reason=f"no {shell} on this machine") for shell in ("bash", "zsh", "fish")}


def bash(line):
    """What Tab offers at the end of the line, where bash has broken it into words as it does: at = as well."""
    words = [word for word in re.split(r" |(=)", line) if word is not None and (word or line.endswith(" "))]
    words = [word for word in words[:-1] if word] + words[-1:]
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }; _relay; printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", f"{GENERATED}/relay.bash", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split()


def fish(line):
    env = {**os.environ, "HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent"}
    script = 'source $argv[1]; complete -C $argv[2]'
    done = subprocess.run(["fish", "--no-config", "-c", script, f"{GENERATED}/relay.fish", line], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [offer.split("\t")[0] for offer in done.stdout.splitlines()]


class Zsh:
    """An interactive zsh on a terminal of its own: only there does it complete. Control-X writes the line into a file."""

    def __init__(self, folder):
        self.line = folder / "line"
        self.ours, theirs = pty.openpty()
        os.set_blocking(self.ours, False)
        termios.tcsetwinsize(self.ours, (200, 200))
        self.seen = ""
        shutil.copy(f"{GENERATED}/_relay", folder)
        (folder / ".zshrc").write_text(
            f"fpath=({folder} $fpath); autoload -U compinit; compinit -D -u\n"
            f"show() {{ print -r -- $BUFFER > {self.line}; }}; zle -N show; bindkey '^X' show; PS1='>'\n")
        env = {**os.environ, "TERM": "vt100", "HOME": str(folder), "ZDOTDIR": str(folder)}
        self.process = subprocess.Popen(["zsh", "-d", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True)
        os.close(theirs)
        self.wait_for(lambda: ">" in self.seen)

    def wait_for(self, condition):
        def holds():
            try:
                self.seen += os.read(self.ours, 65536).decode()
            except BlockingIOError:
                pass
            return condition()
        wait_until(holds, 30, what=lambda: repr(self.seen))

    def tab(self, line):
        """The line as it stands after Tab; what is listed below is in `seen`."""
        self.line.unlink(missing_ok=True)
        self.seen = ""
        os.write(self.ours, f"\x15{line}\t\x18".encode())
        self.wait_for(lambda: self.line.exists() and self.line.read_text().endswith("\n"))
        return self.line.read_text()[:-1]

    def lists(self, line, *texts):
        self.tab(line)
        self.wait_for(lambda: all(text in self.seen for text in texts))

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.ours)


@pytest.fixture
def zsh(tmp_path):
    made = Zsh(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("offers", [pytest.param(bash, marks=needs["bash"]), pytest.param(fish, marks=needs["fish"])])
def test_commands_flags_and_values(offers):
    assert offers("relay st") == ["status"]
    assert set(offers("relay ")) == {*COMMANDS, "help"}
    assert set(offers("relay help ")) >= set(COMMANDS)
    assert offers("relay help dr") == ["drain"]
    assert set(offers("relay run --batch")) == {"--batch-rows", "--batch-bytes"}
    assert set(offers("relay --batch")) == {"--batch-rows", "--batch-bytes"}, "what relay alone does is run"
    assert offers("relay install --unin") == ["--uninstall"]
    assert offers("relay run --unin") == [] and offers("relay --unin") == [], "another command's"
    assert offers("relay status --batch") == []
    assert set(offers("relay run --ver")) == {"--version"}
    assert set(offers("relay run --log-level ")) == {"debug", "info", "warning", "error"}
    assert offers("relay drain --lanes 4 --log-format js") == ["json"]
    assert offers("relay run --table ") == []


@needs["bash"]
def test_bash_after_an_equals_sign():
    assert bash("relay run --log-level=wa") == ["warning"]
    assert set(bash("relay run --log-format=")) == {"logfmt", "json"}


@pytest.mark.parametrize("offers", [pytest.param(bash, marks=needs["bash"]), pytest.param(fish, marks=needs["fish"])])
def test_paths_where_a_value_is_a_path(offers, tmp_path):
    (tmp_path / "certificates.pem").write_text("")
    assert offers(f"relay run --fga-ca-file {tmp_path}/cert") == [f"{tmp_path}/certificates.pem"]


@needs["zsh"]
def test_zsh(zsh, tmp_path):
    (tmp_path / "certificates.pem").write_text("")
    assert zsh.tab("relay st") == "relay status "
    assert zsh.tab("relay help dr") == "relay help drain "
    assert zsh.tab("relay --batch-r").startswith("relay --batch-rows")
    assert zsh.tab("relay install --unin") == "relay install --uninstall "
    assert zsh.tab("relay run --unin") == "relay run --unin", "another command's"
    assert zsh.tab("relay drain --lanes 4 --log-format js") == "relay drain --lanes 4 --log-format json "
    assert zsh.tab("relay drain --log-format=js") == "relay drain --log-format=json "
    assert zsh.tab(f"relay run --fga-ca-file {tmp_path}/cert") == f"relay run --fga-ca-file {tmp_path}/certificates.pem "
    zsh.lists("relay ", *COMMANDS, "help")
    zsh.lists("relay run --batch-", "--batch-rows", "--batch-bytes", "payload that one claim takes at most")
    zsh.lists("relay run --log-level ", "debug", "warning", "error")


@needs["bash"]
def test_every_flag_that_help_lists_is_offered():
    for command in COMMANDS:
        listed = set(re.findall(r"^  (--[a-z-]+)", run(command, "--help", env=environment()).stdout, re.M))
        assert set(bash(f"relay {command} --")) == listed


def test_the_overview_is_short_and_a_commands_options_are_grouped():
    lines = run("--help", env=environment()).stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 100, "a screen"
    assert [line.split()[0] for line in lines if line.startswith("  ")] == COMMANDS
    assert not [line for line in lines if line.startswith("  --")]
    headings = [line for line in run("run", "--help", env=environment()).stdout.splitlines() if re.fullmatch(r"[A-Z][A-Za-z ]+:", line)]
    assert headings == ["Postgres:", "OpenFGA:", "Credentials for OpenFGA:", "Delivery:", "Time limits and retries:", "Probe:", "Logging:", "Other:"]


def test_the_environment_file_changes_nothing_and_names_what_run_takes():
    with open(f"{GENERATED}/relay.env") as f:
        lines = f.read().splitlines()
    assert all(line == "" or line.startswith("#") for line in lines)
    named = [line[1:].split("=", 1) for line in lines if re.match(r"#[A-Z_]+=", line)]
    text = run("run", "--help", env=environment()).stdout
    assert len(named) > 30 and all(name in text for name, _ in named)
    assert ["RELAY_SWEEP_INTERVAL", "10s"] in named and ["DATABASE_URL", ""] in named and ["FGA_API_TOKEN_FILE", ""] in named


@pytest.mark.skipif(shutil.which("man") is None, reason="no man on this machine")
def test_the_manual_page_has_every_command_and_no_fault():
    env = {**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MANROFFSEQ": ""}
    done = subprocess.run(["man", "--warnings=all", "-l", f"{GENERATED}/relay.1"], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    text = re.sub(r".\x08", "", done.stdout)
    assert all(re.search(rf"^ +{command}\b", text, re.M) for command in COMMANDS)
    assert [text.index(f"\n   {heading}\n") for heading in ("Postgres", "Delivery", "Logging")] == sorted(
        text.index(f"\n   {heading}\n") for heading in ("Postgres", "Delivery", "Logging"))
