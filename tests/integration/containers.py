"""Commands in an environment that holds nothing of a relay's, and Docker's images."""

import os
import subprocess

from relay import ROOT

BASE = "debian:trixie-slim"
NAMES = ("PG", "POSTGRES_", "OPENFGA_", "FGA_", "RELAY_", "DATABASE_URL", "COMPOSE_")


def run(*command, check=True, text=None, **extra):
    """Runs a command to its end, from the tree's top; extra: variables; text: what it reads."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(NAMES)}
    keywords = {"input": text} if text is not None else {"stdin": subprocess.DEVNULL}
    done = subprocess.run(command, cwd=ROOT, env={**env, **extra}, capture_output=True, text=True, timeout=900, **keywords)
    assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done


def need_base():
    """Debian's image, pulled or made, as docker/up does it."""
    for command in (["docker", "image", "inspect", BASE], ["timeout", "600", "docker", "pull", "-q", BASE]):
        if run(*command, check=False).returncode == 0:
            return
    run(f"{ROOT}/docker/standin/build", "base", BASE)


def dead(names, prefix):
    """Those names `prefix` + the id of a process that is gone, whatever follows it, with what follows it cut off."""
    ids = {name[len(prefix):].split("-")[0] for name in names if name.startswith(prefix)}
    return {f"{prefix}{pid}" for pid in ids if pid.isdigit() and not os.path.exists(f"/proc/{pid}")}
