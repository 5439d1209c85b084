"""The standalone archive (packaging/archive/build), and installations of it on other nodes."""

import os
import pathlib
import shutil
import subprocess

from .installation import SOURCE
from .system import only_one

BUILD = SOURCE / "packaging/archive/build"


def build(sources, directory):
    result = subprocess.run([BUILD, "--sources", str(sources), str(directory)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return pathlib.Path(result.stdout.splitlines()[-1])


def fetch(directory):
    """The source packages of others; SARUS_ARCHIVE_SOURCES names a directory that has them already."""
    given = os.environ.get("SARUS_ARCHIVE_SOURCES")
    if given:
        return pathlib.Path(given)
    with only_one(directory.parent):
        if not directory.exists():
            subprocess.run([BUILD, "--fetch", str(directory)], check=True)
    return directory


def built(shared):
    """The archive of this tree, built once below `shared`, a directory of all processes that run tests. SARUS_ARCHIVE names one that exists."""
    given = os.environ.get("SARUS_ARCHIVE")
    if given:
        return pathlib.Path(given)
    sources = fetch(shared / "sources")
    with only_one(shared):
        made = [*(shared / "archive").glob("*.tar.gz")]
        return made[0] if made else build(sources, shared / "archive")


class Installed:
    """The archive, unpacked and configured on a helpers.node.Node as the quick start says: by root, or by the user for herself."""

    def __init__(self, node, archive, user, home, rootless, **variables):
        self.node, self.user, self.home, self.rootless = node, user, home, rootless
        where = f"{home}/sarus" if rootless else "/opt/sarus"
        self._copy(archive, "archive.tar.gz")
        self._as_owner(f"rm -rf {where} && mkdir {where} && tar xzf /opt/archive.tar.gz -C {where}")
        self.prefix = f"{where}/{node.run(f'ls {where}').stdout.strip()}"
        self.said = self.configure(**variables)

    def configure(self, options="", **variables):
        return self._as_owner(f"{self.prefix}/configure_installation.sh {'--rootless' if self.rootless else ''} {options}", **variables).stdout

    def file(self, path):
        """A file of the installation, by a path of this machine."""
        return self.node.root / self.prefix.lstrip("/") / path

    def sarus(self, command, check=True, **variables):
        """The user's call of `sarus` in a shell."""
        return self.node.run(f"{self.prefix}/bin/sarus {command}", user=self.user, check=check, HOME=self.home, **variables)

    def load(self, archive, name):
        self._copy(archive, "image.tar")
        self.sarus(f"load /opt/image.tar {name}")
        return f"load/library/{name}"

    def report(self):
        """What check-node prints."""
        return self.node.run(f"{self.prefix}/share/sarus/check-node", user=self.user, check=False, HOME=self.home)

    def _as_owner(self, command, **variables):
        return self.node.run(command, user=self.user if self.rootless else 0, HOME=self.home, **variables)

    def _copy(self, file, name):
        shutil.copy(file, self.node.root / "opt" / name)
        (self.node.root / "opt" / name).chmod(0o644)
