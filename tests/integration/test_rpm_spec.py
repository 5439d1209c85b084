"""packaging/rpm without a build: the spec files agree with the components and libraries of CMake. test_rpm.py builds and installs the packages."""

import re
import subprocess
import tarfile

import pytest
from helpers import cmake_packages

VERSION = r"(?m)^Version:\s*(\S+)$"
# Of the packages that provide no such name on RHEL 9, or no reliable one.
OTHER_NAMES = {"lzo2": "lzo-devel"}


@pytest.fixture
def spec(source_dir):
    return source_dir / "packaging/rpm/sarus.spec"


def query(spec, *arguments):
    return subprocess.run(["rpmspec", "--query", *arguments, spec], check=True, capture_output=True, text=True).stdout.splitlines()


def test_specs_have_the_version_of_the_project(source_dir, spec):
    version = re.search(r"project\(sarus VERSION (\S+)", (source_dir / "CMakeLists.txt").read_text()).group(1)
    for file in (spec, spec.with_name("sarus-standalone.spec")):
        assert re.search(VERSION, file.read_text()).group(1) == version


def test_each_component_is_a_package_that_owns_all_its_files(source_dir, build_dir, spec, tmp_path):
    root, lists = tmp_path / "root", tmp_path / "lists"
    subprocess.run(["cmake", f"-DBUILD={build_dir}", f"-DROOT={root}", f"-DLISTS={lists}", "-P", source_dir / "packaging/rpm/stage.cmake"], check=True)
    packages = {re.search(r"/([\w-]+)\.files$", str(file)).group(1): file.read_text().splitlines() for file in lists.glob("*.files")}
    named = re.findall(r"(?m)^%files .*-f build/rpm/([\w-]+)\.files$", spec.read_text())
    with_slurm = [] if "sarus-slurm" in packages else ["--without", "slurm"]
    assert sorted(query(spec, "--qf", "%{NAME}\n", *with_slurm)) == sorted(packages)
    assert sorted(named) == ["podman-hpc", "sarus", "sarus-hooks", "sarus-slurm"]

    owned = [line.split()[-1] for lines in packages.values() for line in lines if not line.startswith("%dir")]
    present = [f"/{path.relative_to(root)}" for path in root.rglob("*") if path.is_symlink() or not path.is_dir()]
    assert sorted(path.removesuffix("*") for path in owned) == sorted(present)
    assert {"/usr/lib/sarus/bin/mpi_hook", "/usr/bin/mpi_hook"} <= set(packages["sarus-hooks"]) and (root / "usr/bin/mpi_hook").is_file()
    assert "/usr/bin/podman-hpc" in packages["podman-hpc"]
    assert "%config(noreplace) /etc/podman_hpc/01-gpu.conf" in packages["podman-hpc"]
    directories = [line.removeprefix("%dir ") for lines in packages.values() for line in lines if line.startswith("%dir")]
    assert all(re.search("sarus|podman_hpc", path) for path in directories) and {"/usr/lib/sarus", "/etc/sarus", "/etc/podman_hpc"} <= set(directories)


def test_scriptlets_are_those_of_the_debian_packages(source_dir, spec):
    scripts = re.findall(r"(?m)^%(?:pre|post)\S* .*-f (\S+)$", spec.read_text())
    assert len(scripts) == 4 and all((source_dir / script).is_file() for script in scripts)


@pytest.mark.parametrize("system", [[], ["--define", "suse_version 1500"], ["--define", "suse_version 1600"]])
def test_what_the_build_looks_for_is_required(spec, system):
    required = [line.split()[0] for line in query(spec, "--srpm", "--requires", *system)]
    wanted, optional = cmake_packages.pkg_config_names()
    assert {OTHER_NAMES.get(name, f"pkgconfig({name})") for name in wanted} <= set(required)
    with_options = [line.split()[0] for line in query(spec, "--srpm", "--requires", "--with", "isal", *system)]
    assert {OTHER_NAMES.get(name, f"pkgconfig({name})") for name in optional} <= set(with_options)
    assert {f"cmake({name})" for name in cmake_packages.cmake_names()} <= set(required)
    if system:
        assert "glibc-devel-static" in required and ("gcc13-c++" in required) == ("1500" in system[1])
    else:
        assert {"glibc-static", "libstdc++-static", "gcc-c++"} <= set(required)


def test_plugin_asks_for_the_slurm_that_it_was_built_for(spec):
    lines = subprocess.run(["rpmspec", "--parse", "--define", "slurm_release 24.11", spec], check=True, capture_output=True, text=True).stdout
    assert re.findall(r"Conflicts: +(slurm .*)", lines) == ["slurm < 24.11", "slurm >= 24.11.99"]


def test_recipe_of_podman_hpc_finds_its_source(spec, tmp_path):
    """./rpmsrcprep.sh; rpmbuild -ba podman-hpc.spec"""
    subprocess.run([spec.with_name("rpmsrcprep.sh"), tmp_path], check=True, capture_output=True)
    recipe = spec.with_name("podman-hpc.spec")
    source = re.search(r"(?m)^Source0:\s*(\S+)", subprocess.run(["rpmspec", "--parse", recipe], check=True, capture_output=True, text=True).stdout).group(1)
    with tarfile.open(tmp_path / source) as archive:
        assert f"{source.removesuffix('.tar.gz')}/CMakeLists.txt" in archive.getnames()
    assert "podman-hpc" in query(recipe, "--qf", "%{NAME}\n")


def test_build_refuses_what_it_does_not_know(source_dir):
    result = subprocess.run([source_dir / "packaging/rpm/build", "--with", "slurm", "out"], capture_output=True, text=True)
    assert result.returncode == 1 and "unknown option '--with': options of rpmbuild follow the directory" in result.stderr
