"""What the README promises to people who build: the quick start, the build options, presets and toolchain files."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from helpers import system

pytestmark = pytest.mark.asroot

TOOLCHAINS = {"gcc.cmake": [], "gcc-gcov.cmake": ["--coverage"], "gcc-asan.cmake": ["-fsanitize=address,undefined"]}
PRESETS = {"release": ["-O3"], "debug": ["-g"], "asan-ubsan": ["-fsanitize=address,undefined"]}


def configure(source_dir, directory, *options):
    """Configures the project and returns the command that compiles the first of its files."""
    subprocess.run(["cmake", "-S", source_dir, "-B", directory, "-G", "Ninja", *options], check=True, capture_output=True, cwd=source_dir)
    return json.loads((directory / "compile_commands.json").read_text())[0]["command"]


def registered_tests(directory):
    listing = json.loads(subprocess.run(["ctest", "--show-only=json-v1"], cwd=directory, check=True, capture_output=True, text=True).stdout)
    return {test["name"]: test.get("command", []) for test in listing["tests"]}


@pytest.mark.parametrize("name, flags", TOOLCHAINS.items())
def test_toolchain_files(source_dir, tmp_path, name, flags):
    words = configure(source_dir, tmp_path, f"-DCMAKE_TOOLCHAIN_FILE={source_dir}/cmake/toolchain_files/{name}", "-DENABLE_UNIT_TESTS=OFF").split()
    assert any(word.endswith("g++") for word in words)
    assert [flag for flag in flags if flag not in words] == []


@pytest.mark.parametrize("name, flags", PRESETS.items())
def test_presets(source_dir, tmp_path, name, flags):
    words = configure(source_dir, tmp_path, f"--preset={name}", "-DENABLE_UNIT_TESTS=OFF").split()
    assert [flag for flag in flags if flag not in words] == []


def test_option_for_tests(source_dir, tmp_path):
    configure(source_dir, tmp_path / "with")
    configure(source_dir, tmp_path / "without", "-DENABLE_UNIT_TESTS=OFF")
    names = registered_tests(tmp_path / "with")
    assert "unit_engine" in names and "integration_build_AsRoot" in names
    assert registered_tests(tmp_path / "without") == {}


def test_unit_tests_run_under_valgrind(source_dir, build_dir, tmp_path):
    """The programs of this build stand in for those that the option would have built again."""
    configure(source_dir, tmp_path, "-DENABLE_TESTS_WITH_VALGRIND=ON", "-DENABLE_SSH=OFF")
    program, *arguments = registered_tests(tmp_path).get("unit_oci", ["valgrind"])
    assert os.path.basename(program) == "valgrind"
    command = [argument.replace(str(tmp_path), str(build_dir)) for argument in arguments]
    result = subprocess.run([program, *command[:-1], "--gtest_filter=Json*:Bundle*"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert re.search(r"\[  PASSED  \] [1-9]\d* tests", result.stdout)


@pytest.fixture
def newcomer():
    user = system.create_user(f"sarus{os.getpid()}q", "/home")
    yield user
    system.remove_user(user)


def what_is_not_in_a_clone(folder, names):
    builds = [name for name in names if pathlib.Path(folder, name, "CMakeCache.txt").exists()]
    return {".git", "__pycache__", *builds} & set(names)


def quickstart_as_a_newcomer(source_dir, newcomer):
    """An unprivileged user, a fresh copy of the sources, the first of the README's two commands."""
    clone = newcomer.home / "sarus"
    shutil.copytree(source_dir, clone, symlinks=True, ignore=what_is_not_in_a_clone)
    subprocess.run(["chown", "-R", f"{newcomer.uid}:{newcomer.gid}", clone], check=True)

    result = subprocess.run(["setpriv", "--reuid", str(newcomer.uid), "--regid", str(newcomer.gid), "--init-groups", "--",
                             "scripts/quickstart"], cwd=clone, env=newcomer.environment(), capture_output=True, text=True)

    assert result.returncode == 0, result.stdout + result.stderr
    assert f"I am {newcomer.name} (uid {newcomer.uid})" in result.stdout
    prefix = newcomer.home / ".local" / "opt" / "sarus"
    assert f"programs    {prefix} " in result.stdout
    privileged = [path for path in prefix.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o6000]
    assert privileged == []
    for suggestion in re.findall(r"^  (sarus (?:images|run load\S+ cat .*))$", result.stdout, re.MULTILINE):
        again = subprocess.run(["setpriv", "--reuid", str(newcomer.uid), "--regid", str(newcomer.gid), "--init-groups", "--", "sh", "-c",
                                suggestion], env=newcomer.environment(PATH=f"{prefix}/bin:{system.PATH}"), capture_output=True, text=True)
        assert again.returncode == 0 and again.stdout, suggestion + again.stderr


# It builds everything once more: for whoever makes a release (CONTRIBUTING.md).
if os.environ.get("SARUS_TEST_QUICKSTART") == "1":
    test_quickstart_as_a_newcomer = quickstart_as_a_newcomer
