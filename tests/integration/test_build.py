"""What the README promises to people who build: the quick start, the build options and toolchain files."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from helpers import system

pytestmark = [pytest.mark.asroot, pytest.mark.thorough]

TOOLCHAINS = {"gcc.cmake": [], "gcc-gcov.cmake": ["--coverage"], "gcc-asan.cmake": ["-fsanitize=address,undefined"]}


def run_cmake(source_dir, directory, *options, **environment):
    return subprocess.run(["cmake", "-S", source_dir, "-B", directory, "-G", "Ninja", *options], capture_output=True, text=True, cwd=source_dir,
                          env={**os.environ, **environment})


def configure(source_dir, directory, *options):
    """Configures the project and returns the command that compiles the first of its files."""
    result = run_cmake(source_dir, directory, *options)
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads((directory / "compile_commands.json").read_text())[0]["command"]


def registered_tests(directory):
    listing = json.loads(subprocess.run(["ctest", "--show-only=json-v1"], cwd=directory, check=True, capture_output=True, text=True).stdout)
    return {test["name"]: test.get("command", []) for test in listing["tests"]}


@pytest.mark.parametrize("name, flags", TOOLCHAINS.items())
def test_toolchain_files(source_dir, tmp_path, name, flags):
    words = configure(source_dir, tmp_path, f"-DCMAKE_TOOLCHAIN_FILE={source_dir}/cmake/toolchain_files/{name}", "-DENABLE_UNIT_TESTS=OFF").split()
    assert any(word.endswith("g++") for word in words)
    assert [flag for flag in flags if flag not in words] == []


def test_option_for_tests(source_dir, tmp_path):
    configure(source_dir, tmp_path / "with")
    configure(source_dir, tmp_path / "without", "-DENABLE_UNIT_TESTS=OFF")
    names = registered_tests(tmp_path / "with")
    assert "unit_engine" in names
    assert registered_tests(tmp_path / "without") == {}


def test_tests_are_built_where_their_libraries_are(source_dir, tmp_path):
    lacking = "-DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON"
    configure(source_dir, tmp_path / "default", lacking)
    assert registered_tests(tmp_path / "default") == {}
    result = run_cmake(source_dir, tmp_path / "wanted", lacking, "-DENABLE_UNIT_TESTS=ON")
    assert result.returncode != 0
    assert "ENABLE_UNIT_TESTS needs GoogleTest and libarchive (scripts/install-dependencies --test)" in " ".join(result.stderr.split())


def test_warnings_are_no_errors_for_people_who_build(source_dir, tmp_path):
    for options in ([], ["--preset", "release"]):
        assert "-Werror" not in configure(source_dir, tmp_path / str(len(options)), "-DENABLE_UNIT_TESTS=OFF", *options).split()


def link_command(directory, program):
    commands = subprocess.run(["ninja", "-C", directory, "-t", "commands", program], check=True, capture_output=True, text=True).stdout
    return commands.splitlines()[-1].split()


def test_static_programs_contain_what_a_library_needs(source_dir, tmp_path):
    """As RE2 since 2023-06, whose archive needs those of Abseil."""
    subprocess.run(["ar", "rc", tmp_path / "libabsl_other.a"], check=True)
    subprocess.run(["ar", "rc", tmp_path / "libabsl_base.a"], check=True)
    about = "Name: x\nDescription: x\nVersion: 11\n"
    (tmp_path / "absl_base.pc").write_text(f"{about}Libs: -L{tmp_path} -labsl_base\n")
    (tmp_path / "absl_other.pc").write_text(f"{about}Requires: absl_base\nLibs: -L{tmp_path} -labsl_other\n")
    (tmp_path / "re2.pc").write_text(f"{about}Requires: absl_base absl_other\nLibs: -pthread -lre2\n")
    result = run_cmake(source_dir, tmp_path / "build", "-DENABLE_UNIT_TESTS=OFF", PKG_CONFIG_PATH=str(tmp_path))
    assert result.returncode == 0 and "-- All static programs are linked statically\n" in result.stdout
    for program in ("sarus-starter", "sarus"):
        archives = [os.path.basename(word) for word in link_command(tmp_path / "build", program) if re.search("absl|re2", word)]
        assert archives == ["libre2.a", "libabsl_other.a", "libabsl_base.a"]


def test_shared_libraries_are_linked_where_archives_are_missing(source_dir, tmp_path):
    """As on RHEL and SLES. Programs that do not call them stay as they are."""
    result = run_cmake(source_dir, tmp_path, "-DENABLE_UNIT_TESTS=OFF", "-DSARUS_ARCHIVE_re2=OFF", "-DSARUS_ARCHIVE_yaml=OFF")
    assert result.returncode == 0, result.stderr
    assert "-- Static programs are linked statically, except sarus-starter (no libre2.a), podman_hpc_hook (no libyaml.a)\n" in result.stdout
    for program, libraries in {"sarus-starter": ["libre2.so"], "sarus": ["libre2.so"], "podman_hpc_hook": ["libyaml.so"], "podman-hpc": ["libyaml.so"],
                               "sarus-hook": [], "mpi_hook": [], "sarus-image-builder": []}.items():
        command = link_command(tmp_path, program)
        assert [os.path.basename(word) for word in command if re.search("libre2|libyaml", word)] == libraries
        assert ("-static-pie" in command) == (program in ("sarus-hook", "mpi_hook")) and ("-pie" in command or "-static-pie" in command)


def test_ssh_can_be_left_out(source_dir, tmp_path):
    configure(source_dir, tmp_path, "-DENABLE_SSH=OFF", "-DENABLE_UNIT_TESTS=OFF")
    installed = (tmp_path / "cmake_install.cmake").read_text()
    assert "mpi_hook" in installed and "ssh_hook\"" not in installed and "/dropbear" not in installed
    assert "/src/hooks/ssh/main.cpp" not in (tmp_path / "compile_commands.json").read_text()


def test_podman_hpc_can_be_left_out(source_dir, tmp_path):
    configure(source_dir, tmp_path, "-DENABLE_PODMAN_HPC=OFF")
    assert "/src/podman_hpc/" not in (tmp_path / "compile_commands.json").read_text()
    assert [name for name in registered_tests(tmp_path) if "podman_hpc" in name] == []


def test_podman_hpc_is_a_component_of_its_own(build_dir, tmp_path):
    """As for /usr: its files are in /etc/podman_hpc, and the programs find them there; elsewhere they are below the prefix."""
    install = ["cmake", "--install", build_dir, "--component", "podman-hpc", "--prefix"]
    subprocess.run([*install, "/usr"], check=True, capture_output=True, env={**os.environ, "DESTDIR": str(tmp_path / "root")})
    subprocess.run([*install, tmp_path / "opt"], check=True, capture_output=True)
    assert {path.name for path in (tmp_path / "root").iterdir()} == {"etc", "usr"}
    assert len([*(tmp_path / "root/etc/podman_hpc/modules.d").iterdir()]) == len([*(tmp_path / "opt/etc/podman_hpc/modules.d").iterdir()]) == 11
    assert not (tmp_path / "root/usr/etc").exists()
    for prefix in (tmp_path / "root/usr", tmp_path / "opt"):
        assert {path.name for path in (prefix / "bin").iterdir()} >= {"podman-hpc", "podman_hpc_hook", "hook_tool"}
        assert os.readlink(prefix / "bin/hook_tool") == "podman_hpc_hook"
    moved = (tmp_path / "opt").rename(tmp_path / "moved")
    shown = subprocess.run([moved / "bin/podman_hpc_hook", "--explain", "--root=/tmp", "--env=ENABLE_GPU=1"], check=True, capture_output=True, text=True).stdout
    assert f"copy {moved}/etc/podman_hpc/01-gpu.conf to /etc/ld.so.conf.d/02-gpu.conf" in shown


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


@pytest.mark.asroot
def test_quickstart_as_a_newcomer(source_dir, newcomer):
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
