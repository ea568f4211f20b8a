"""A file system of just one size that a cluster can be put on, in a mount namespace of its own (mount_namespaces(7)): nothing of it is seen
from outside, and it is gone with its processes, however they end."""

import os
import subprocess
import tempfile

import pytest

from process import spawn, wait_until


class Disk:
    """`path`: where the cluster finds it once it is started with `enter`. `outside`: the same for the test itself. Mounting takes root."""

    def __init__(self, cluster, size):
        if os.getuid() != 0:
            pytest.skip("mounting takes root")
        self.path = tempfile.mkdtemp(prefix="disk-", dir=cluster.folder)
        owner = os.stat(cluster.data)
        options = f"size={size},mode=0700,uid={owner.st_uid},gid={owner.st_gid}"
        self.keeper = spawn(
            ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o {options} tmpfs {self.path} && exec sleep infinity"], stderr=subprocess.DEVNULL
        )
        self.outside = f"/proc/{self.keeper.pid}/root{self.path}"
        wait_until(lambda: self.keeper.poll() is not None or os.path.ismount(self.outside))
        if self.keeper.poll() is not None:
            pytest.skip("mounting takes a capability that is not there")
        self.enter = [
            "nsenter", "--target", str(self.keeper.pid), "--mount", "--", "setpriv", f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}",
            "--clear-groups", "--pdeathsig=QUIT", "--",
        ]

    def fill_up(self):
        """A file takes all that is left. Its path from outside."""
        path = f"{self.outside}/filler"
        with open(path, "wb", buffering=0) as f:
            try:
                while f.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        return path

    def close(self):
        self.keeper.kill()
        self.keeper.wait()
