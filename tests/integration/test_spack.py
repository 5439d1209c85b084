"""packaging/spack without Spack, which Debian does not have: the packages are programs that agree with the build."""

import ast
import re

import pytest
from helpers import cmake_packages

# What pkg-config and CMake call it: what Spack does.
NAMES = {"re2": "re2", "yaml-0.1": "libyaml", "libsquashfs1": "squashfs-tools-ng", "libzstd": "zstd", "zlib": "zlib-api", "libcrypto": "openssl",
         "libisal": "isa-l", "lzo2": "lzo", "nlohmann_json": "nlohmann-json", "GTest": "googletest", "libarchive": "libarchive"}


@pytest.fixture(params=["sarus", "squashfs-tools-ng"])
def tree(request, source_dir):
    return ast.parse((source_dir / "packaging/spack/packages" / request.param / "package.py").read_text())


@pytest.fixture
def sarus(source_dir):
    return ast.parse((source_dir / "packaging/spack/packages/sarus/package.py").read_text())


def calls(tree, name):
    """The arguments of each call of a function or method, as (positional, keywords)."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and name == getattr(node.func, "id", getattr(node.func, "attr", None))]
    return [([ast.unparse(word).strip("'") for word in node.args], {keyword.arg: ast.unparse(keyword.value).strip("'") for keyword in node.keywords}) for node in found]


def dependencies(tree):
    return {re.match(r"[\w-]+", arguments[0]).group(0) for arguments, _ in calls(tree, "depends_on")}


def variants(tree):
    return {arguments[0]: keywords["default"] for arguments, keywords in calls(tree, "variant")}


def test_variants_are_those_of_the_reference(sarus):
    assert variants(sarus) == {"ssh": "True", "podman_hpc": "True", "slurm": "False", "configure_installation": "True", "unit_tests": "False"}


def test_variants_that_are_used_exist(tree):
    conditions = [keywords["when"] for name in ("depends_on", "resource", "conflicts") for _, keywords in calls(tree, name) if "when" in keywords]
    conditions += [arguments[0] for arguments, _ in calls(tree, "satisfies")]
    used = {name for condition in conditions for name in re.findall(r"[+~](\w+)", condition)} | {arguments[1] for arguments, _ in calls(tree, "define_from_variant")}
    assert used <= set(variants(tree))
    assert used or not variants(tree)


def test_options_of_the_build_exist(sarus):
    options = set(re.findall(r"\boption\((\w+)", cmake_packages.sources()))
    given = {arguments[0] for arguments, _ in calls(sarus, "define_from_variant")}
    assert given == {option for option in options if option in ("ENABLE_SSH", "ENABLE_PODMAN_HPC", "ENABLE_SPANK", "ENABLE_UNIT_TESTS")} and len(given) == 4


def test_what_the_build_looks_for_is_a_dependency(sarus):
    required, optional = cmake_packages.pkg_config_names()
    wanted = required | optional | cmake_packages.cmake_names() | cmake_packages.FOR_TESTS
    assert {NAMES[name] for name in wanted} | {"tomlplusplus", "cmake", "pkgconfig", "cxx"} <= dependencies(sarus)
    assert {arguments[0] for arguments, _ in calls(sarus, "depends_on") if arguments[0].startswith("cmake")} == {
        "cmake@" + re.search(r"cmake_minimum_required\(VERSION (\S+)\)", cmake_packages.sources()).group(1) + ":"}


def test_downloads_have_checksums(tree):
    downloads = [keywords for name in ("version", "resource") for _, keywords in calls(tree, name) if "branch" not in keywords]
    assert all(re.fullmatch("[0-9a-f]{64}", keywords["sha256"]) for keywords in downloads)


def test_names_are_imported(tree):
    """Spack gives a package no name that it does not import."""
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    directives = {"version", "variant", "depends_on", "conflicts", "resource", "license", "run_after", "run_before", "Executable", "InstallError", "join_path"}
    assert {name for name in directives if calls(tree, name)} <= imported


def test_class_has_the_name_of_the_package(source_dir):
    for file in (source_dir / "packaging/spack/packages").glob("*/package.py"):
        classes = [node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
        assert classes == ["".join(word.capitalize() for word in file.parent.name.split("-"))]


def test_repository_has_a_namespace(source_dir):
    lines = (source_dir / "packaging/spack/repo.yaml").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["repo:", "  namespace: sarus"]
