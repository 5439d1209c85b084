"""Real distributions: the files of Debian's packages and releases, from the mirror that this machine installs its own packages from."""

import lzma
import os
import pathlib
import shutil
import subprocess
import urllib.request

from . import system


SUITES = ["bullseye", "bookworm", "trixie", "sid"]  # oldest first


def mirror():
    targets = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Codename: bookworm"],
                             check=True, capture_output=True, text=True).stdout.split()
    return targets[0].rstrip("/") if targets else "http://deb.debian.org/debian"


class Releases:
    """Releases that are only unpacked: nothing of them is run, so that every architecture will do."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self._indices = {}

    def debootstrap(self, suite, include=()):
        """Starts debootstrap's first stage; finish() waits for it. So several run at once."""
        root = self.directory / suite
        command = [system.program("debootstrap"), "--foreign", "--variant=minbase", *([f"--include={','.join(include)}"] if include else []),
                   suite, str(root), mirror()]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={"PATH": system.PATH})
        return root, process

    def finish(self, root, process):
        """The root filesystem with the included packages, without documents, caches and debootstrap's own files."""
        output = process.communicate(timeout=600)[0]
        assert process.returncode == 0, output
        packages = dict(line.split()[:2] for line in (root / "debootstrap/debpaths").read_text().splitlines())
        for name in (root / "debootstrap/base").read_text().split():
            unpack(root / packages[name].lstrip("/"), root)
        for name in ("debootstrap", "usr/share", "var/cache", "var/lib/apt", "var/lib/dpkg", "boot", "root"):
            shutil.rmtree(root / name, ignore_errors=True)
        (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/bash\n")  # written by the second stage otherwise
        (root / "etc/group").write_text("root:x:0:\n")
        for name in ("proc", "sys", "dev"):  # in a container, debootstrap makes links to the host's
            if (root / name).is_symlink():
                (root / name).unlink()
            (root / name).mkdir(exist_ok=True)
        for node in (root / "dev").iterdir():
            shutil.rmtree(node) if node.is_dir() and not node.is_symlink() else node.unlink()
        return root

    def packages(self, suite, architecture, names, root):
        """Unpacks single packages of another architecture into `root`."""
        for name in names:
            file = self.directory / f"{suite}-{architecture}-{name}.deb"
            with urllib.request.urlopen(f"{mirror()}/{self._index(suite, architecture)[name]['Filename']}", timeout=60) as answer:
                file.write_bytes(answer.read())
            unpack(file, root)
        return root

    def dependencies(self, suite, architecture, name):
        """The packages that a package itself needs, without those that they need."""
        return [each.split()[0] for each in self._index(suite, architecture)[name].get("Depends", "").split(", ") if each]

    def _index(self, suite, architecture):
        """{package: {"Package", "Filename" (below the mirror) and "Depends": text}}"""
        if (suite, architecture) not in self._indices:
            address = f"{mirror()}/dists/{suite}/main/binary-{architecture}/Packages.xz"
            with urllib.request.urlopen(address, timeout=60) as answer:
                text = lzma.decompress(answer.read()).decode()
            stanzas = [dict(line.split(": ", 1) for line in stanza.splitlines() if line.startswith(("Package: ", "Filename: ", "Depends: ")))
                       for stanza in text.split("\n\n") if stanza]
            self._indices[suite, architecture] = {stanza["Package"]: stanza for stanza in stanzas}
        return self._indices[suite, architecture]


def unpack(package, root):
    """The files of a package, through the links of a merged /usr."""
    os.makedirs(root, exist_ok=True)
    archive = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(root), "--keep-directory-symlink"], input=archive, check=True)


def bootstrap(suite, packages, root):
    """A whole release with these packages, made by debootstrap and the release's own apt: its programs run. Its daemons are not started."""
    new = root.with_name(f"{root.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    environment = {"PATH": system.PATH, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}

    def call(*command):
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        assert result.returncode == 0, result.stdout[-3000:]

    call(system.program("debootstrap"), "--variant=minbase", suite, str(new), mirror())
    (new / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
    (new / "usr/sbin/policy-rc.d").chmod(0o755)
    shutil.copy("/etc/resolv.conf", new / "etc")
    call("chroot", str(new), "apt-get", "--yes", "--no-install-recommends", "install", *packages)
    shutil.rmtree(new / "var/cache/apt")
    new.rename(root)
