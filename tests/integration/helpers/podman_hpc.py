"""podman-hpc of one user, over the real Podman."""

import json
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from . import system
from .installation import SANDBOX

RUN = ["run", "--rm", "--network=host", "--log-driver=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"]


class PodmanHpc:
    """podman-hpc of one user, with stores of its own."""

    def __init__(self, user, directory, build_dir):
        self.user = user
        self.variables = {"PODMANHPC_MOUNT_KEEP": "0"}
        self.directory = directory
        self.prefix = directory / "prefix"
        subprocess.run(["cmake", "--install", str(build_dir), "--component", "podman-hpc", "--prefix", str(self.prefix)], check=True, capture_output=True)
        shutil.rmtree(self.prefix / "etc/podman_hpc/modules.d")
        self.modules = self.prefix / "etc/podman_hpc/modules.d"
        self.modules.mkdir()
        self.user.own(directory)

    def environment(self, **variables):
        return self.user.environment(
            **{"PODMANHPC_GRAPH_ROOT": self.directory / "graph", "PODMANHPC_RUN_ROOT": self.directory / "run",
               "PODMANHPC_CONFIG_HOME": self.directory / "config", "SQUASH_DIR": self.directory / "squash", **self.variables, **variables})

    def argv(self, *words, options=()):
        return [str(SANDBOX), "--fuse", "--hide-unified", "--shared-root", "--user", self.user.name, "--", str(self.prefix / "bin/podman-hpc"),
                f"--tmpdir={self.directory}/tmp", "--events-backend=file", *options, *map(str, words)]

    def __call__(self, *words, options=(), status=0, input=None, stream="out", **variables):
        """The text of a standard stream; `status` None is any."""
        result = subprocess.run(self.argv(*words, options=options), capture_output=True, text=True, timeout=300, input=input or "", cwd="/",
                                env=self.environment(**variables))
        assert status is None or result.returncode == status, result.stderr
        return result.stdout if stream == "out" else result.stderr

    def link_of(self, image):
        """The link of an image's top layer in Podman's own store."""
        records = json.loads((self.directory / "graph/overlay-images/images.json").read_text())
        layer = next(record["layer"] for record in records if image in record.get("names", []))
        return (self.directory / "graph/overlay" / layer / "link").read_text()

    def run(self, *words, options=(), **keywords):
        return self(*RUN, *options, "localhost/busybox", *words, **keywords)

    def remove(self):
        if self.user.uid != 0:
            # The process that keeps a rootless user's namespaces for the next call of Podman; there is none.
            for pid, uid, command in system.processes():
                if uid == self.user.uid and command.startswith("catatonit -P"):
                    system.kill(pid)
            for name in ("podman-run", "containers-user"):
                shutil.rmtree(f"/tmp/{name}-{self.user.uid}", ignore_errors=True)
        subprocess.run(["chmod", "-R", "u+rwX", str(self.directory)], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


def podman_hpc_of(user, build_dir):
    user.home.mkdir(exist_ok=True)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="sarus-", dir="/tmp"))  # Podman takes no --runroot of more than 50 characters
    directory.chmod(0o755)
    return PodmanHpc(user, directory, build_dir)


# Users have podman-hpc for themselves. Attacks on root's are in tests/hostile.
@pytest.fixture(scope="module", params=[pytest.param("root", marks=pytest.mark.thorough), "rootless"])
def podman_hpc(request, build_dir, images, plain_busybox):
    made = podman_hpc_of(request.getfixturevalue("root" if request.param == "root" else "user"), build_dir)
    made("load", "-i", images.archive(plain_busybox, "busybox"))
    yield made
    made.remove()
