"""A DNS server of the tests' own, and a relay that asks it: real ones do not fall silent, or change their mind, when a test wants it."""

import random
import socket
import struct
import threading

A = 1


class Dns:
    """Answers at port 53 of a loopback address of its own, which only root may have. `hosts`: name to IPv4 address; a name that is not there
    does not exist. While `silent`, nothing is answered at all."""

    def __init__(self, hosts=(), silent=False):
        self.hosts = dict(hosts)
        self.silent = silent
        self.asked = []  # names, as they were asked for
        self.address = f"127.{random.randrange(1, 255)}.{random.randrange(256)}.{random.randrange(1, 255)}"
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((self.address, 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self.socket.close()

    def _serve(self):
        while True:
            try:
                query, client = self.socket.recvfrom(4096)
            except OSError:
                return
            name, end = _name(query)
            self.asked.append(name)
            if not self.silent:
                try:
                    self.socket.sendto(self._answer(query, name, end), client)
                except OSError:
                    return

    def _answer(self, query, name, end):
        """RFC 1035, section 4.1. The answer's name points to the question's; it may be kept for a second."""
        kind = struct.unpack_from("!H", query, end)[0]
        address = self.hosts.get(name)
        found = address is not None and kind == A
        flags = 0x8180 if address is not None else 0x8183
        head = query[:2] + struct.pack("!HHHHH", flags, 1, 1 if found else 0, 0, 0) + query[12:end + 4]
        return head + (struct.pack("!HHHIH", 0xC00C, A, 1, 1, 4) + socket.inet_aton(address) if found else b"")


def _name(query):
    """The name that is asked for, and where it ends."""
    at, labels = 12, []
    while length := query[at]:
        labels.append(query[at + 1:at + 1 + length].decode().lower())
        at += 1 + length
    return ".".join(labels), at + 1


def with_file(path, at="/etc/resolv.conf"):
    """The prefix of a command that sees this file, or folder, in another one's place (mount_namespaces(7)). Only root may."""
    return "unshare", "--mount", "sh", "-c", f'mount --bind "$0" {at} && exec "$@"', str(path)
