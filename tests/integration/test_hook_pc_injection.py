"""pc_injection_hook: by itself, in Podman's precreate stage and in the engine's."""

import json
import os
import shutil
import subprocess

import pytest
from helpers import hook_bundle, images
from helpers.compiler import compile_library, compile_program
from helpers.hook_bundle import LIBC, LINKER, MULTIARCH
from test_hook_podman import podman  # noqa: F401 (a fixture)
from test_hooks import hooks, hooks_engine  # noqa: F401 (fixtures)

ANSWER = "int answer(void) {{ return {}; }}\n"
PROGRAM = "int answer(void); int main(void) { return answer(); }\n"
DIRECTORY = "/run/pc-injection"


def make_host(directory):
    compile_library(directory / "libanswer.so.1.3.0", ANSWER.format(42), "libanswer.so.1")
    (directory / "libanswer.so.1").symlink_to("libanswer.so.1.3.0")
    compile_library(directory / "libhelp.so.2", "int help(void) { return 1; }\n", "libhelp.so.2")
    (directory / "file").write_text("a file\n")
    return directory


def make_image(root, version="1.2.0"):
    """With a program that returns what the image's library answers: 7."""
    library = compile_library(root / f"usr/lib/libanswer.so.{version}", ANSWER.format(7), f"libanswer.so.{version[0]}")
    (root / f"usr/lib/libanswer.so.{version[0]}").symlink_to(library.name)
    compile_program(root / "usr/bin/ask", PROGRAM, [library])
    return root


class Case:
    def __init__(self, program, directory):
        self.program = program
        self.host = make_host(directory / "host")
        self.root = make_image(hook_bundle.make_root(directory / "rootfs"))
        self.config = {"root": {"path": str(self.root)}, "process": {"env": ["A=1"], "user": {"uid": os.getuid(), "gid": os.getgid()}}, "mounts": []}
        self.library = str(self.host / "libanswer.so.1")

    def run(self, *arguments, **environment):
        return subprocess.run([str(self.program), *map(str, arguments)], input=json.dumps(self.config), capture_output=True, text=True, timeout=60,
                              env={"HOOK_LOG": "none", **environment}, check=False)

    def edited(self, *arguments, **environment):
        result = self.run(*arguments, **environment)
        assert result.returncode == 0, result.stderr
        config = json.loads(result.stdout)
        return {mount["destination"]: (mount["source"], mount["options"]) for mount in config["mounts"]}, config["process"]["env"]


@pytest.fixture
def case(build_dir, open_directory):
    return Case(build_dir / "pc_injection_hook", open_directory)


READ_ONLY = ["ro", "rbind", "nosuid", "nodev"]


def test_library_of_the_same_major_version_is_replaced_and_nothing_else_changes(case):
    mounts, variables = case.edited(f"--lib={case.library}")
    assert mounts == {"/usr/lib/libanswer.so.1.2.0": (case.library, READ_ONLY)} and variables == ["A=1"]


def test_library_without_counterpart_is_added_without_files_on_the_host(case):
    shutil.rmtree(case.root / "usr/lib")
    case.config["process"]["env"] = ["LD_LIBRARY_PATH=/a::/b:/a"]
    mounts, variables = case.edited(f"--lib={case.library}", f"--dependency-lib={case.host}/libhelp.so.2")
    assert set(mounts) == {f"{DIRECTORY}/{name}" for name in ("libanswer.so.1", "libanswer.so.1.3.0", "libhelp.so.2")}
    assert variables == [f"LD_LIBRARY_PATH={DIRECTORY}:/a:/b"]


def test_library_of_another_major_version_stays_and_the_hosts_is_added(case):
    shutil.rmtree(case.root / "usr/lib")
    make_image(case.root, "3.0.0")
    result = case.run(f"--lib={case.library}")
    assert f"{DIRECTORY}/libanswer.so.1" in result.stdout and "is not ABI compatible" in result.stderr


def test_older_minor_version_of_the_host_is_a_warning(case):
    shutil.rmtree(case.root / "usr/lib")
    make_image(case.root, "1.9.0")
    result = case.run(f"--lib={case.library}")
    assert "/usr/lib/libanswer.so.1.9.0" in result.stdout and "Partial ABI compatibility" in result.stderr


def test_missing_symbol_version_stops_the_start(case):
    compile_library(case.root / f"usr{MULTIARCH}/libc.so.6", "int old(void) { return 0; }\n", "libc.so.6", "GLIBC_2.2.5 { old; };\n")
    library = compile_library(case.host / "libnew.so.1", "#include <stdio.h>\nint f(void) { return puts(\"\"); }\n", "libnew.so.1", flags=())
    compile_library(case.host / "libprovider.so.1", "int g(void) { return 1; }\n", "libprovider.so.1", "NEW_2 { g; };\n")
    compile_library(case.root / "usr/lib/libprovider.so.1", "int g(void) { return 1; }\n", "libprovider.so.1", "OLD_1 { g; };\n")
    library = compile_library(case.host / "libnew.so.1", "int g(void); int f(void) { return g(); }\n", "libnew.so.1", links=[case.host / "libprovider.so.1"])
    result = case.run(f"--lib={library}")
    assert (result.returncode, result.stdout) == (1, "") and "NEW_2 of libprovider.so.1" in result.stderr


def test_options_replace_variables_of_the_same_purpose(case):
    mounts, variables = case.edited(f"--file={case.host}/file", "--env=B=2", INJECTION_PRIMARY_LIBS=case.library, INJECTION_EXTRA_FILES="/no/such",
                                    INJECTION_EXTRA_ENV="C=3", INJECTION_EXTRA_MOUNTS=f"{case.host}:/opt/host:bind:ro,x-create=dir")
    assert variables == ["A=1", "B=2"]
    assert mounts[f"{case.host}/file"] == (f"{case.host}/file", READ_ONLY) and mounts["/opt/host"] == (str(case.host), ["rbind", "ro"])


@pytest.mark.parametrize("arguments, message", [
    ([], "no --lib"), (["--lib=relative.so.1"], "absolute"), (["--lib=/no/such.so.1"], "No such file"), (["--lib={host}/file"], "not the name"),
    (["--dependency-lib={host}/libhelp.so.2", "--mount={host}:/x"], "expected SOURCE"), (["--dependency-lib={host}/libhelp.so.2", "--mount={host}:/x:exce"], "unknown option"),
    (["--dependency-lib={host}/libhelp.so.2", "--mount={host}:/../x:ro"], "must not contain"),
    (["--dependency-lib={host}/libhelp.so.2", "--mount={host}:/dev/null:ro"], "/dev/null"), (["--dependency-lib={host}/libhelp.so.2", "--mount={host}:/:ro"], "not allowed"),
    (["--dependency-lib={host}/libhelp.so.2", "--mount={host}:/x:ro", "--mount={host}:/x:rw"], "different mounts"),
    (["--dependency-lib={host}/libhelp.so.2", "--file={host}/libanswer.so.1"], "not a regular file"), (["--dependency-lib={host}/libhelp.so.2", "--env==x"], "NAME=VALUE"),
    (["--libs=/x"], "Unknown argument")])
def test_mistake_is_an_error_without_output(case, arguments, message):
    result = case.run(*[argument.format(host=case.host) for argument in arguments])
    assert (result.returncode, result.stdout) == (1, "") and message in result.stderr


@pytest.mark.parametrize("root", ["/", "rootfs", ""])
def test_root_filesystem_must_be_a_containers(case, root):
    case.config["root"]["path"] = root
    result = case.run(f"--lib={case.library}")
    assert (result.returncode, result.stdout) == (1, "") and "root" in result.stderr


@pytest.mark.parametrize("mount, expected", [({"destination": "/run", "type": "bind", "source": "/run"}, "hidden by the mount on /run"),
                                             ({"destination": "/run", "type": "tmpfs", "source": "tmpfs"}, "")])
def test_nothing_is_made_in_a_directory_of_the_host(case, mount, expected):
    case.config["mounts"] = [mount]
    result = case.run(f"--dependency-lib={case.host}/libhelp.so.2")
    assert result.returncode == (1 if expected else 0) and expected in result.stderr


def test_library_below_a_mount_is_not_replaced(case):
    """The OCI runtime would make the missing file there, with root's rights."""
    (case.root / "usr/lib").rename(case.root / "usr/real")
    (case.root / "usr/lib").symlink_to("real")
    case.config["mounts"] = [{"destination": "/usr/lib", "type": "bind", "source": "/srv"}]
    result = case.run(f"--lib={case.library}")
    assert [mount["destination"] for mount in json.loads(result.stdout)["mounts"]] == ["/usr/lib"] and "hidden by the mount on /usr/lib" in result.stderr


@pytest.mark.parametrize("target", ["/dev/null", "/dev/zero", "/proc/self/exe", "{outside}", "/../../../../../..{outside}"])
def test_links_of_the_image_lead_nowhere_else(case, open_directory, target):
    compile_library(open_directory / "libanswer.so.1.1.0", ANSWER.format(1), "libanswer.so.1")
    shutil.rmtree(case.root / "usr/lib")
    (case.root / "usr/lib").mkdir()
    (case.root / "usr/lib/libanswer.so.1").symlink_to(target.format(outside=open_directory / "libanswer.so.1.1.0"))
    mounts, _ = case.edited(f"--lib={case.library}")
    assert all(destination.startswith(DIRECTORY) for destination in mounts)


def test_what_is_no_library_is_not_opened(case):
    library = case.root / "usr/lib/libanswer.so.1.2.0"
    library.unlink()
    os.mkfifo(library)
    (case.root / "etc/ld.so.cache").unlink(missing_ok=True)
    os.mkfifo(case.root / "etc/ld.so.cache")
    mounts, _ = case.edited(f"--lib={case.library}")
    assert set(mounts) == {f"{DIRECTORY}/libanswer.so.1", f"{DIRECTORY}/libanswer.so.1.3.0"}


@pytest.mark.asroot
def test_image_is_read_with_the_rights_of_the_containers_user(case):
    (case.root / "usr/lib/libanswer.so.1.2.0").chmod(0o600)
    case.config["process"]["user"] = {"uid": 61234, "gid": 61234}
    mounts, _ = case.edited(f"--lib={case.library}")
    assert "/usr/lib/libanswer.so.1.2.0" not in mounts


@pytest.mark.asroot
@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.parametrize("isReplaced", [True, False], ids=["replaced", "added"])
@pytest.mark.parametrize("options", [[], ["--read-only"]], ids=["writable", "read-only"])
def test_podmans_program_gets_the_hosts_library(podman, build_dir, runtime, isReplaced, options):  # noqa: F811
    podman.runtime = runtime
    host = make_host(podman.directory / "host")
    make_image(podman.root)
    assert podman.run("/bin/ask").returncode == 7
    if not isReplaced:
        for library in (podman.root / "usr/lib").glob("libanswer*"):
            library.unlink()
    podman.add("injection", build_dir / "pc_injection_hook", [f"--lib={host}/libanswer.so.1"], ["precreate"])
    result = podman.run("/bin/ask", options=options)
    assert result.returncode == 42, result.stderr


@pytest.fixture
def image(hooks_engine, load_image, workspace):  # noqa: F811
    tree = workspace / "pc-injection-image"
    if not tree.exists():
        make_image(tree)

    def extra(layer):
        layer.file(MULTIARCH.lstrip("/") + "/libc.so.6", LIBC.read_bytes(), mode=0o755)
        layer.file(str(LINKER).lstrip("/"), LINKER.read_bytes(), mode=0o755)
        layer.file("usr/lib/libanswer.so.1.2.0", (tree / "usr/lib/libanswer.so.1.2.0").read_bytes(), mode=0o755)
        layer.symlink("usr/lib/libanswer.so.1", "libanswer.so.1.2.0")
        layer.file("usr/bin/ask", (tree / "usr/bin/ask").read_bytes(), mode=0o755)

    return load_image(hooks_engine, "pc-injection", images.Image([images.busybox_layer(extra=extra)], {"Env": [images.PATH_VARIABLE]}))


@pytest.mark.asroot
def test_the_engines_program_gets_the_hosts_library(hooks, image):  # noqa: F811
    host = hooks.directory / "host"
    make_host(host)
    try:
        hooks.add("40-injection", hooks.engine.prefix / "bin/pc_injection_hook", ["precreate"], args=["pc_injection_hook", f"--lib={host}/libanswer.so.1",
                                                                                                      f"--dependency-lib={host}/libhelp.so.2"])
        assert hooks.engine.run(image, "ask", check=False).returncode == 42
        assert sorted(hooks.engine.output(image, "ls", DIRECTORY).split()) == ["libhelp.so.2"]
    finally:
        shutil.rmtree(host)
