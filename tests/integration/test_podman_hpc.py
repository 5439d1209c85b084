"""podman-hpc with a program in Podman's place that records its arguments and its environment."""

import json
import os
import shutil
import signal
import stat
import subprocess

import pytest
from helpers import system

STAND_IN = """#!/bin/sh
case " $* " in
" __complete "*) printf -- 'pull\\tPull\\n$(touch${IFS}RAN)\\n`x`\\n--pull\\tPolicy\\n:4\\n'; exit ;;
*" --root "*) ;;
" --help ") printf 'Usage:\\n  podman [options] [command]\\n\\nAvailable Commands:\\n  ps  List\\n\\nOptions:\\n      --new-global string   New\\n'; exit ;;
*" --help ") printf 'Usage:\\n  podman %s IMAGE\\n\\nOptions:\\n      --fresh <n>[<unit>]   New\\n  -q, --quiet   Less\\n' "$1"; echo "$1" >>"$RECORD/help"; exit ;;
" completion "*) printf '# for podman\\n__podman_debug() { podman __complete; }\\n'; exit ;;
esac
printf '%s\\0' "$@" >"$RECORD/arguments"
env -0 >"$RECORD/environment"
[ -z "$PMI_FD" ] || cat "/proc/self/fd/$PMI_FD" >"$RECORD/pmi"
exit "${STATUS:-0}"
"""


@pytest.fixture(scope="module")
def prefix(build_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("installed")
    subprocess.run(["cmake", "--install", str(build_dir), "--component", "podman-hpc", "--prefix", str(directory)], check=True, capture_output=True)
    return directory


class Wrapper:
    """podman-hpc in an installation of its own, without site modules, and its calls of Podman."""

    def __init__(self, prefix, directory):
        self.directory = directory
        self.prefix = directory / "prefix"
        (self.prefix / "bin").mkdir(parents=True)
        shutil.copy2(prefix / "bin/podman-hpc", self.prefix / "bin")
        self.modules = self.prefix / "etc/podman_hpc/modules.d"
        self.modules.mkdir(parents=True)
        self.podman = directory / "bin/podman"
        self.podman.parent.mkdir()
        self.podman.write_text(STAND_IN)
        self.podman.chmod(0o755)
        self.mount_program = directory / "bin/fuse-overlayfs-wrap"
        self.mount_program.symlink_to("/bin/true")
        self.home = directory / "home"
        self.home.mkdir()
        self.variables = {
            "HOME": self.home, "PATH": f"{self.podman.parent}:/usr/bin:/bin", "RECORD": directory, "SQUASH_DIR": directory / "squash",
            "PODMANHPC_GRAPH_ROOT": directory / "graph", "PODMANHPC_RUN_ROOT": directory / "run",
            "PODMANHPC_CONFIG_HOME": directory / "config"}

    def call(self, *words, status=0, variables=None, launcher=(), **keywords):
        for name in ("arguments", "environment", "pmi"):
            (self.directory / name).unlink(missing_ok=True)
        environment = {name: str(value) for name, value in {**self.variables, **(variables or {})}.items() if value is not None}
        result = subprocess.run([*launcher, self.prefix / "bin/podman-hpc", *map(str, words)], capture_output=True, text=True, env=environment, timeout=300,
                                stdin=subprocess.DEVNULL, **keywords)
        assert result.returncode == status, result.stderr
        return result

    def arguments(self, *words, **keywords):
        """What Podman is called with."""
        self.call(*words, **keywords)
        return (self.directory / "arguments").read_text().split("\0")[:-1]

    def environment(self, *words, **keywords):
        self.call(*words, **keywords)
        return dict(line.split("=", 1) for line in (self.directory / "environment").read_text().split("\0")[:-1])

    def defaults(self, *extra):
        return ["--root", f"{self.directory}/graph", "--runroot", f"{self.directory}/run", "--storage-opt", f"mount_program={self.mount_program}",
                "--cgroup-manager", "cgroupfs", *extra, "--log-level", "fatal"]

    def hook_arguments(self):
        return ["--hooks-dir", f"{self.prefix}/share/containers/oci/hooks.d", "--env", f"PODMANHPC_MODULES_DIR={self.modules}",
                "--annotation", "podman_hpc.hook_tool=true"]

    def run_arguments(self, *module_arguments):
        return ["run", *self.defaults("--storage-opt", "ignore_chown_errors=true", "--storage-opt", f"additionalimagestore={self.directory}/squash",
                                      *self.hook_arguments(), "--security-opt", "seccomp=unconfined", *(module_arguments or ["--annotation", "podman_hpc.variables="]))]

    def add_module(self, name, text):
        (self.modules / f"{name}.yaml").write_text(f"name: {name}\n{text}")

    def configure(self, text):
        (self.prefix / "etc/podman_hpc/podman_hpc.yaml").write_text(text)


@pytest.fixture
def wrapper(prefix, tmp_path):
    return Wrapper(prefix, tmp_path)


# Arguments

@pytest.mark.parametrize("words", [
    ["ps", "-a"], ["container", "exec", "name", "ls", "--help"], ["unknown", "word"], ["image", "rm", "--", "x"], ["image", "save", "x"], ["save", "x"], ["image"]])
def test_other_commands_get_the_default_arguments(wrapper, words):
    assert wrapper.arguments(*words) == [words[0], *wrapper.defaults(), *words[1:]]


@pytest.mark.parametrize("words", [
    *(["commit", "x"], ["cp", "x:/a", "-"], ["create", "-it", "image"], ["diff", "x"], ["export", "x"], ["history", "x"], ["inspect", "--", "x"],
      ["restart", "x"], ["start", "x"]),
    *(["container", command, "x"] for command in ("commit", "cp", "create", "diff", "export", "inspect", "restart", "run", "start")),
    *(["image", command, "x"] for command in ("diff", "exists", "history", "inspect", "list", "ls"))])
def test_commands_that_look_for_images_get_the_additional_stores(wrapper, words):
    assert wrapper.arguments(*words) == [words[0], *wrapper.defaults("--storage-opt", f"additionalimagestore={wrapper.directory}/squash"), *words[1:]]


def test_podman_gets_the_signals_as_they_were_except_that_its_children_can_be_awaited(wrapper):
    wrapper.podman.write_text('#!/bin/bash\ngrep -E "^Sig(Ign|Blk)" /proc/self/status\n')
    launcher = ["env", "--ignore-signal=HUP,INT,CHLD", "--block-signal=USR1"]
    lines = wrapper.call("ps", launcher=launcher).stdout.splitlines()
    assert lines == [f"SigBlk:\t{system.signal_set([signal.SIGUSR1]):016x}", f"SigIgn:\t{system.signal_set([signal.SIGHUP, signal.SIGINT]):016x}"]


def test_run_arguments(wrapper):
    assert wrapper.arguments("run", "--rm", "image", "ls", "-l") == [*wrapper.run_arguments(), "--rm", "image", "ls", "-l"]


def test_build_arguments(wrapper):
    assert wrapper.arguments("build", ".") == ["build", *wrapper.defaults(*wrapper.hook_arguments()), "."]


def test_pull_and_images_arguments(wrapper):
    # The stand-in pulls nothing, so there is nothing to migrate.
    assert wrapper.arguments("pull", "a", "--quiet", status=1) == ["pull", *wrapper.defaults("--storage-opt", "ignore_chown_errors=true"), "a", "--quiet"]
    assert wrapper.arguments("images") == ["images", *wrapper.defaults("--storage-opt", f"additionalimagestore={wrapper.directory}/squash")]


def local_image(wrapper, layer_size, driver="overlay"):
    """An image in Podman's own store; the layer's directory is empty."""
    image, layer, graph = "a" * 64, "b" * 64, wrapper.directory / "graph"
    for part in (f"{driver}-images/{image}", f"{driver}-layers", f"{driver}/{layer}/diff"):
        (graph / part).mkdir(parents=True)
    (graph / f"{driver}-images/images.json").write_text(json.dumps([{"id": image, "names": ["localhost/x:latest"], "layer": layer}]))
    (graph / f"{driver}-layers/layers.json").write_text(json.dumps([{"id": layer, "diff-size": layer_size}]))
    (graph / f"{driver}/{layer}/link").write_text("X" * 26)
    return image


@pytest.mark.parametrize("driver", ["overlay", "vfs"])
def test_layers_that_cannot_be_read_as_files_go_through_mksquashfs(wrapper, driver):
    image = local_image(wrapper, 5000, driver)
    make = f"printf hsqs >$SQUASH_DIR/overlay/l/{'X' * 26}.squash\n"
    wrapper.podman.write_text(STAND_IN.replace("exit \"${STATUS", make + "exit \"${STATUS"))
    squash = wrapper.directory / "squash"
    variables = {"PODMANHPC_MKSQUASHFS_BIN": "/bin/true", "STORAGE_DRIVER": driver}
    assert "is now in" in wrapper.call("migrate", "x", variables=variables).stdout
    arguments = (wrapper.directory / "arguments").read_text().split("\0")[:-1]
    assert arguments == [
        "run", "--rm", "--root", f"{wrapper.directory}/graph", "-v", "/bin/true:/mksq", "-v", f"{squash}/overlay/l/:/sqout", "--user", "0",
        "--entrypoint", "/mksq", image, "/", f"/sqout/{'X' * 26}.squash", "-comp", "lz4", "-xattrs-exclude", "security.capability",
        "-e", "/sqout", "-e", "/mksq", "-e", "/proc", "-e", "/sys", "-e", "/dev"]
    assert json.loads((squash / "overlay-images/images.json").read_text())[0]["id"] == image
    assert {path.name for path in (squash / "overlay/l").iterdir()} == {"X" * 26, "X" * 26 + ".squash"}


def test_a_failing_mksquashfs_leaves_nothing(wrapper):
    local_image(wrapper, 5000)
    error = wrapper.call("migrate", "x", status=1).stderr
    assert "there is no mksquashfs.static in PATH" in error
    assert "Failed to squash the image" in wrapper.call("migrate", "x", status=1, variables={"PODMANHPC_MKSQUASHFS_BIN": "/bin/true", "STATUS": "1"}).stderr
    assert (wrapper.directory / "squash/overlay-images/images.json").read_text() == "[]"
    assert list((wrapper.directory / "squash/overlay/l").iterdir()) == []


def test_usage_of_migrate_and_rmsqi(wrapper):
    for command in ("migrate", "rmsqi"):
        assert f"Usage: podman-hpc {command} [options] IMAGE" in wrapper.call(command, "--help").stdout
        assert wrapper.call(command, status=2).stderr.endswith("Error: Missing argument 'IMAGE'.\n")
        assert wrapper.call(command, "a", "b", status=2).stderr.endswith("Error: Got unexpected extra argument (b)\n")
        assert wrapper.call(command, "-x", "b", status=2).stderr.endswith("Error: No such option: -x\n")
        assert "Image none not found" in wrapper.call(command, "none", status=1).stderr


def test_without_default_arguments(wrapper):
    wrapper.add_module("tools", "cli_arg: tools\nenv: TOOLS\nadditional_args: [--ipc=host]\n")
    off = {"PODMANHPC_USE_DEFAULT_ARGS": "False"}
    assert wrapper.arguments("run", "--tools", "image", variables=off) == [
        "run", "--ipc=host", "-e", "TOOLS=1", "--annotation", "podman_hpc.variables=", "--log-level", "fatal", "image"]
    assert wrapper.arguments("--root", "/r", "ps", variables=off) == ["--root", "/r", "ps", "--log-level", "fatal"]


def test_interpretation_stops_at_the_image(wrapper):
    wrapper.add_module("tools", "cli_arg: tools\nenv: TOOLS\n")
    for words in (["image", "grep", "--help"], ["image", "--tools"], ["-e", "A=b", "--name", "x", "image", "ls", "--", "--help"], ["--", "image", "--tools", "--help"],
                  ["--shm-size", "1g", "image", "--tools"], ["--init=true", "-it", "-eA=b", "image", "-h"]):
        assert wrapper.arguments("run", *words) == [*wrapper.run_arguments(), *words]
    assert wrapper.arguments("exec", "name", "grep", "--help")[-3:] == ["name", "grep", "--help"]


def test_unknown_option_is_looked_up_once(wrapper):
    wrapper.add_module("tools", "cli_arg: tools\nenv: TOOLS\n")
    for _ in range(2):
        assert wrapper.arguments("run", "--fresh", "1g", "--tools", "image")[-3:] == ["--fresh", "1g", "image"]
    assert (wrapper.directory / "help").read_text() == "run\n"
    os.utime(wrapper.podman, (1, 1))  # another Podman
    wrapper.call("run", "--fresh", "1g", "image")
    assert (wrapper.directory / "help").read_text() == "run\n" * 2


def test_global_options_of_podman(wrapper):
    assert wrapper.arguments("--noout", "--remote", "--url=x", "ps", "-q") == ["--noout", "--remote", "--url=x", "ps", *wrapper.defaults(), "-q"]
    assert wrapper.arguments("--new-global", "x", "ps") == ["--new-global", "x", "ps", *wrapper.defaults()]
    assert wrapper.arguments("--version") == ["--version"]
    assert wrapper.arguments("--log-level", "debug", "ps")[-2:] == ["--log-level", "debug"]
    assert wrapper.arguments("--", "ps") == ["ps", *wrapper.defaults()]


def test_options_that_replace_settings(wrapper):
    root = f"{wrapper.directory}/other"
    assert wrapper.arguments("--root", root, "--cgroup-manager=systemd", "ps") == [
        word.replace(f"{wrapper.directory}/graph", root).replace("cgroupfs", "systemd") for word in ["ps", *wrapper.defaults()]]


@pytest.mark.parametrize("words, message", [
    (["--nout", "ps"], "No such option: --nout"), (["-z", "ps"], "No such option: -z"), (["--squash-dir"], "Option '--squash-dir' requires an argument."),
    (["infohpc", "b"], "Got unexpected extra argument (b)"), (["run", "--tools=1", "image"], "Option '--tools' does not take a value."),
    (["module", "show"], "No such command 'show'."), (["completion"], "Missing argument 'SHELL'.")])
def test_usage_errors(wrapper, words, message):
    wrapper.add_module("tools", "cli_arg: tools\nenv: TOOLS\n")
    lines = wrapper.call(*words, status=2).stderr.splitlines()
    assert lines[0].startswith("Usage: podman-hpc ") and lines[1:] == ["Try 'podman-hpc --help' for help.", "", f"Error: {message}"]


def test_exit_status_and_signals_are_those_of_podman(wrapper):
    wrapper.call("ps", status=7, variables={"STATUS": "7"})
    wrapper.podman.write_text("#!/bin/sh\nkill -TERM $$\n")
    wrapper.call("ps", status=-15)


# Stores

def test_squash_dir_and_additional_stores(wrapper):
    stores = f"additionalimagestore={wrapper.directory}/s"
    wrapper.configure("additional_stores: [/a]\n")
    assert f"{stores},/a" in wrapper.arguments("--squash-dir", f"{wrapper.directory}/s", "images")
    assert f"{stores},/b,/c" in wrapper.arguments(f"--squash-dir={wrapper.directory}/s", "--additional-stores", "/b,/c", "run", "image")
    assert f"{wrapper.directory}/squash,/a" in " ".join(wrapper.arguments("images"))
    assert stores + "cratch/storage,/a" in wrapper.arguments("images", variables={"SQUASH_DIR": None, "SCRATCH": f"{wrapper.directory}/scratch"})


def test_an_empty_squash_store_is_made_for_commands_that_read_it(wrapper):
    wrapper.call("ps")
    assert not (wrapper.directory / "squash").exists()
    wrapper.call("images")
    assert sorted(str(path.relative_to(wrapper.directory / "squash")) for path in (wrapper.directory / "squash").rglob("*")) == [
        "overlay", "overlay-images", "overlay-images/images.json", "overlay-images/images.lock", "overlay-layers", "overlay-layers/layers.json",
        "overlay-layers/layers.lock", "overlay/l"]
    locks = [path.read_text() for path in (wrapper.directory / "squash").glob("*/*.lock")]
    assert [len(mark) for mark in locks] == [64, 64] and locks[0] != locks[1]  # Podman reads lists again and again if there is no mark


def test_infohpc_and_help_create_nothing(wrapper):
    before = sorted(wrapper.directory.rglob("*"))
    for words in (["infohpc"], ["run", "--help"], ["--help"], ["module", "check"]):
        wrapper.call(*words)
    (wrapper.directory / "help").unlink()
    assert sorted(wrapper.directory.rglob("*")) == before


@pytest.mark.parametrize("variable, cure", [("SQUASH_DIR", "--squash-dir or SQUASH_DIR"), ("PODMANHPC_GRAPH_ROOT", "PODMANHPC_..."),
                                            ("PODMANHPC_CONFIG_HOME", "PODMANHPC_...")])
def test_a_store_that_cannot_be_made(wrapper, variable, cure):
    message = wrapper.call("images", status=1, variables={variable: "/proc/x"}).stderr
    assert message.startswith("Error: Failed to create ") and "/proc/x" in message and message.rstrip().endswith(cure)


# Environment

def test_environment_of_podman(wrapper):
    environment = wrapper.environment("ps", variables={"XDG_RUNTIME_DIR": "/run/user/0", "OTHER": "kept"})
    assert environment["XDG_CONFIG_HOME"] == f"{wrapper.directory}/config" and environment["STORAGE_DRIVER"] == "overlay" and environment["OTHER"] == "kept"
    assert "XDG_RUNTIME_DIR" not in environment
    assert wrapper.environment("ps", variables={"STORAGE_DRIVER": "vfs"})["STORAGE_DRIVER"] == "vfs"


def test_generated_files_are_private_and_never_overwritten(wrapper):
    wrapper.call("ps")
    assert stat.S_IMODE((wrapper.directory / "config").stat().st_mode) == 0o700
    storage = wrapper.directory / "config/containers/storage.conf"
    assert f'graphroot = "{wrapper.directory}/graph"' in storage.read_text()
    assert 'cgroup_manager = "cgroupfs"' in (storage.parent / "containers.conf").read_text()
    storage.write_text("mine")
    wrapper.call("ps")
    assert storage.read_text() == "mine"


def test_registries_policy_and_login_keep_working(wrapper):
    own, runtime = wrapper.home / ".config/containers", wrapper.directory / "runtime/containers"
    own.mkdir(parents=True)
    runtime.mkdir(parents=True)
    (own / "registries.conf").write_text("mine")
    (runtime / "auth.json").write_text("{}")
    assert wrapper.environment("search", "x", variables={"XDG_RUNTIME_DIR": runtime.parent})["REGISTRY_AUTH_FILE"] == f"{runtime}/auth.json"
    assert (wrapper.directory / "config/containers/registries.conf").read_text() == "mine"


@pytest.mark.parametrize("command, kept", [("run", True), ("exec", True), ("ps", False), ("images", False), ("build", False)])
def test_pmi_descriptor(wrapper, command, kept):
    reader, writer = os.pipe()
    os.write(writer, b"cmd=init\n")
    os.close(writer)
    arguments = wrapper.arguments(command, "x", variables={"PMI_FD": str(reader)}, pass_fds=[reader])
    os.close(reader)
    assert arguments[-4:] == ["fatal", "--preserve-fds", "1", "x"] if kept else "--preserve-fds" not in arguments
    assert (wrapper.directory / "pmi").read_text() == "cmd=init\n"


def test_a_closed_pmi_descriptor_is_ignored(wrapper):
    wrapper.podman.write_text(STAND_IN.replace('[ -z "$PMI_FD" ]', "true"))
    assert "--preserve-fds" not in wrapper.arguments("run", "x", variables={"PMI_FD": "77"})


@pytest.mark.asroot
def test_directories_of_somebody_else_in_tmp_are_refused(wrapper, other_user):
    public = wrapper.directory / "public"
    (public / "taken").mkdir(parents=True)
    public.chmod(0o1777)
    other_user.own(public / "taken")
    for key in ("GRAPH_ROOT", "RUN_ROOT", "CONFIG_HOME"):
        message = wrapper.call("ps", status=1, variables={f"PODMANHPC_{key}": public / "taken/x"}).stderr
        assert message.startswith(f"Error: User {other_user.uid} owns {public}/taken... Exiting\n")


# Configuration

def test_precedence(wrapper):
    wrapper.configure("run_root_template: '/t/{{ env.A_B }}'\n")
    variables = {"PODMANHPC_RUN_ROOT": None, "A_B": "x", "PODMANHPC_CONFIG_HOME": wrapper.directory}
    assert "run_root (file: run_root_template): /t/x\n" in wrapper.call("infohpc", variables=variables).stdout
    variables["PODMANHPC_RUN_ROOT_TEMPLATE"] = "/e/{{ uid }}"
    assert f"run_root (env: PODMANHPC_RUN_ROOT_TEMPLATE): /e/{os.getuid()}\n" in wrapper.call("infohpc", variables=variables).stdout
    wrapper.configure("run_root_template: '/t/{{ env.A_B }}'\nrun_root: /f\n")
    assert "run_root (file: run_root): /f\n" in wrapper.call("infohpc", variables=variables).stdout
    assert "run_root (env: PODMANHPC_RUN_ROOT): /v\n" in wrapper.call("infohpc", variables={**variables, "PODMANHPC_RUN_ROOT": "/v"}).stdout


def test_infohpc(wrapper):
    wrapper.configure("additional_stores: [/a, /b]\n")
    wrapper.add_module("tools", "cli_arg: tools\nenv: TOOLS\n")
    output = wrapper.call("infohpc").stdout
    lines = output.splitlines()
    assert lines[0].startswith("Podman-HPC Version: 2") and [line.split()[0] for line in lines if not line.startswith(" ")][1:] == [
        "podman_bin", "mount_program", "modules_dir", "shared_run_exec_args", "shared_run_command", "graph_root", "run_root", "additional_stores", "hooks_dir",
        "localid_var", "tasks_per_node_var", "ntasks_pattern", "config_home", "mksquashfs_bin", "wait_timeout", "wait_poll_interval", "use_default_args",
        "active_modules"]
    assert "additional_stores  (file: additional_stores): (list)\n - /a\n - /b\n" in output and "use_default_args (default): True\n" in output
    assert output.endswith(f"active_modules : (list)\n - {wrapper.modules}/tools.yaml\n")


def test_infohpc_provenance_and_json(wrapper):
    wrapper.configure("\nrun_root: /f\n")
    file = wrapper.prefix / "etc/podman_hpc/podman_hpc.yaml"
    text = wrapper.call("infohpc", "--provenance").stdout
    assert f"run_root (env: PODMANHPC_RUN_ROOT): {wrapper.directory}/run\n    replaces (file: run_root, {file}:2): /f\n    replaces (default): /tmp/" in text
    settings = json.loads(wrapper.call("infohpc", "--json", variables={"PODMANHPC_RUN_ROOT": None}).stdout)
    assert settings["settings"]["run_root"] == {"value": "/f", "source": "file: run_root", "file": str(file), "line": 2}
    assert settings["settings"]["wait_poll_interval"]["value"] == 0.2 and settings["squash_dir"] == f"{wrapper.directory}/squash"


@pytest.mark.parametrize("text, message", [
    ("\ngraph_rot: x\n", "Error: Unrecongnized Option: graph_rot... Exiting\nFILE:2: the key 'graph_rot' is unknown; did you mean 'graph_root'?\n"),
    ("graph_root: [x]\n", "Error: FILE:1: graph_root must be text, found a list... Exiting\n"),
    ("run_root_template: '{{ env.NONE }}'\n", "Error: 'NONE'... Exiting\nFILE:1: run_root_template: The environment has no variable NONE\n")])
def test_mistakes_in_the_configuration(wrapper, text, message):
    file = wrapper.directory / "own.yaml"
    file.write_text(text)
    assert wrapper.call("ps", status=1, variables={"PODMANHPC_CONFIG_FILE": file}).stderr == message.replace("FILE", str(file))


def test_missing_programs(wrapper):
    assert wrapper.call("ps", status=1, variables={"PATH": "/nonexistent"}).stderr.startswith("Error: No podman binary found in PATH... Exiting\n")
    only = {"PATH": "/nonexistent", "PODMANHPC_PODMAN_BIN": wrapper.podman}
    assert wrapper.call("ps", status=1, variables=only).stderr.startswith("Error: No fuse-overlayfs-wrap binary found in PATH... Exiting\n")


# Site modules

def test_module_arguments(wrapper):
    wrapper.add_module("b", "cli_arg: b\nenv: B\nadditional_args: ['-e SLURM_*', --ipc=host]\n")
    wrapper.add_module("a", "cli_arg: a\nenv: A\nbind: ['$SCRATCH:$SCRATCH']\n")
    assert wrapper.arguments("run", "--b", "--rm", "--a", "image", variables={"SCRATCH": "/s"}) == [
        *wrapper.run_arguments("-e", "A=1", "-e SLURM_*", "--ipc=host", "-e", "B=1", "--annotation", "podman_hpc.env.SCRATCH=/s",
                               "--annotation", "podman_hpc.variables=SCRATCH"), "--rm", "image"]


def test_modules_of_exec_set_variables(wrapper):
    wrapper.add_module("a", "cli_arg: a\nenv: A\nshared_run: true\nadditional_args: ['-e SLURM_*', --ipc=host, --env, 'B=b', --env-file=/f, --env-host]\nbind: ['$HOME:/h']\n")
    assert wrapper.arguments("exec", "-it", "--a", "name", "ls", "--a") == [
        "exec", *wrapper.defaults()[:-2], "-e SLURM_*", "--env", "B=b", "--env-file=/f", "-e", "A=1", "--log-level", "fatal", "-it", "name", "ls", "--a"]
    assert wrapper.arguments("exec", "name", "ls") == ["exec", *wrapper.defaults(), "name", "ls"]
    assert "  --a  " in wrapper.call("exec", "--help").stdout


def test_modules_do_not_belong_to_build_and_create(wrapper):
    wrapper.add_module("a", "cli_arg: a-flag\nenv: A\n")
    wrapper.add_module("fresh", "cli_arg: fresh\nenv: B\n")  # Podman has this option, too
    for words in (["--a-flag", "."], ["-t", "x", ".", "--a-flag"]):
        assert wrapper.call("build", *words, status=1).stderr == (
            "Error: Module 'a' (--a-flag) does not work with build; modules belong to run, shared-run and exec... Exiting\n")
    assert wrapper.arguments("build", "--fresh", "1", ".")[-3:] == ["--fresh", "1", "."]
    assert wrapper.arguments("build", "--", "--a-flag")[-2:] == ["--", "--a-flag"]
    assert wrapper.arguments("create", "--a-flag", "x")[-2:] == ["--a-flag", "x"]


def test_conflicts_and_dependencies(wrapper):
    wrapper.add_module("a", "cli_arg: a\nenv: A\nconflicts: [b]\ndepends_on: [c]\n")
    wrapper.add_module("b", "cli_arg: b\nenv: B\n")
    wrapper.add_module("c", "cli_arg: c-flag\nenv: C\n")
    assert wrapper.call("run", "--a", "--b", "image").stderr == (
        "WARNING: Module 'a' (--a) conflicts with 'b' (--b). These modules cannot be used together.\n"
        "WARNING: Module 'a' (--a) requires 'c' to be enabled. Please add --c-flag to your command.\n")


def test_a_broken_module_is_a_warning(wrapper):
    (wrapper.modules / "x.yaml").write_text("cli_arg: x\n")
    result = wrapper.call("run", "image")
    assert result.stderr == f"WARNING: {wrapper.modules}/x.yaml:1: the key 'name' is missing; this module is disabled\n"
    assert wrapper.call("ps").stderr == ""


def test_module_check(wrapper):
    wrapper.add_module("good", "cli_arg: good\nenv: GOOD\n")
    assert wrapper.call("module", "check").stdout == f"OK: {wrapper.modules}/good.yaml\n"
    wrapper.add_module("bad", "bind: ['/a:b']\n")
    assert wrapper.call("module", "check", status=1).stdout == (
        f"ERROR: {wrapper.modules}/bad.yaml:2: bind: rule '/a:b': the target is not an absolute path\nOK: {wrapper.modules}/good.yaml\n")
    (wrapper.directory / "same.yaml").write_text("name: good\n")
    assert "another module has the name 'good'" in wrapper.call("module", "check", wrapper.modules / "good.yaml", wrapper.directory / "same.yaml", status=1).stdout


def test_shipped_modules_are_valid(prefix):
    result = subprocess.run([prefix / "bin/podman-hpc", "module", "check"], capture_output=True, text=True)
    assert result.returncode == 0 and result.stdout.count("OK: ") == 11 and (prefix / "etc/podman_hpc/01-gpu.conf").read_text() == "/usr/lib64\n"


# Documentation

def test_manual_pages_name_all_keys_options_and_commands(prefix):
    settings = json.loads(subprocess.run([prefix / "bin/podman-hpc", "infohpc", "--json"], capture_output=True, text=True, check=True).stdout)["settings"]
    page = (prefix / "share/man/man5/podman_hpc.yaml.5").read_text()
    assert len(settings) == 17 and [key for key in settings if f"\n.BR {key} " not in page] == []
    text = (prefix / "share/man/man1/podman-hpc.1").read_text().replace("\\-", "-")
    words = ["--additional-stores", "--squash-dir", "--log-level", "--help", "infohpc", "--provenance", "--json", "module check", "completion"]
    assert [word for word in words if word not in text] == []


# Help and completion

def test_general_help(wrapper):
    for words in (["--help"], []):
        text = wrapper.call(*words).stdout
        parts = ["Manage pods, containers and images ... on HPC!", "Description:", "Usage: podman-hpc [options] COMMAND [ARGS]...", "Options:", "  --squash-dir TEXT",
                 "Commands:", "  completion", "  infohpc", "  module", "Podman help page follows:", "  Available Commands:", "    ps  List"]
        positions = [text.find(part) for part in parts]
        assert -1 not in positions and positions == sorted(positions) and "--log-level" not in text


def test_help_of_podmans_commands(wrapper):
    wrapper.add_module("tools", "cli_arg: tools\nhelp: Site tools\nenv: TOOLS\n")
    assert wrapper.call("run", "--rm", "--help", "image").stdout == (
        "Usage:\n  podman-hpc run IMAGE\n\nPodman-hpc Options:\n  --tools             Site tools\n\nPodman options follow:\n"
        "      --fresh <n>[<unit>]   New\n  -q, --quiet   Less\n")
    assert "Podman-hpc Options" not in wrapper.call("create", "--help").stdout


def test_help_of_own_commands(wrapper):
    text = wrapper.call("infohpc", "--help").stdout
    assert "Usage: podman-hpc infohpc [options]\n" in text and "  --provenance" in text


def test_completion_composes_ours_and_podmans(wrapper):
    wrapper.add_module("pulse", "cli_arg: pulse\nhelp: Site\nenv: PULSE\n")
    assert wrapper.call("__complete", "pu").stdout == "pull\tPull\n--pull\tPolicy\n:4\n"
    assert wrapper.call("__complete", "in").stdout.startswith("infohpc\tShow ")
    assert wrapper.call("__complete", "run", "--pu").stdout == "--pulse\tSite\npull\tPull\n--pull\tPolicy\n:4\n"
    assert wrapper.call("__complete", "exec", "--pu").stdout.startswith("--pulse\tSite\n")
    assert wrapper.call("__complete", "module", "").stdout == "check\tCheck the site modules.\n:4\n"
    assert wrapper.call("completion", "bash").stdout == "# for podman-hpc\n__podman_hpc_debug() { podman-hpc __complete; }\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_installed_completions(prefix, shell):
    file = {"bash": "share/bash-completion/completions/podman-hpc", "zsh": "share/zsh/site-functions/_podman-hpc",
            "fish": "share/fish/vendor_completions.d/podman-hpc.fish"}[shell]
    subprocess.run([system.program(shell), "-n", prefix / file], check=True)


@pytest.mark.asroot  # others are left with the directory that Podman makes for them in /tmp
def test_bash_completes_through_the_installed_file(prefix, tmp_path):
    script = """source "$1"; COMP_LINE='podman-hpc infoh'; COMP_POINT=${#COMP_LINE}; COMP_WORDS=(podman-hpc infoh); COMP_CWORD=1
        _get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=infoh; prev=podman-hpc; }
        __start_podman_hpc; echo "${COMPREPLY[0]%% *}" """
    result = subprocess.run(["bash", "-c", script, "bash", prefix / "share/bash-completion/completions/podman-hpc"], capture_output=True, text=True,
                            env={"PATH": f"{prefix}/bin:/usr/bin:/bin", "HOME": str(tmp_path), "PODMANHPC_CONFIG_HOME": f"{tmp_path}/config"})
    assert result.stdout == "infohpc\n", result.stderr
