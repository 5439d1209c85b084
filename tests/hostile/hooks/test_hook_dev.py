"""Hooks of anybody that leave something else in the container's /dev than the OCI runtime has put there: sarus-hook, which runs them, refuses the
start before the runtime opens anything there as root."""

import os
import pathlib
import subprocess
import tempfile

import pytest
from helpers import hook_bundle
from helpers.hook_bundle import Bundle

pytestmark = pytest.mark.asroot

# Shell commands of a hook: $root is the container's root directory, $users a directory of a user's.
CHANGES = {
    "a directory over /dev": "mount --bind $users $root/dev",
    "a tmpfs with devices over /dev": "mount -t tmpfs tmpfs $root/dev; for it in null zero full random urandom tty; do cp -a /dev/$it $root/dev; done",
    "another /dev": "umount -l $root/dev; mount -t tmpfs tmpfs $root/dev; cp -a /dev/null $root/dev",
    "none": "umount -l $root/dev",
    "something over the root": "mount --bind $users $root",
    "a file over null": "mount --bind $users/file $root/dev/null",
    "another device over tty": "mount --bind /dev/zero $root/dev/tty",
    "a link instead of null": "ln -sf /etc/passwd $root/dev/null",
    "a file instead of random": "rm $root/dev/random; touch $root/dev/random",
    "a block device instead of full": "rm $root/dev/full; mknod $root/dev/full b 1 7",
}
HARMLESS = "mount --bind $users $root/tmp; mknod $root/dev/own c 1 3; mkdir $root/dev/directory"
MODES = {"crun": "fork", "runc": "run"}  # at createContainer


class Dev:
    def __init__(self, build_dir, directory):
        self.program = build_dir / "sarus-hook"
        self.bundle = Bundle(directory, None)
        hook_bundle.make_root(self.bundle.root)
        hook_bundle.install_probe(self.bundle.root)
        self.users = directory / "users"
        (self.users / "dev").mkdir(parents=True)
        (self.users / "file").write_text("the user's\n")

    def script(self, stage, change):
        prefix = "" if stage == "createContainer" else "nsenter --mount --target=$(sed -n 's/.*\"pid\": *\\([0-9]*\\).*/\\1/p') "
        return f"export root={self.bundle.root} users={self.users}; {prefix}sh -ec '{change}'"

    def run(self, runtime, stage, change, mode):
        self.bundle.runtime = runtime
        hook = ["/bin/sh", "sh", "-c", self.script(stage, change)]
        words = hook if mode != "in-turn" else ["7", str(len(hook)), *hook, "8", "2", "/bin/false", "false"]
        variables = {"7:PATH" if mode == "in-turn" else "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        result = self.bundle.run(["/bin/probe", "/etc"], [(stage, self.program, variables, mode, "0", self.bundle.root, self.bundle.directory / "no-log", *words)])
        return result, result.stderr + self.bundle.log.read_text()

    def is_refused(self, *arguments):
        result, said = self.run(*arguments)
        assert result.returncode != 0 and result.stdout == "", (result, said)
        assert said.count("sarus-hook: after /bin/sh: ") == 1 and "container's /dev" in said, said


@pytest.fixture
def dev(build_dir):
    with tempfile.TemporaryDirectory(prefix="sarus-", dir="/tmp") as directory:
        os.chmod(directory, 0o755)
        yield Dev(build_dir, pathlib.Path(directory))


@pytest.mark.parametrize("runtime", MODES)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_start_is_refused_if_a_hook_has_changed_dev(dev, runtime, change):
    dev.is_refused(runtime, "createContainer", change, MODES[runtime])


@pytest.mark.parametrize("runtime", MODES)
@pytest.mark.parametrize("stage", ["prestart", "createRuntime"])
@pytest.mark.parametrize("change", ["a directory over /dev", "a file over null"])
def test_start_is_refused_after_hooks_outside_of_the_container_too(dev, runtime, stage, change):
    dev.is_refused(runtime, stage, CHANGES[change], "run")


def test_start_is_refused_before_the_next_hook(dev):
    dev.is_refused("crun", "createContainer", CHANGES["a file over null"], "in-turn")


@pytest.mark.parametrize("runtime", MODES)
@pytest.mark.parametrize("stage", ["createContainer", "createRuntime"])
def test_hook_may_add_to_dev(dev, runtime, stage):
    result, said = dev.run(runtime, stage, HARMLESS, MODES[runtime] if stage == "createContainer" else "run")
    assert result.returncode == 0 and result.stdout.startswith("r"), said


@pytest.mark.parametrize("change", ["a directory over /dev", "a link instead of null", "something over the root"])
def test_hooks_in_front_of_the_runtime_leave_dev_alone(dev, change):
    """There, /dev is the engine's and the devices are not made yet."""
    hook = ["/bin/sh", "sh", "-c", dev.script("createContainer", CHANGES[change])]
    command = [dev.program, "early", "0", dev.bundle.root, dev.bundle.directory / "no-log", "7", str(len(hook)), *hook]
    script = 'root=$1; shift; mount --bind "$root" "$root" && mount -t tmpfs tmpfs "$root/dev" && exec "$@"'
    result = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", dev.bundle.root, *command], capture_output=True,
                            text=True, input='{"ociVersion": "1.0.2"}', env={"7:PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, timeout=300, check=False)
    assert result.returncode == 1 and "sarus-hook: after /bin/sh: " in result.stderr, result.stderr
