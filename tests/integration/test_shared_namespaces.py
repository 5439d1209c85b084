"""Rootless containers of one user have their user namespaces in common: what they can do with each other, and who cannot."""

import dataclasses
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest
from helpers import installation, system
from helpers.compiler import compile_program

SOURCE = pathlib.Path(__file__).parent / "programs" / "neighbour.c"
DENIED = "Operation not permitted"
CLOSED = "Permission denied"


@pytest.fixture(params=["crun", "runc"])
def rootless_engine(request, engines):
    return engines("rootless", request.param)


@pytest.fixture(scope="module")
def neighbour(workspace, images):
    path = compile_program(workspace / "neighbour", SOURCE.read_text(), ["-static"])
    return images.busybox(extra=lambda layer: layer.file("neighbour", path.read_bytes(), mode=0o755))


@pytest.fixture
def image(rootless_engine, load_image, neighbour):
    return load_image(rootless_engine, "neighbour", neighbour)


@pytest.fixture
def namespaces(temp_dir, user):
    """The directory in which the user's containers find each other."""
    return temp_dir / f"sarus-{user.uid}" / "namespaces"


class Running:
    """A container which waits in `neighbour hold`."""

    def __init__(self, engine, image, *options, wrapper=()):
        argv, identity = engine.launched_by(wrapper, "run", *options, image, "/neighbour", "hold")
        self.process = subprocess.Popen(argv, env=engine.user.environment(), cwd=engine.user.home, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **identity)

    def ready(self):
        """Waits for its program; returns what to visit it with."""
        if not hasattr(self, "place"):
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            self.place = line.split()
        return self.place

    @property
    def namespace(self):
        return os.readlink(f"/proc/{self.ready()[0]}/ns/user")

    def end(self):
        if self.process.poll() is None:
            self.process.communicate(timeout=300)
        return self.process.returncode


@pytest.fixture
def hold(rootless_engine, image):
    """hold(options...) -> a running container of the user."""
    started = []

    def start(*options, engine=None, **keywords):
        started.append(Running(engine or rootless_engine, image, *options, **keywords))
        return started[-1]

    yield start
    for container in started:
        container.end()


def visit(engine, image, container, *options):
    output = engine.output(image, "/neighbour", "visit", *container.ready(), options=options)
    return dict(line.split(": ", 1) for line in output.splitlines())


def test_containers_read_each_others_memory_and_descriptors(rootless_engine, image, hold):
    seen = visit(rootless_engine, image, hold())
    assert (seen["memory"], seen["file"]) == ("the word", "the word")


def test_containers_gain_no_privileges_over_each_other(rootless_engine, image, hold):
    """Nothing can be entered: that takes capabilities in the namespace, which no program in it has."""
    first = hold()
    seen = visit(rootless_engine, image, first)
    assert (seen["enter user"], seen["enter mnt"]) == ("Invalid argument", DENIED)
    status = rootless_engine.output(image, "cat", "/proc/self/status", f"/proc/{first.ready()[0]}/status")
    assert set(re.findall(r"^Cap(?:Inh|Prm|Eff|Amb):\s*(\S+)$", status, re.MULTILINE)) == {"0" * 16}
    assert rootless_engine.run(image, "mount", "-t", "tmpfs", "tmpfs", "/tmp", check=False).returncode != 0


def test_starters_and_runtimes_are_out_of_reach(rootless_engine, image, hold):
    """They have capabilities in the namespace above."""
    starter = hold()
    starter.ready()
    script = """for process in $STARTER $PPID; do
        for link in ns/user root fd/1; do readlink /proc/$process/$link; done
        cat /proc/$process/environ /proc/$process/maps && echo read
    done"""
    result = rootless_engine.run(image, "sh", "-c", script, options=["-e", f"STARTER={starter.process.pid}"], check=False)
    assert result.stdout == "" and result.stderr.count(CLOSED) == 4, result.stderr


def test_no_descriptor_leads_to_the_namespaces(rootless_engine, image, hold):
    hold().ready()
    assert rootless_engine.output(image, "sh", "-c", "sleep 10 & until grep -q ^sleep /proc/$!/cmdline; do :; done; ls /proc/$!/fd; kill $!").split() == ["0", "1", "2"]


def test_private_processes_and_a_command_beside_them_are_in_the_same_namespace(rootless_engine, hold):
    first = hold()
    second = hold("--pid=private", "--name", f"shared-{os.getpid()}")
    pattern = re.compile(r"/neighbour hold$")
    second.ready()
    programs = [pid for pid, uid, command in system.processes() if uid == rootless_engine.user.uid and pattern.match(command)]
    assert {os.readlink(f"/proc/{pid}/ns/user") for pid in programs} == {first.namespace}
    result = rootless_engine.sarus("exec", f"shared-{os.getpid()}", "sh", "-c", "readlink /proc/1/exe; readlink /proc/self/ns/user")
    assert (result.stdout, result.returncode) == (f"/neighbour\n{first.namespace}\n", 0), result.stderr


def test_other_users_share_nothing(installed, home_base, temp_dir, rootless_engine, load_image, neighbour, hold, other_user):
    prefix = installation.copy_tree(installed, installation.unused(other_user.home / f"shared-{rootless_engine.runtime}"), other_user)
    installation.configure(prefix, user=other_user, runtime=rootless_engine.runtime, local_base=home_base, tempDir=str(temp_dir))
    stranger = rootless_engine.variant(prefix=prefix, user=other_user)
    theirs = load_image(stranger, "neighbour", neighbour)
    first = hold()
    seen = visit(stranger, theirs, first)
    assert (seen["memory"], seen["file"], seen["enter user"], seen["enter mnt"]) == (DENIED, CLOSED, CLOSED, CLOSED)
    second = Running(stranger, theirs)
    assert second.namespace != first.namespace
    second.end()


@pytest.mark.asroot
def test_other_groups_and_other_limits_share_nothing(rootless_engine, hold):
    """A user namespace keeps the group and some limits of the process that made it."""
    first = hold()
    user = rootless_engine.user
    other_gid = next(gid for gid in user.groups if gid != user.gid)
    with_fuse = rootless_engine.variant(wrapper=(installation.SANDBOX, "--fuse", "--hide-unified", "--"))
    assert hold(engine=with_fuse).namespace == first.namespace
    grouped = hold(engine=with_fuse.variant(user=dataclasses.replace(user, gid=other_gid)))
    limited = hold(wrapper=["prlimit", "--memlock=65536"])
    assert len({first.namespace, grouped.namespace, limited.namespace}) == 3


def test_containers_in_another_user_namespace_share_nothing_with_those_outside(rootless_engine, image, hold):
    first = hold()
    inside = [hold(wrapper=["unshare", "--map-current-user", "--keep-caps"]) for _ in range(2)]
    assert inside[0].namespace != first.namespace and inside[0].namespace != inside[1].namespace


def test_many_simultaneous_starts_are_in_one_namespace(hold):
    containers = [hold() for _ in range(16)]
    assert len({container.namespace for container in containers}) == 1


def test_the_namespaces_outlive_the_one_who_made_them(rootless_engine, image, hold):
    """Who starts later joins any that still runs; and when the last has ended, new namespaces are made."""
    first = hold()
    second = hold()
    namespace = first.namespace
    assert second.namespace == namespace
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    assert visit(rootless_engine, image, second)["memory"] == "the word"
    assert hold().namespace == namespace
    assert second.end() == 0


def test_a_new_start_after_the_last_one_was_killed(rootless_engine, image, hold):
    first = hold()
    first.ready()
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    second = hold()
    assert visit(rootless_engine, image, second)["memory"] == "the word"


@pytest.mark.parametrize("damage", [b"", b"1 1 3 0\n", b"\0" * 64, b"x" * 100_000, (b"1 1 3 0".ljust(63) + b"\n") * 3])
def test_a_damaged_record_means_new_namespaces(rootless_engine, image, hold, namespaces, damage):
    first = hold()
    namespace = first.namespace
    for file in namespaces.iterdir():
        file.write_bytes(damage)
    second, third = hold(), hold()
    assert namespace != second.namespace == third.namespace


def own_record(namespaces, pid):
    """Beside it are the lists of those who share an image."""
    records = (file for file in namespaces.iterdir() if not file.name.startswith("image-"))
    return next(file for file in records if re.search(rf"^{pid} ", file.read_text(), re.MULTILINE))


def test_a_record_that_names_another_process_leads_nowhere(rootless_engine, image, hold, namespaces):
    """A process with the number of one that has ended, and one that holds something else under the recorded descriptor."""
    first = hold()
    namespace, pid = first.namespace, first.process.pid
    record = own_record(namespaces, pid)
    started = record.read_text().split()[1]
    for line in (f"{pid} {int(started) + 1} 6 7", f"{pid} {started} 0 0", f"{pid} {started} 999 999"):
        record.write_text(line.ljust(63) + "\n")
        second = hold()
        assert second.namespace != namespace
        second.end()


def test_a_link_or_an_open_file_is_no_record(rootless_engine, image, hold, namespaces, user):
    first = hold()
    namespace = first.namespace
    record = own_record(namespaces, first.process.pid)
    record.chmod(0o666)
    assert hold().namespace != namespace
    target = user.home / "precious"
    target.write_text("precious")
    os.chown(target, user.uid, user.gid)
    target.chmod(0o600)
    record.unlink()
    record.symlink_to(target)
    assert hold().namespace != namespace
    assert target.read_text() == "precious"
    record.unlink()


def test_who_keeps_the_lock_delays_a_start_only(rootless_engine, image, hold, namespaces):
    first = hold()
    namespace = first.namespace
    with open(own_record(namespaces, first.process.pid)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = hold()
        assert second.namespace != namespace
        said = rootless_engine.sarus("run", image, "true")
        assert said.returncode == 0 and "cannot be locked: the processes of this user's containers cannot read each other's memory" in said.stderr
    assert hold().namespace == namespace


def test_records_of_former_times_are_swept(rootless_engine, image, namespaces, user):
    rootless_engine.run(image, "true")
    old = namespaces / "1f2e-1-1-1-direct-1-1-1-1"
    old.write_text("")
    os.chown(old, user.uid, user.gid)
    os.utime(old, (1, 1))
    rootless_engine.run(image, "true")
    assert not old.exists()


HOOK = """#!/bin/sh
pid=$(tr -d '\\n' | sed 's/.*"pid": *\\([0-9]*\\).*/\\1/')
[ "$pid" != 0 ] || exit 0  # crun does not tell
exec readlink "/proc/$pid/ns/mnt" > /dev/null
"""


@pytest.fixture
def engine_with_hook(rootless_engine, make_rootless_prefix, user):
    """The engine with a hook that looks at the container from inside."""
    prefix = make_rootless_prefix(f"shared-hook-{rootless_engine.runtime}", rootless_engine.runtime)
    program, description = prefix / "look", prefix / "hooks" / "10-look.json"
    description.parent.mkdir()
    program.write_text(HOOK)
    program.chmod(0o755)
    description.write_text(json.dumps({"version": "1.0.0", "hook": {"path": str(program)}, "when": {"always": True}, "stages": ["createContainer"]}))
    for path in (program, description, description.parent):
        os.chown(path, user.uid, user.gid)
    installation.set_configuration(prefix, hooksDir=str(description.parent))
    yield rootless_engine.variant(prefix=prefix)
    shutil.rmtree(prefix)


def test_hooks_inside_and_commands_beside(engine_with_hook, hold):
    """Such hooks need an id 0, so that a helper makes the container's user. Under runc they could not look into shared namespaces."""
    name = f"shared-hook-{os.getpid()}"
    first, second = hold("--name", name, engine=engine_with_hook), hold(engine=engine_with_hook)
    assert (first.namespace == second.namespace) == (engine_with_hook.runtime == "crun")
    result = engine_with_hook.sarus("exec", name, "sh", "-c", "readlink /proc/self/ns/user; grep Cap /proc/self/status; id -u; ls /proc/$$/fd; true")
    lines = result.stdout.splitlines()
    assert lines[0] == first.namespace, result.stderr
    assert {line.split()[1] for line in lines if re.match("Cap(Inh|Prm|Eff|Amb)", line)} == {"0" * 16}
    assert lines[6:] == [str(engine_with_hook.user.uid), "0", "1", "2"]
