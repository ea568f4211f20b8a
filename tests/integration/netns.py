"""A network of its own for a relay, joined to this one by a cable whose packets a test can swallow (network_namespaces(7), veth(4), nft(8))."""

import os
import random
import re
import subprocess

from process import spawn, wait_until


class Netns:
    """here and there: the addresses of the two ends. It ends with the process that holds it. Only root may make one."""

    def __init__(self):
        network = f"10.{random.randrange(64, 256)}.{random.randrange(256)}"  # not one that another run, or the run before, still has
        self.here, self.there = f"{network}.1", f"{network}.2"
        self.holder = spawn(["unshare", "--net", "sleep", "infinity"])
        own = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != own, what="the namespace")
        self.prefix = "nsenter", f"--net=/proc/{self.holder.pid}/ns/net"
        self.cable = cable = f"relay{self.holder.pid}"
        _run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(self.holder.pid))
        _run("ip", "addr", "add", f"{self.here}/30", "dev", cable)
        _run("ip", "link", "set", cable, "up")
        self.run("ip", "addr", "add", f"{self.there}/30", "dev", "eth0")
        for device in ("lo", "eth0"):
            self.run("ip", "link", "set", device, "up")
        self.run("nft", "add table inet hole; add chain inet hole out { type filter hook output priority 0; }; "
                        "add chain inet hole in { type filter hook input priority 0; }")

    def close(self):
        _run("ip", "link", "del", self.cable)
        self.holder.kill()
        self.holder.wait()

    def run(self, *args):
        return _run(*self.prefix, *args)

    def swallow(self, port, *ways):
        """What goes out to this port of the other end's, or comes in from it, vanishes."""
        for way in ways:
            self.run("nft", f"add rule inet hole {way} tcp {'dport' if way == 'out' else 'sport'} {port} drop")

    def swallow_from(self, *ports):
        """What goes out from these ports vanishes."""
        for port in ports:
            self.run("nft", f"add rule inet hole out tcp sport {port} ip length > 100 counter drop")
            self.run("nft", f"add rule inet hole out tcp sport {port} drop")

    def swallowed_from(self):
        """From how many of those ports something was sent that carries data."""
        return len(re.findall(r"counter packets [1-9]", self.run("nft", "list table inet hole")))

    def heal(self):
        self.run("nft", "flush table inet hole")


def _run(*args):
    done = subprocess.run(args, capture_output=True, text=True)
    assert done.returncode == 0, (args, done.stderr)
    return done.stdout
