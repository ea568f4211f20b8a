"""The Debian package: what is in it; and installed, started, restarted, upgraded and purged in a container that systemd runs in.

The package of this machine's Debian is looked at from outside; the container's Debian has one of its own."""

import glob
import os
import re
import shutil

import pytest

from containers import BASE, dead, need_base, run
from process import free_port, wait_until
from relay import ROOT
from rows import all_tuples, archive, archives

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("package")]
needs_docker = pytest.mark.skipif(shutil.which("docker") is None, reason="no Docker on this machine")

PREFIX = "relaypackage"
NAME = f"{PREFIX}{os.getpid()}"
ENV = "/etc/relay/relay.env"

FILES = {
    "./etc/relay/relay.env": "-rw-------",
    "./usr/bin/relay": "-rwxr-xr-x",
    "./usr/lib/systemd/system/relay.service": "-rw-r--r--",
    "./usr/lib/sysusers.d/relay.conf": "-rw-r--r--",
    "./usr/share/bash-completion/completions/relay": "-rw-r--r--",
    "./usr/share/doc/relay/changelog.Debian.gz": "-rw-r--r--",
    "./usr/share/doc/relay/changelog.gz": "-rw-r--r--",
    "./usr/share/doc/relay/copyright": "-rw-r--r--",
    "./usr/share/fish/vendor_completions.d/relay.fish": "-rw-r--r--",
    "./usr/share/lintian/overrides/relay": "-rw-r--r--",
    "./usr/share/man/man1/relay.1.gz": "-rw-r--r--",
    "./usr/share/zsh/vendor-completions/_relay": "-rw-r--r--",
}


@pytest.fixture(scope="module")
def package():
    """The path of the package, made as the README says."""
    for old in glob.glob(f"{ROOT}/build/package/*.deb"):
        os.unlink(old)
    done = run("cmake", "--workflow", "--preset", "package")
    assert "warning" not in (done.stdout + done.stderr).lower(), done.stdout + done.stderr
    made, = glob.glob(f"{ROOT}/build/package/*.deb")
    return made


def test_its_files_and_their_modes(package):
    lines = [line.split() for line in run("dpkg-deb", "-c", package).stdout.splitlines()]
    assert {line[5]: line[0] for line in lines if not line[0].startswith("d")} == FILES
    assert {line[0] for line in lines if line[0].startswith("d")} == {"drwxr-xr-x"}
    assert {line[1] for line in lines} == {"root/root"}


def test_what_it_says_of_itself(package):
    fields = dict(re.findall(r"^ ?([\w-]+): (.*)$", run("dpkg-deb", "-I", package).stdout, re.M))
    assert fields["Package"] == "relay" and fields["Section"] == "database" and fields["Priority"] == "optional"
    assert re.fullmatch(r"\d+\.\d+\.\d+-1(~deb\d+)?", fields["Version"])
    assert all(library in fields["Depends"] for library in ("libc6 (>=", "libpq5", "libcurl4", "libevent-core", "libcjson1", "systemd"))
    assert int(fields["Installed-Size"]) < 2000
    changes = run("sh", "-c", f"dpkg-deb --fsys-tarfile {package} | tar -xO ./usr/share/doc/relay/changelog.Debian.gz | zcat").stdout
    assert changes.startswith(f"relay ({fields['Version']}) ")
    assert run("dpkg-parsechangelog", "-l", "-", "-S", "Version", text=changes).stdout.strip() == fields["Version"]


def test_lintian_has_nothing_to_say(package):
    done = run("lintian", "--allow-root", "--fail-on", "error,warning", package, check=False)
    assert done.returncode == 0 and done.stdout == "", done.stdout + done.stderr


def test_cmake_install_keeps_the_settings_that_are_there(package, tmp_path):
    install = ["cmake", "--install", os.path.dirname(package)]
    run(*install, DESTDIR=str(tmp_path))
    settings = tmp_path / ENV.lstrip("/")
    assert settings.stat().st_mode & 0o777 == 0o600
    settings.write_text("RELAY_LANES=2\n")
    run(*install, DESTDIR=str(tmp_path))
    assert settings.read_text() == "RELAY_LANES=2\n" and settings.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "usr/share/man/man1/relay.1").exists()


def remove(name):
    """Takes away what a run has left."""
    run("docker", "rm", "-f", name, check=False)
    run("docker", "rmi", "-f", f"{name}-build", f"{name}-systemd", check=False)
    # Where Docker uses the first version of cgroups, it does not know of BOOT's.
    for top in glob.glob(f"/sys/fs/cgroup/{name}") + glob.glob(f"/sys/fs/cgroup/*/{name}"):
        for folder, _, _ in os.walk(top, topdown=False):
            os.rmdir(folder)


# With what docker/Dockerfile's first stage has compiled.
PACK = """
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq --no-install-recommends dpkg-dev file >/dev/null
cmake -S /relay -B /build -DCMAKE_INSTALL_PREFIX=/usr
cmake --build /build
cpack --config /build/CPackConfig.cmake -B /out
cp /out/*.deb /out/relay.deb
"""

# A group of processes of its own, which is the whole tree for those inside: systemd manages that one, and no other.
BOOT = """
set -e
umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
mkdir "/sys/fs/cgroup/$1"
echo $$ >"/sys/fs/cgroup/$1/cgroup.procs"
umount /sys/fs/cgroup
exec unshare --cgroup sh -c 'mount -t cgroup2 none /sys/fs/cgroup && exec /lib/systemd/systemd'
"""


class Machine:
    """A container with systemd, in this machine's network."""

    def __init__(self, folder):
        run("docker", "build", "-t", f"{NAME}-build", "--target", "build", "-f", f"{ROOT}/docker/Dockerfile", ROOT)
        run("docker", "run", "--rm", "-v", f"{ROOT}:/relay:ro", "-v", f"{folder}:/out", f"{NAME}-build", "sh", "-ec", PACK)
        run("docker", "build", "-t", f"{NAME}-systemd", "-", text=f"""
            FROM {BASE}
            RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends systemd dbus >/dev/null
            RUN rm -f /usr/sbin/policy-rc.d
        """)
        # SYS_PTRACE: systemd sets up PrivateUsers= from a process to which ProtectProc= already hides the other one.
        run("docker", "run", "-d", "--name", NAME, "--network", "host", "--cap-add", "SYS_ADMIN", "--cap-add", "SYS_PTRACE",
            "--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined", "--tmpfs", "/run",
            "-e", "container=docker", f"{NAME}-systemd", "sh", "-c", BOOT, "sh", NAME)
        wait_until(self.is_up, 60, every=0.2, what=lambda: run("docker", "logs", NAME, check=False))
        run("docker", "cp", f"{folder}/relay.deb", f"{NAME}:/opt/relay.deb")

    def run(self, *command, check=True, text=None):
        return run("docker", "exec", "-i", "-e", "DEBIAN_FRONTEND=noninteractive", NAME, *command, check=check, text=text)

    def is_up(self):
        return self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded")

    def show(self, *names):
        """Properties of relay.service."""
        done = self.run("systemctl", "show", "relay", *(f"--property={name}" for name in names))
        values = dict(line.split("=", 1) for line in done.stdout.splitlines())
        return values[names[0]] if len(names) == 1 else values

    def wait_for(self, name, holds):
        wait_until(lambda: holds(self.show(name)), 60, every=0.2, what=lambda: self.run("journalctl", "-u", "relay", "-n", "50", check=False).stdout)

    def configure(self, database, store):
        """Appends to the settings as an administrator would."""
        settings = {"DATABASE_URL": database.url, "FGA_API_URL": store.url, "FGA_STORE_ID": store.id, "FGA_MODEL_ID": store.model_id,
                    "RELAY_HTTP_LISTEN": f"127.0.0.1:{free_port()}"}
        self.run("sh", "-c", f"cat >> {ENV}", text="".join(f"{name}={value}\n" for name, value in settings.items()))


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    names = run("docker", "ps", "-a", "--format", "{{.Names}}").stdout + run("docker", "images", "--format", "{{.Repository}}").stdout
    for name in dead(names.splitlines(), PREFIX):
        remove(name)
    need_base()
    try:
        made = Machine(tmp_path_factory.mktemp("package"))
        made.run("apt-get", "install", "-qq", "--no-install-recommends", "/opt/relay.deb")
        yield made
    finally:
        remove(NAME)


@needs_docker
def test_installed_it_waits_for_its_settings(machine):
    assert machine.run("stat", "-c", "%a %U:%G", ENV).stdout == "600 root:root\n"
    assert re.match(r"relay:x:\d+:\d+:[^:]*:/nonexistent:/usr/sbin/nologin$", machine.run("getent", "passwd", "relay").stdout)
    assert machine.run("runuser", "-u", "relay", "--", "cat", ENV, check=False).returncode != 0
    assert machine.run("relay", "--version").stdout.startswith("relay ")
    assert machine.show("ActiveState", "UnitFileState", "NRestarts") == {"ActiveState": "inactive", "UnitFileState": "disabled", "NRestarts": "0"}
    # Started all the same, it says what is missing, and does not try again and again.
    assert machine.run("systemctl", "start", "relay", check=False).returncode != 0
    assert machine.show("ActiveState", "ExecMainStatus", "NRestarts") == {"ActiveState": "failed", "ExecMainStatus": "2", "NRestarts": "0"}
    wait_until(lambda: "FGA_API_URL" in machine.run("journalctl", "-u", "relay").stdout, 30)
    machine.run("systemctl", "reset-failed", "relay")


@needs_docker
def test_the_unit_is_hardened(machine, capsys):
    """Of 10, the worst; what is left is the network that it needs."""
    machine.run("systemd-analyze", "verify", "--man=no", "relay.service")
    unit = "/usr/lib/systemd/system/relay.service"
    done = machine.run("systemd-analyze", "security", "--offline=yes", "--threshold=15", "--no-pager", unit, check=False)
    with capsys.disabled():
        print("\n" + done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stdout


@needs_docker
def test_it_delivers_and_the_watchdog_restarts_it(machine, db, store):
    machine.configure(db, store)
    examined = machine.run("systemd-run", "--pipe", "--quiet", "-p", "User=relay", "-p", f"EnvironmentFile={ENV}", "relay", "doctor", check=False)
    assert examined.returncode == 1 and "failure" not in examined.stdout, examined.stdout + examined.stderr  # of two-phase commit it warns
    machine.run("mkdir", "-p", "/run/systemd/system/relay.service.d")
    machine.run("sh", "-c", "cat > /run/systemd/system/relay.service.d/test.conf", text="[Service]\nWatchdogSec=6s\nRestartSec=100ms\n")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "enable", "--now", "relay")
    machine.wait_for("StatusText", lambda text: text.startswith("ready;"))
    db.insert(*archives(range(10)))
    db.wait_delivered(timeout=30)
    before = machine.show("MainPID", "NRestarts")
    machine.run("systemctl", "kill", "-s", "STOP", "relay")
    machine.wait_for("NRestarts", lambda n: int(n) > int(before["NRestarts"]))
    db.insert(archive(10))
    db.wait_delivered(timeout=60)
    assert store.tuples() == all_tuples(range(11))
    assert machine.show("MainPID") != before["MainPID"]
    wait_until(lambda: "Watchdog timeout" in machine.run("journalctl", "-u", "relay").stdout, 30)
    machine.run("systemctl", "reload", "relay")
    db.insert(archive(11))
    db.wait_delivered(timeout=60)
    machine.run("systemctl", "stop", "relay")
    assert machine.show("ActiveState", "Result") == {"ActiveState": "inactive", "Result": "success"}


@needs_docker
def test_an_upgrade_keeps_the_settings_and_goes_on(machine, db, store):
    machine.configure(db, store)
    machine.run("systemctl", "restart", "relay")
    before = machine.show("MainPID")
    settings = machine.run("cat", ENV).stdout
    machine.run("sh", "-ec", f"""
        cd /opt
        dpkg-deb -R relay.deb newer
        sed -i 's/^Version: .*/&+newer/' newer/DEBIAN/control
        echo '# New in this version.' >>newer{ENV}
        dpkg-deb -b newer newer.deb
        dpkg -i --force-confold newer.deb
    """)
    assert machine.run("dpkg-query", "-W", "-f", "${Version}", "relay").stdout.endswith("+newer")
    assert machine.run("cat", ENV).stdout == settings
    assert machine.run("stat", "-c", "%a %U:%G", ENV).stdout == "600 root:root\n"
    after = machine.show("MainPID", "ActiveState", "UnitFileState")
    assert after["MainPID"] not in (before, "0") and after["ActiveState"] == "active" and after["UnitFileState"] == "enabled"
    db.insert(archive(1))
    db.wait_delivered(timeout=30)


@needs_docker
def test_removed_it_keeps_the_settings_and_purged_it_leaves_nothing(machine):
    machine.run("apt-get", "remove", "-qq", "relay")
    assert machine.run("sh", "-c", "grep -sqx relay /proc/[0-9]*/comm", check=False).returncode != 0, "it is not stopped"
    machine.run("test", "-e", ENV)
    machine.run("apt-get", "purge", "-qq", "relay")
    left = machine.run("find", "/etc", "/usr", "/var/lib", "-name", "*relay*", "-not", "-path", "*/openssl*").stdout
    assert left == ""
    assert machine.run("getent", "passwd", "relay", check=False).returncode == 2
