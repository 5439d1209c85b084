"""Images made to harm the hook of podman-hpc: nothing outside of the image changes, nothing of the host comes into the container that the
caller has not asked for, and nothing hangs. As root on the node, and as root of a user's namespace, which is how rootless Podman calls it."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from helpers import hook_bundle

pytestmark = pytest.mark.asroot

SECONDS = 300


class Attack:
    def __init__(self, build_dir, directory, rootless):
        self.rootless = rootless
        self.directory = directory
        self.program = build_dir / "podman_hpc_hook"
        self.store = directory / "store"
        self.bundle = directory / "bundle"
        self.root = self.store / "overlay/layer/merged"
        self.modules = directory / "modules.d"
        self.outside = directory / "outside"
        for path in (self.bundle, self.root / "etc", self.root / "tmp", self.modules, self.outside / "directory", self.store / "overlay-containers"):
            path.mkdir(parents=True)
        (self.outside / "file").write_text("the host's\n")
        (self.outside / "ld.so.cache").write_text("the host's\n")
        (directory / "source").write_text("from the module\n")
        (directory / "libx.so.1").write_text("no library\n")
        self.variables = {"ENABLE_M": "1"}
        # As in the hook file that podman-hpc writes.
        self.settings = {"PODMANHPC_CALL": "run", "HOOK_TRUST_CONTAINER": "true", "PODMANHPC_MODULES_DIR": self.modules}
        self.annotations = {}

    def module(self, **rules):
        (self.modules / "m.yaml").write_text(json.dumps({"name": "m", "env": "ENABLE_M", **rules}))

    def link(self, path, target):
        (self.root / path).symlink_to(target)

    def log(self, path):
        """As podman-hpc passes `-e LOG_PLUGIN=PATH`."""
        self.annotations = {"podman_hpc.variables": "LOG_PLUGIN", "podman_hpc.env.LOG_PLUGIN": str(path)}

    def snapshot(self):
        return {path: (path.lstat().st_mode, path.lstat().st_size, path.read_bytes() if path.is_file() else None) for path in self.outside.rglob("*")}

    def run(self, before="", environment=None, launcher=""):
        """The hook in a mount namespace; `before` is shell for what the runtime has mounted, `launcher` a command which starts the hook."""
        user = [] if self.rootless is None else ["setpriv", f"--reuid={self.rootless.uid}", f"--regid={self.rootless.gid}", "--clear-groups"]
        if self.rootless is not None:
            subprocess.run(["chown", "-hR", f"{self.rootless.uid}:{self.rootless.gid}", self.directory], check=True)
        self.config = {"ociVersion": "1.0.2", "process": {"cwd": "/", "args": ["true"], "user": {"uid": 0, "gid": 0},
                                                          "env": [f"{name}={value}" for name, value in self.variables.items()]},
                       "root": {"path": str(self.root)}, "annotations": self.annotations}
        (self.bundle / "config.json").write_text(json.dumps(self.config))
        state = {"ociVersion": "1.0.2", "id": "attack", "status": "creating", "pid": 0, "bundle": str(self.bundle), "annotations": self.annotations}
        unchanged = self.snapshot()
        script = f"mount --bind {self.root} {self.root}; {before}\n{launcher} {self.program}; status=$?\nfind {self.root} -type f -exec head -vn1 {{}} +; exit $status"
        command = [*user, "unshare", *(["--user", "--map-root-user"] if self.rootless else []), "--mount", "sh", "-c", script]
        result = subprocess.run(command, input=json.dumps(state), capture_output=True, text=True, errors="replace", timeout=SECONDS, cwd="/",
                                env={"PATH": os.environ["PATH"], "HOOK_LOG": "none", "HOME": str(self.outside),
                                     **{name: str(value) for name, value in self.settings.items()}, **(environment or {})})
        assert self.snapshot() == unchanged, result.stderr
        return result


@pytest.fixture(params=["root", "rootless"])
def attack(request, build_dir):
    rootless = request.getfixturevalue("user") if request.param == "rootless" else None
    with tempfile.TemporaryDirectory(prefix="sarus-", dir="/tmp") as directory:
        os.chmod(directory, 0o755)
        yield Attack(build_dir, pathlib.Path(directory), rootless)


TARGETS = {"the target itself": ("copied", "{outside}/file"), "the target's directory": ("opt", "{outside}/directory"), "by dots": ("opt", "../../../../../..{outside}/directory"),
           "the working directory": ("opt", "/proc/self/cwd/{outside}/directory"), "the real root": ("opt", "/proc/1/root/{outside}/directory")}


@pytest.mark.parametrize("kind", ["copy", "bind"])
@pytest.mark.parametrize("link", TARGETS.values(), ids=TARGETS.keys())
def test_links_lead_nowhere_outside(attack, link, kind):
    name, target = link
    attack.link(name, target.format(outside=attack.outside))
    attack.module(**{kind: [f"{attack.directory}/source:/{name}" if name == "copied" else f"{attack.directory}/source:/{name}/file"]})
    result = attack.run()
    assert result.returncode in (0, 1)
    assert "the host's" not in result.stdout
    assert result.returncode == 1 or "from the module" in result.stdout


def test_trees_and_links_of_modules_stay_inside(attack):
    tree = attack.directory / "tree"
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/b/file").write_text("from the module\n")
    (tree / "a/link").symlink_to("b")
    (attack.root / "opt").mkdir()
    attack.link("opt/a", str(attack.outside / "directory"))
    attack.module(copy=[f"{tree}:/opt"])
    result = attack.run()
    assert result.returncode == 0 and "from the module" in result.stdout, result.stderr


def test_no_failure_to_list_a_directory_of_a_module_is_its_end(attack):
    for name in ("tree/a/one", "tree/a/two", "tree/three"):
        (attack.directory / name).parent.mkdir(parents=True, exist_ok=True)
        (attack.directory / name).write_text(f"{name}\n")
    attack.module(copy=[f"{attack.directory}/tree:/opt", f"{attack.directory}/tree/a/*:/srv/"])
    strace = f"strace -f -qq --output={attack.directory}/log --trace=getdents64 "
    expected = attack.run(launcher=strace)
    assert expected.returncode == 0 and expected.stdout.count("tree/a/one\n") == 2, expected.stderr
    calls = (attack.directory / "log").read_text().count("getdents64(")
    assert calls > 0
    for number in range(1, calls + 1):
        for name in ("opt", "srv"):
            shutil.rmtree(attack.root / name, ignore_errors=True)
        result = attack.run(launcher=f"{strace} --inject=getdents64:error=EIO:when={number}")
        assert result.returncode == 1 and "Input/output error" in result.stderr, (number, result.stderr)


def test_copies_are_made_with_the_rights_of_the_containers_user(attack):
    """What the user may not read comes into no container, and what is copied is the user's. The image has links of its own in the way."""
    (attack.directory / "source").chmod(0o4755)
    attack.link("opt", "srv")
    (attack.root / "srv").mkdir()
    attack.module(copy=[f"{attack.directory}/source:/opt/copied"])
    assert attack.run().returncode == 0
    assert (attack.root / "srv/copied").stat().st_uid == (attack.rootless.uid if attack.rootless else 0)
    attack.module(copy=["/etc/shadow:/opt/shadow"])
    result = attack.run()
    if attack.rootless:
        assert result.returncode == 1 and "Permission denied" in result.stderr and "root:" not in result.stdout
    else:
        assert result.returncode == 0 and (attack.root / "srv/shadow").exists()  # the site's own wish


def test_the_linker_cache_is_the_images_own(attack):
    hook_bundle.make_root(attack.directory / "made")
    subprocess.run(["cp", "-a", f"{attack.directory}/made/.", attack.root], check=True)
    attack.link("etc/ld.so.cache", str(attack.outside / "ld.so.cache"))
    attack.link("etc/ld.so.conf", str(attack.outside / "file"))
    sbin = attack.root / "usr/bin/ldconfig"
    sbin.write_text(f"#!/bin/sh\necho ran > {attack.directory}/ran\n")
    sbin.chmod(0o755)
    attack.link("sbin", "usr/bin")
    attack.module(copy=[f"{attack.directory}/libx.so.1:/usr/lib/"])
    assert attack.run().returncode == 0
    assert not (attack.directory / "ran").exists()


@pytest.mark.parametrize("target", ["fifo", "loop", "fifo/file", "loop/file"])
@pytest.mark.parametrize("kind", ["copy", "bind"])
def test_strange_targets_fail_or_are_replaced_at_once(attack, target, kind):
    os.mkfifo(attack.root / "fifo")
    attack.link("loop", "loop")
    attack.module(**{kind: [f"{attack.directory}/source:/{target}"]})
    attack.run()


def test_nothing_is_written_into_mounts_of_the_user(attack):
    """The user mounts a directory, and a link of the image leads there."""
    (attack.root / "volume").mkdir()
    attack.link("opt", "volume")
    attack.module(copy=[f"{attack.directory}/source:/opt/new"])
    result = attack.run(before=f"mount --bind {attack.outside}/directory {attack.root}/volume")
    assert result.returncode == 1 and "is mounted from elsewhere" in result.stderr


def test_an_image_gives_no_values_to_variables(attack):
    attack.annotations = {"podman_hpc.env.HOME": str(attack.outside), "podman_hpc.env.SCRATCH": str(attack.outside)}
    attack.module(bind=["$HOME:/home", "~:/tilde", "${SCRATCH}:/scratch"])
    result = attack.run()
    assert result.returncode == 0 and "the host's" not in result.stdout
    # What podman-hpc always passes wins over the image's.
    attack.annotations["podman_hpc.variables"] = ""
    assert "the host's" not in attack.run().stdout
    attack.annotations["podman_hpc.variables"] = "SCRATCH"
    result = attack.run()
    assert f"{attack.root}/scratch/file" in result.stdout and f"{attack.root}/home/file" not in result.stdout


@pytest.mark.parametrize("place", ["overlay/other/diff/modules", "volumes/v/_data"])
def test_modules_of_images_do_not_count(attack, place):
    modules = attack.store / place
    modules.mkdir(parents=True)
    (modules / "m.yaml").write_text(json.dumps({"name": "m", "env": "ENABLE_M", "bind": [f"{attack.outside}:/mnt"]}))
    attack.settings["PODMANHPC_MODULES_DIR"] = modules
    result = attack.run()
    assert result.returncode == 1 and "is inside a store of containers" in result.stderr
    assert "the host's" not in result.stdout
    link = attack.directory / "link"
    link.symlink_to(modules)
    attack.settings["PODMANHPC_MODULES_DIR"] = link
    assert attack.run().returncode == 1


def test_the_container_names_no_modules(attack):
    """Although they belong to the caller: he may have unpacked them beside a Containerfile."""
    attack.module(bind=[f"{attack.outside}:/mnt"])
    attack.variables["PODMANHPC_MODULES_DIR"] = attack.modules
    attack.settings["PODMANHPC_MODULES_DIR"] = attack.directory / "none"
    result = attack.run()
    assert result.returncode == 0 and "the host's" not in result.stdout, result.stderr


@pytest.mark.parametrize("settings", [{}, {"PODMANHPC_CALL": "build"}], ids=["without podman-hpc", "build"])
def test_annotations_of_the_image_are_not_those_of_podman_hpc(attack, settings):
    """Podman takes over annotations of images, and podman-hpc overrides them only in `run`. Without podman-hpc nothing counts at all."""
    attack.annotations = {"podman_hpc.hook_tool": "true", "podman_hpc.variables": "HOME SCRATCH LOG_PLUGIN", "podman_hpc.env.HOME": str(attack.outside),
                          "podman_hpc.env.SCRATCH": str(attack.outside), "podman_hpc.env.LOG_PLUGIN": f"/tmp/sarus-log-{os.getpid()}"}
    attack.module(bind=["$HOME:/home", "~:/tilde", "${SCRATCH}:/scratch"], copy=[f"{attack.directory}/source:/opt/copied"])
    attack.settings = {**settings, "PODMANHPC_MODULES_DIR": attack.modules}
    result = attack.run()
    assert result.returncode == 0 and "the host's" not in result.stdout, result.stderr
    assert not pathlib.Path(attack.annotations["podman_hpc.env.LOG_PLUGIN"]).exists()
    assert ("from the module" in result.stdout.partition("/opt/copied")[2]) == bool(settings)


@pytest.mark.parametrize("attack", ["root"], indirect=True)
@pytest.mark.parametrize("name", [".", "m.yaml", ".."])
def test_root_takes_no_modules_of_users(attack, user, name):
    attack.module(bind=[f"{attack.outside}:/mnt"])
    os.chown(attack.modules / name, user.uid, user.gid)
    result = attack.run()
    assert result.returncode == 1 and "the host's" not in result.stdout


@pytest.mark.parametrize("name", ["outside/file", "outside/new", "outside/directory", "outside/link", "outside/none/new", "outside/fifo", "outside/empty"])
def test_the_log_overwrites_no_file_and_appears_nowhere_unasked(attack, name):
    """A script in somebody's home would run its text."""
    attack.module()
    (attack.outside / "link").symlink_to("file")
    os.mkfifo(attack.outside / "fifo")
    (attack.outside / "empty").touch()
    os.chmod(attack.outside, 0o755)
    attack.log(attack.directory / name)
    result = attack.run()
    assert result.returncode == 0 and "LOG_PLUGIN" in result.stderr


def test_an_image_names_no_log(attack):
    attack.module()
    log = pathlib.Path(tempfile.mktemp(prefix="sarus-log-", dir="/tmp"))
    attack.variables["LOG_PLUGIN"] = log
    assert attack.run().returncode == 0
    assert not log.exists()


def test_the_log_follows_no_link_in_tmp(attack):
    attack.module()
    log = pathlib.Path(tempfile.mktemp(prefix="sarus-log-", dir="/tmp"))
    try:
        log.symlink_to(attack.outside / "new")
        attack.log(log)
        assert attack.run().returncode == 0
        log.unlink()
        attack.run()
        assert log.read_text().startswith("input\n")
        log.write_text("somebody's\n")
        attack.run()
        assert log.read_text() == "somebody's\n"
    finally:
        log.unlink(missing_ok=True)


def test_a_failure_is_recorded_beside_the_containers_alone(attack):
    attack.module(copy=[f"{attack.directory}/source:/etc/passwd/x"])
    (attack.root / "etc/passwd").write_text("")
    log = attack.store / "podman_hpc_hook.log"
    log.symlink_to(attack.outside / "file")
    assert attack.run().returncode == 1
    log.unlink()
    assert attack.run().returncode == 1
    assert "container attack: " in log.read_text()
