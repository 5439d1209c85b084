"""Installations of the software under test, and running `sarus` from them as one user or another."""

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import shutil
import subprocess

from . import system
from .system import PATH, User

SOURCE = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("SARUS_BUILD_DIR") or SOURCE / "build-test")
SANDBOX = BUILD / "tests/sandbox"


def set_configuration(prefix, **changes):
    """Changes keys of <prefix>/etc/sarus.json; a value of None removes the key."""
    path = pathlib.Path(prefix) / "etc" / "sarus.json"
    configuration = json.loads(path.read_text())
    for key, value in changes.items():
        if value is None:
            configuration.pop(key, None)
        else:
            configuration[key] = value
    replace_text(path, json.dumps(configuration, indent=4))


def replace_text(path, text):
    """Whoever reads the file meanwhile reads the whole old or the whole new one."""
    new = path.with_name(f"{path.name}-new")
    new.write_text(text)
    shutil.copystat(path, new)
    os.chown(new, path.stat().st_uid, path.stat().st_gid)
    new.replace(path)


def configure(prefix, *, user=None, runtime="crun", local_base, **settings):
    """Runs configure_installation.sh: as root for everybody, or as `user` for that user alone (rootless)."""
    command = [f"{prefix}/configure_installation.sh"]
    identity = {}
    environment = {"PATH": PATH, "SARUS_LOCAL_REPO_BASE_DIR": str(local_base), "SARUS_CENTRALIZED_REPO_DIR": f"{prefix}/var/centralized",
                   "SARUS_OCI_RUNTIME": runtime}
    if user is not None:
        command.append("--rootless")
        identity = user.identity()
        environment["HOME"] = str(user.home)
    subprocess.run(command, check=True, capture_output=True, env=environment, **identity)
    remove_shipped_hooks(prefix)
    set_configuration(prefix, **settings)


def remove_shipped_hooks(prefix):
    """A test has the hooks that it makes."""
    for name in ("07-ssh-hook", "09-slurm-global-sync-hook"):
        for file in (pathlib.Path(prefix) / "etc/hooks.d").glob(f"{name}.json*"):
            file.unlink()


def unused(path):
    """This path, or if it exists, one like it that does not."""
    return next(other for other in itertools.chain([path], (path.with_name(f"{path.name}-{number}") for number in itertools.count(2)))
                if not other.exists())


def copy_tree(source, destination, owner=None):
    """A copy of an installation, owned by `owner` (or root)."""
    shutil.copytree(source, destination, symlinks=True)
    if owner is not None:
        for directory, _, files in os.walk(destination):
            for path in (directory, *(os.path.join(directory, name) for name in files)):
                owner.own(path)
    return pathlib.Path(destination)


@dataclasses.dataclass
class Engine:
    """`sarus` of one installation, run by one user."""

    prefix: pathlib.Path
    user: User
    mode: str  # "setuid", "rootless" or "root"
    runtime: str  # "crun" or "runc"
    sandbox: tuple = ()  # options of the program `sandbox`; none: the node as it is
    wrapper: tuple = ()  # a command which starts all this as root, for instance one that takes system calls away

    @property
    def rootless(self):
        return self.mode == "rootless"

    @property
    def program(self):
        return str(self.prefix / "bin" / "sarus")

    def command(self, *arguments):
        """(argv, keyword arguments of subprocess) for `sarus ARGUMENTS` as this engine's user."""
        argv = [self.program, *map(str, arguments)]
        if self.wrapper:
            sandbox = [str(SANDBOX), *self.sandbox, "--"] if self.sandbox else []
            ids = ["--reuid", self.user.uid, "--regid", self.user.gid, "--groups", ",".join(map(str, self.user.groups))]
            return [*sandbox, *map(str, self.wrapper), "setpriv", *map(str, ids), "--", *argv], {}
        if self.sandbox:
            return [str(SANDBOX), *self.sandbox, "--user", self.user.name, "--", *argv], {}
        return argv, self.user.identity()

    def launched_by(self, launcher, *arguments):
        """The same for `LAUNCHER sarus ARGUMENTS`: the user runs the launcher, where the user runs `sarus` otherwise."""
        argv, identity = self.command(*arguments)
        at = argv.index(self.program)
        return [*argv[:at], *map(str, launcher), *argv[at:]], identity

    def start_by(self, launcher, *arguments):
        """Starts `LAUNCHER sarus ARGUMENTS` and returns at once (Popen)."""
        argv, identity = self.launched_by(launcher, *arguments)
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return system.start(argv, env=self.user.environment(), cwd=self.user.home, text=True, **streams, **identity)

    def sarus(self, *arguments, env=None, cwd=None, timeout=300, text=True, **keywords):
        """Runs `sarus ARGUMENTS` to its end. `env`: changes to the user's login environment."""
        argv, identity = self.command(*arguments)
        if "input" not in keywords and "stdin" not in keywords:
            keywords["stdin"] = subprocess.DEVNULL
        if not {"stdout", "stderr", "capture_output"} & keywords.keys():
            keywords["capture_output"] = True
        return system.run(argv, env=self.user.environment(**(env or {})), cwd=cwd or self.user.home, timeout=timeout, text=text,
                          **identity, **keywords)

    def start(self, *arguments, env=None, cwd=None, text=True, **keywords):
        """Starts `sarus ARGUMENTS` and returns at once (Popen)."""
        argv, identity = self.command(*arguments)
        for stream in ("stdin", "stdout", "stderr"):
            keywords.setdefault(stream, subprocess.PIPE)
        return system.start(argv, env=self.user.environment(**(env or {})), cwd=cwd or self.user.home, text=text, **identity, **keywords)

    def run(self, image, *command, options=(), check=True, **keywords):
        """`sarus run OPTIONS IMAGE COMMAND`; unless `check` is False, fails with what it printed."""
        result = self.sarus("run", *options, image, *command, **keywords)
        if check and result.returncode != 0:
            raise AssertionError(f"sarus run {' '.join(map(str, command))} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
        return result

    def output(self, image, *command, **keywords):
        """What a command in a container prints, without the final newline."""
        return self.run(image, *command, **keywords).stdout.rstrip("\n")

    @contextlib.contextmanager
    def standing(self, image, *options, script="echo ready; exec sleep 1000", **keywords):
        """A container of `sarus run OPTIONS IMAGE`, whose shell has printed "ready": the engine's process. It is killed after the block,
        unless it has ended."""
        process = self.start("run", *options, image, "sh", "-c", script, **keywords)
        try:
            line = process.stdout.readline()
            assert line == "ready\n", line + process.stderr.read()
            yield process
        finally:
            process.kill()  # a shell that is the first process of a pid namespace ignores what is more polite
            process.communicate(timeout=300)

    def load(self, archive, name):
        """Loads a docker-archive and returns the reference under which it can be run."""
        result = self.sarus("load", archive, name, timeout=300)
        assert result.returncode == 0, result.stdout + result.stderr
        return f"load/library/{name}" if "/" not in name else f"load/{name}"

    def with_fuse(self):
        """On a node where everybody may use /dev/fuse; only root can make one of this node."""
        return self.variant(sandbox=("--fuse",)) if os.getuid() == 0 else self

    def variant(self, **changes):
        return dataclasses.replace(self, **changes)
