"""The rpm packages: what they contain, and what installing, updating and removing them does to a machine.

rpm runs on this Debian machine, below an overlay that takes all changes: the packages that these depend on are not known to rpm (--nodeps). The
distributions for which the packages are meant are not here.
"""

import os
import pathlib
import re
import subprocess
import tarfile

import pytest
from helpers.machine import Machine

pytestmark = [pytest.mark.asroot, pytest.mark.thorough, pytest.mark.timeout(3600)]

STARTER = "/usr/lib/sarus/libexec/sarus-starter"
NAMES = ("podman-hpc", "sarus", "sarus-hooks", "sarus-slurm")
# With Dropbear, configure_installation.sh enables hooks as a site does: by a copy of the template, which the site may have changed.
LEFT = {"/etc/sarus", "/etc/sarus/hooks.d", "/etc/sarus/hooks.d/07-ssh-hook.json.in", "/etc/sarus/hooks.d/09-slurm-global-sync-hook.json.in"}


def build(source_dir, *arguments):
    result = subprocess.run([source_dir / "packaging/rpm/build", *arguments], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return [pathlib.Path(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def packages(source_dir, workspace):
    """{name: file}, of the last commit; SARUS_RPMS names a directory that has them already."""
    given = os.environ.get("SARUS_RPMS")
    files = sorted(pathlib.Path(given).glob("*.rpm")) if given else build(source_dir, str(workspace / "packages"), "--nodeps")
    return {re.match(r"(.*)-[\d.]+-\d", file.name).group(1): file for file in files if not file.name.endswith(".src.rpm")}


def query(package, *arguments):
    return subprocess.run(["rpm", "--query", "--package", *arguments, package], check=True, capture_output=True, text=True).stdout.splitlines()


def contents(package):
    """{path: (mode, owner, flags)}"""
    rows = [line.split("\t") for line in query(package, "--qf", "[%{FILENAMES}\t%{FILEMODES:perms}\t%{FILEUSERNAME}:%{FILEGROUPNAME}\t%{FILEFLAGS:fflags}\n]")]
    return {path.removesuffix(".gz"): (mode, owner, flags) for path, mode, owner, flags in rows}


def test_each_component_is_a_package(packages):
    assert sorted(packages) == list(NAMES)
    files = {name: contents(package) for name, package in packages.items()}
    for name in NAMES:
        assert {owner for _, owner, _ in files[name].values()} == {"root:root"}
        assert [path for path, (mode, _, _) in files[name].items() if "s" in mode] == []  # only the site's decision makes a program privileged
        assert [path for path, (mode, _, flags) in files[name].items() if path.startswith("/etc/") and mode.startswith("-") and flags != "cn"] == []
        assert [path for path, (_, _, flags) in files[name].items() if flags == "l"] != []
    assert {"/usr/bin/sarus", "/usr/lib/sarus/etc", STARTER, "/var/lib/sarus/OCIBundleDir", "/usr/share/man/man1/sarus-run.1"} <= set(files["sarus"])
    assert {"/usr/lib/sarus/bin/mpi_hook", "/usr/bin/mpi_hook", "/usr/share/man/man1/mpi_hook.1"} <= set(files["sarus-hooks"])
    assert {"/usr/lib/sarus/lib/slurm/spank_sarus.so", "/usr/lib/sarus/libexec/sarus-spank"} <= set(files["sarus-slurm"])
    assert {"/usr/bin/podman-hpc", "/usr/bin/hook_tool", "/usr/share/containers/oci/hooks.d/02-hook_tool.json"} <= set(files["podman-hpc"])
    assert "/usr/bin" not in files["podman-hpc"] and "/usr/share/man/man1" not in files["sarus"]


def test_dependencies_are_named(packages):
    assert {"skopeo", "(crun or runc)"} <= set(query(packages["sarus"], "--requires"))
    assert {"podman", "/usr/bin/newuidmap"} <= set(query(packages["podman-hpc"], "--requires"))
    version = query(packages["sarus"], "--qf", "%{VERSION}-%{RELEASE}\n")[0]
    for name in ("sarus-hooks", "sarus-slurm"):
        assert f"sarus = {version}" in query(packages[name], "--requires")
    assert len([line for line in query(packages["sarus-slurm"], "--conflicts") if line.startswith("slurm ")]) == 2
    assert not [line for line in query(packages["sarus-slurm"], "--provides") if "spank_sarus" in line]


class RpmMachine(Machine):
    def rpm(self, *arguments, check=True):
        return self.run(f"rpm --dbpath /var/lib/rpm-of-test {' '.join(arguments)}", check)

    def install(self, *packages):
        return self.rpm("--install", "--nodeps", *(self.put(package) for package in packages))

    def update(self, *packages):
        """As to a newer version: rpm removes the old one."""
        return self.rpm("--upgrade", "--force", "--nodeps", *(self.put(package) for package in packages))


@pytest.fixture
def machine(tmp_path):
    made = RpmMachine(tmp_path)
    made.run("rpm --dbpath /var/lib/rpm-of-test --initdb")
    yield made
    made.stop()


def mode(machine):
    return machine.run(f"stat -c '%U %G %a' {STARTER}").strip()


def test_installed_packages_work_and_leave_nothing(machine, packages, user):
    machine.install(*packages.values())
    assert mode(machine) == "root root 4755"
    assert machine.rpm("--verify", "--nodeps", *NAMES) == ""
    assert "\noptional /usr/lib/sarus/lib/slurm/spank_sarus.so\n" in machine.run("cat /etc/sarus/plugstack.conf")
    assert "TAG" in machine.run(f"setpriv --reuid {user.uid} --regid {user.gid} --clear-groups sarus images")
    assert {"/etc/sarus/sarus.json", "/usr/lib/sarus/etc", "/var/lib/sarus/OCIBundleDir"} <= machine.added()

    machine.rpm("--erase", *NAMES)
    assert {path for path in machine.added() if "sarus" in path or "podman" in path} <= LEFT


def test_updates_keep_what_the_site_has_changed(machine, packages):
    machine.install(packages["sarus"], packages["sarus-hooks"])
    machine.run("cp /etc/sarus/templates/hooks.d/05-mpi-hook.json.in /etc/sarus/hooks.d/ && /usr/lib/sarus/configure_installation.sh")
    machine.run("sed -i 's|\"tempDir\": .*|\"tempDir\": \"/scratch\",|' /etc/sarus/sarus.json && echo mine >>/etc/sarus/policy.json")
    machine.update(packages["sarus"], packages["sarus-hooks"])
    assert '"tempDir": "/scratch",' in machine.run("cat /etc/sarus/sarus.json") and "mine" in machine.run("cat /etc/sarus/policy.json")
    assert mode(machine) == "root root 4755"
    assert "mpi" in machine.run("sarus hooks")  # the scriptlet of the old version has not switched it off

    assert "Switching off /etc/sarus/hooks.d/05-mpi-hook.json" in machine.rpm("--erase", "sarus-hooks")
    assert "mpi" not in machine.run("sarus hooks")
    machine.install(packages["sarus-hooks"])
    assert "mpi" in machine.run("sarus hooks")

    machine.rpm("--erase", "sarus-hooks", "sarus")
    assert '"tempDir": "/scratch",' in machine.run("cat /etc/sarus/sarus.json") and "mine" in machine.run("cat /etc/sarus/policy.json.rpmsave")
    machine.install(packages["sarus"])
    assert mode(machine) == "root root 4755" and '"/scratch"' in machine.run("cat /etc/sarus/sarus.json")


def test_a_site_can_refuse_the_privileged_way(machine, packages):
    machine.rpm("--install", "--nodeps", "--noscripts", machine.put(packages["sarus"]))
    machine.run("/usr/lib/sarus/configure_installation.sh --rootless")
    assert mode(machine) == "root root 755"
    machine.update(packages["sarus"])
    machine.install(packages["sarus-slurm"])
    assert mode(machine) == "root root 755" and machine.rpm("--verify", "--nodeps", "sarus") == ""


def test_a_site_can_restrict_the_privileged_way_to_a_group(machine, packages):
    machine.install(packages["sarus"])
    machine.run(f"chgrp users {STARTER} && chmod 4750 {STARTER}")
    machine.update(packages["sarus"])
    assert mode(machine) == "root users 4750"


def test_hooks_are_recognised(machine, packages):
    """rpmbuild has not changed the build ids by which the starter knows its hooks."""
    machine.install(packages["sarus"], packages["sarus-hooks"])
    notes = machine.run("readelf -n /usr/lib/sarus/bin/mpi_hook")
    identity = bytes.fromhex(re.search(r"Build ID: ([0-9a-f]+)", notes).group(1))
    starter = subprocess.run([*machine.enter, "cat", f"{machine.root}{STARTER}"], check=True, capture_output=True).stdout
    assert identity in starter


def test_archive_becomes_a_package(machine, source_dir, build_dir, tmp_path):
    """Any tree that has the parts of an installation does: here it is that of the build, whose programs are not all static."""
    prefix = tmp_path / "2.0.0-Release"
    subprocess.run(["cmake", "--install", build_dir, "--prefix", prefix], check=True, capture_output=True)
    archive = tmp_path / "sarus-2.0.0-x86_64.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(prefix, prefix.name)
    package = [file for file in build(source_dir, "--standalone", str(archive), str(tmp_path / "out")) if ".src." not in file.name][0]
    assert package.name.startswith("sarus-standalone-2.0.0-1") and [line for line in query(package, "--requires") if "libc.so" in line] == []
    machine.install(package)
    assert machine.run("stat -c %a /opt/sarus/libexec/sarus-starter") == "4755\n" and re.match(r"[\d.]+", machine.run("sarus --version"))
    assert machine.rpm("--verify", "--nodeps", "sarus-standalone") == ""
    installed = subprocess.run([*machine.enter, "cat", f"{machine.root}/opt/sarus/bin/mpi_hook"], check=True, capture_output=True).stdout
    assert installed == (prefix / "bin/mpi_hook").read_bytes()  # as share/sarus/manifest.sha256 of an archive says
    machine.update(package)
    assert machine.run("stat -c %a /opt/sarus/libexec/sarus-starter") == "4755\n"
    machine.rpm("--erase", "sarus-standalone")
    assert {path for path in machine.added() if "sarus" in path} <= {path.replace("/etc", "/opt/sarus/etc").replace("etc/sarus", "etc") for path in LEFT} | {"/opt/sarus"}
