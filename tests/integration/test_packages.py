"""The Debian packages that cpack makes: their contents, and what installing, updating and removing them does to a machine.

The machine is this one, which has the packages that they depend on, below an overlay that takes all changes.
"""

import pathlib
import re
import shutil
import subprocess

import pytest
from helpers.machine import Machine

pytestmark = [pytest.mark.asroot, pytest.mark.thorough]

STARTER = "/usr/lib/sarus/libexec/sarus-starter"
NAMES = ("sarus", "sarus-hooks", "sarus-slurm", "podman-hpc")


@pytest.fixture(scope="module")
def packages(build_dir, workspace):
    """{name: file}"""
    directory = workspace / "packages"
    subprocess.run(["cpack", "-B", directory], check=True, capture_output=True, cwd=build_dir)
    shutil.rmtree(directory / "_CPack_Packages")
    return {file.name.split("_")[0]: file for file in directory.glob("*.deb")}


def control(package, *parts):
    return subprocess.run(["dpkg-deb", "--info", package, *parts], check=True, capture_output=True, text=True).stdout


def field(package, name):
    return subprocess.run(["dpkg-deb", "--field", package, name], check=True, capture_output=True, text=True).stdout.strip()


def contents(package):
    """{path: (mode, owner, target of a link)}"""
    lines = subprocess.run(["dpkg-deb", "--contents", package], check=True, capture_output=True, text=True).stdout.splitlines()
    rows = [re.match(r"(\S+) (\S+) +\d+ \S+ \S+ \.(\S*)(?: -> (.*))?$", line).groups() for line in lines]
    return {path.rstrip("/"): (mode, owner, target) for mode, owner, path, target in rows}


def test_packages_have_no_errors(packages):
    result = subprocess.run(["lintian", "--fail-on", "error", "--tag-display-limit", "0", *packages.values()], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_component_is_a_package(packages):
    assert set(packages) == set(NAMES)
    files = {name: contents(package) for name, package in packages.items()}
    for name in NAMES:
        assert {owner for _, owner, _ in files[name].values()} == {"root/root"}
        assert [path for path, (mode, _, _) in files[name].items() if "s" in mode] == []  # only the site's decision makes a program privileged
        assert {f"/usr/share/doc/{name}/copyright", f"/usr/share/doc/{name}/changelog.gz"} <= set(files[name])
    assert files["sarus"]["/usr/bin/sarus"][2] == "../lib/sarus/bin/sarus" and files["sarus"]["/usr/lib/sarus/etc"][2] == "/etc/sarus"
    assert STARTER in files["sarus"] and "/var/lib/sarus/OCIBundleDir" in files["sarus"]
    assert "/usr/share/zsh/vendor-completions/_sarus" in files["sarus"] and "/usr/share/man/man1/sarus-run.1.gz" in files["sarus"]
    assert "/usr/lib/sarus/bin/mpi_hook" in files["sarus-hooks"] and "/usr/share/man/man1/mpi_hook.1.gz" in files["sarus-hooks"]
    assert files["sarus-hooks"]["/usr/bin/mpi_hook"][2] == "../lib/sarus/bin/mpi_hook"
    assert files["podman-hpc"]["/usr/bin/hook_tool"][2] == "podman_hpc_hook"


def test_the_node_loads_modules_and_can_refresh_users_and_groups(packages, machine):
    machine.install(packages["sarus"])
    assert {"loop", "squashfs", "overlay", "fuse"} <= set(machine.run("cat /usr/lib/modules-load.d/sarus.conf").split())
    assert machine.run("systemd-analyze verify /usr/lib/systemd/system/sarus-passwd-cache.timer /usr/lib/systemd/system/sarus-passwd-cache.service") == ""
    command = machine.run("sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/sarus-passwd-cache.service").strip()
    machine.run(f"rm -f /etc/sarus/passwd && {command}")
    assert "root:x:0:0:" in machine.run("cat /etc/sarus/passwd")


def test_a_signed_repository_as_documented(packages, machine, source_dir):
    text = (source_dir / "docs/admin/upgrade.md").read_text()
    recipe = re.search(r"(?s)```sh\n(mkdir -p /srv/sarus .*?)```", text).group(1).replace("KEY", "packages@example.org")
    line = re.search(r"`(deb \[signed-by=\S+\] \S+ \./)`", text).group(1)
    for package in packages.values():
        machine.put(package)
    machine.run("gpg --batch --passphrase '' --quick-generate-key packages@example.org")
    machine.run(f"cd /root && set -e; {recipe}")
    machine.run(f"rm -rf /etc/apt/sources.list* && mkdir -p /etc/apt/sources.list.d && echo '{line}' >/etc/apt/sources.list.d/sarus.list && apt-get update")
    policy = machine.run("apt-cache policy sarus")
    assert "Candidate: 2.0.0" in policy and "file:/srv/sarus ./ Packages" in policy
    assert "WARNING" not in machine.run("apt-get install --simulate --yes --no-install-recommends sarus-hooks")
    machine.run("echo tampered >>/srv/sarus/Packages && rm -rf /var/lib/apt/lists && mkdir -p /var/lib/apt/lists/partial")
    assert "Hash Sum mismatch" in machine.run("apt-get update", check=False) or "unexpected size" in machine.run("apt-get update", check=False)


def test_packages_can_be_installed_together(packages):
    files = [path for package in packages.values() for path, (mode, _, _) in contents(package).items() if not mode.startswith("d")]
    assert len(files) == len(set(files))


def test_dependencies_are_named(packages):
    assert {"skopeo", "crun | runc"} <= set(field(packages["sarus"], "Depends").split(", "))
    assert re.search(r"libsquashfs1 \(>= [\d.]+\)", field(packages["sarus"], "Depends"))
    assert field(packages["sarus-hooks"], "Depends") == f"sarus (= {field(packages['sarus'], 'Version')})"
    assert "podman" in field(packages["podman-hpc"], "Depends").split(", ")


def test_package_asks_for_the_slurm_that_its_plugin_was_built_for(packages):
    assert {"/usr/lib/sarus/lib/slurm/spank_sarus.so", "/usr/lib/sarus/libexec/sarus-spank", "/usr/share/man/man1/sarus-slurm.1.gz"} <= set(contents(packages["sarus-slurm"]))
    version = subprocess.run(["dpkg-query", "--show", "--showformat=${Version}", "libslurm-dev"], check=True, capture_output=True, text=True).stdout
    broken = re.findall(r"slurm-wlm-basic-plugins \((\S+) (\S+)\)", field(packages["sarus-slurm"], "Breaks"))
    operators = {"<<": "lt", ">=": "ge"}
    assert len(broken) == 2 and not any(subprocess.run(["dpkg", "--compare-versions", version, operators[word], limit]).returncode == 0 for word, limit in broken)
    assert any(subprocess.run(["dpkg", "--compare-versions", "24.11.5-4", operators[word], limit]).returncode == 0 for word, limit in broken)


def test_everything_in_etc_is_a_conffile(packages):
    for package in packages.values():
        files = {path for path, (mode, _, _) in contents(package).items() if path.startswith("/etc/") and mode.startswith("-")}
        assert set(control(package, "conffiles").split()) == files
    assert len(control(packages["podman-hpc"], "conffiles").split()) == 16


class DebianMachine(Machine):
    def install(self, *packages):
        return self.dpkg("--force-confold", "--install", *(self.put(package) for package in packages))

    def dpkg(self, *arguments):
        """Without the index of manual pages, which takes longer than all else."""
        return self.run(f"dpkg --no-triggers --force-unsafe-io {' '.join(arguments)}")


@pytest.fixture
def machine(tmp_path):
    made = DebianMachine(tmp_path)
    yield made
    made.stop()


def test_installed_packages_work_keep_changes_and_leave_nothing(machine, packages, user):
    machine.install(packages["sarus"], packages["sarus-hooks"], packages["podman-hpc"])
    assert machine.run(f"stat -c '%U %a' {STARTER}") == "root 4755\n"
    assert machine.run("dpkg --verify sarus sarus-hooks podman-hpc") == ""
    assert machine.run("ls /etc/sarus/plugstack.conf", check=False).startswith("ls: cannot access")
    assert "TAG" in machine.run(f"setpriv --reuid {user.uid} --regid {user.gid} --clear-groups sarus images")

    machine.run("cp /etc/sarus/templates/hooks.d/05-mpi-hook.json.in /etc/sarus/hooks.d/ && /usr/lib/sarus/configure_installation.sh")
    machine.run("sed -i 's|\"tempDir\": .*|\"tempDir\": \"/scratch\",|' /etc/sarus/sarus.json && echo mine >>/etc/sarus/policy.json")
    said = machine.install(packages["sarus"], packages["sarus-hooks"])  # as an update does
    assert "Kept etc/sarus.json, which this site has changed" in said
    assert '"tempDir": "/scratch",' in machine.run("cat /etc/sarus/sarus.json") and "mine" in machine.run("cat /etc/sarus/policy.json")
    assert machine.run(f"stat -c '%U %a' {STARTER}") == "root 4755\n"

    assert "Switching off /etc/sarus/hooks.d/05-mpi-hook.json" in machine.dpkg("--remove", "sarus-hooks")
    assert "mpi" not in machine.run("sarus hooks")
    machine.install(packages["sarus-hooks"])
    assert "mpi" in machine.run("sarus hooks")

    assert {"/etc/sarus/sarus.json", "/usr/lib/sarus/etc", "/var/lib/sarus/OCIBundleDir"} <= machine.added()
    machine.dpkg("--purge", "sarus-hooks", "sarus", "podman-hpc")
    assert machine.added() == set()


def test_the_plugin_for_slurm_finds_its_programs(machine, packages):
    machine.install(packages["sarus"], packages["sarus-slurm"])
    assert "\noptional /usr/lib/sarus/lib/slurm/spank_sarus.so\n" in machine.run("cat /etc/sarus/plugstack.conf")
    assert machine.run(f"stat -c '%U %a' {STARTER} && dpkg --verify sarus sarus-slurm") == "root 4755\n"


def test_a_site_can_refuse_the_privileged_way(machine, packages):
    machine.run(f"dpkg-statoverride --add root root 0755 {STARTER}")
    machine.install(packages["sarus"])
    assert machine.run(f"stat -c '%U %a' {STARTER}") == "root 755\n"
    assert machine.run("ls /etc/sarus/set-user-id-root", check=False).startswith("ls: cannot access")
    assert '"localRepositoryBaseDir": "/home"' in machine.run("cat /etc/sarus/sarus.json")


def test_a_site_can_restrict_the_privileged_way_to_a_group(machine, packages):
    machine.run(f"dpkg-statoverride --add root users 4750 {STARTER}")
    machine.install(packages["sarus"])
    assert machine.run(f"stat -c '%U %G %a' {STARTER}") == "root users 4750\n"
    machine.install(packages["sarus"])
    assert machine.run(f"stat -c '%U %G %a' {STARTER}") == "root users 4750\n"


def test_containers_run_from_the_package(machine, packages, images, plain_busybox, user):
    """With the links to /etc/sarus and /var/lib/sarus that its security checks follow."""
    machine.install(packages["sarus"])
    archive = pathlib.Path(images.archive(plain_busybox, "packaged"))
    file = machine.put(archive)
    as_user = f"setpriv --reuid {user.uid} --regid {user.gid} --clear-groups env HOME={user.home} USER={user.name}"
    machine.run(f"sed -i 's|\"localRepositoryBaseDir\": .*|\"localRepositoryBaseDir\": \"{user.home.parent}\",|' /etc/sarus/sarus.json && chmod 755 /root")
    machine.run(f"{as_user} sarus load {file} packaged")
    assert machine.run(f"cd / && {as_user} sarus run load/library/packaged id -u").strip() == str(user.uid)
