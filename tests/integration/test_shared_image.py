"""Containers of one user and image share one sarus-squashfs on a node: what they share, what stays their own, and what is left when any of the
processes is killed or stopped.
"""

import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest
from helpers import system

pytestmark = pytest.mark.asroot

LOST = "The process which provides the image (sarus-squashfs) was ended"
SHARED = "is mounted by sarus-squashfs, together with other containers"


@pytest.fixture(scope="module")
def workdirs():
    return {}


@pytest.fixture(params=["rootless", "setuid"])
def shared_engine(request, engines, make_setuid_prefix, workdirs):
    """The kernel mounts nothing: rootless, and with privileges where the site wants it so."""
    engine = engines(request.param, "crun")
    if not engine.rootless:
        if "prefix" not in workdirs:
            workdirs["prefix"] = make_setuid_prefix("shared-image", imageMount="fuse")
        engine = engine.variant(prefix=workdirs["prefix"])
    return engine.variant(sandbox=("--fuse",))


@pytest.fixture(scope="module")
def content(images):
    return images.busybox(extra=lambda layer: [layer.file(f"data/{number}", os.urandom(300_000), mode=0o644) for number in range(8)])


@pytest.fixture
def image(shared_engine, load_image, content):
    return load_image(shared_engine, "shared", content)


class Container:
    """A container which carries out a line of shell after the other."""

    def __init__(self, engine, image, *options):
        self.process = engine.start(*options, "run", image, "sh", "-c", 'echo ready; while read -r line; do eval "$line"; echo "done $?"; done')

    def ready(self):
        self.log = ""
        for line in iter(self.process.stdout.readline, "ready\n"):
            assert line, self.process.stderr.read()
            self.log += line
        return self

    def do(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        said = ""
        for answer in iter(self.process.stdout.readline, ""):
            if answer.startswith("done "):
                return int(answer.split()[1]), said
            said += answer
        raise AssertionError(self.process.stderr.read())

    def reads(self, number):
        return self.do(f"cat /data/{number} | wc -c") == (0, "300000\n")

    def lower(self):
        """(device, options) of the image in the starter's mount namespace."""
        found = [line.split() for line in pathlib.Path(f"/proc/{self.process.pid}/mountinfo").read_text().splitlines() if "/rootfs-lower " in line]
        assert len(found) == 1
        return found[0][2], set(found[0][5].split(","))

    def kill(self):
        self.process.kill()
        return self.process.communicate(timeout=300)[1]

    def end(self):
        """What it has printed as errors."""
        return self.process.communicate(timeout=300)[1]


@pytest.fixture
def start(shared_engine, image):
    started = []

    def one(*options, engine=None, wait=True):
        started.append(Container(engine or shared_engine, image, *options))
        return started[-1].ready() if wait else started[-1]

    yield one
    for container in started:
        if container.process.poll() is None:
            container.kill()


def servers(engine):
    return [pid for pid, uid, command in system.processes() if uid == engine.user.uid and command.startswith(f"{engine.prefix}/bin/sarus-squashfs ")]


def lists(engine, temp_dir):
    directory = temp_dir / f"sarus-{engine.user.uid}" / "namespaces" if engine.rootless else pathlib.Path("/run/sarus/images")
    return set(directory.glob("image-*"))


def check_gone(engine):
    assert system.eventually(lambda: not servers(engine)), "the server was left behind"


def test_one_server_for_all_containers(shared_engine, start, temp_dir):
    before = lists(shared_engine, temp_dir)
    containers = [start(wait=False) for _ in range(12)]
    for container in containers:
        container.ready()
    assert len(servers(shared_engine)) == 1
    assert len({container.lower()[0] for container in containers}) == 1
    assert all({"ro", "nosuid", "nodev"} <= container.lower()[1] for container in containers)
    for number, container in enumerate(containers):  # what they write is their own
        assert container.do(f"test ! -e /own && echo {number} >/own && echo {number} >/data/0") == (0, "")
    for number, container in enumerate(containers):
        assert container.do("cat /own /data/0") == (0, f"{number}\n" * 2)
    assert [container.end() for container in containers] == [""] * 12
    check_gone(shared_engine)
    if shared_engine.rootless:
        assert lists(shared_engine, temp_dir) == before


@pytest.mark.parametrize("how", ["end", "kill"])
def test_the_server_outlives_the_first_container(shared_engine, start, how):
    first, second = start(), start()
    server = servers(shared_engine)
    getattr(first, how)()
    assert second.reads(1)
    third = start()
    assert third.lower()[0] == second.lower()[0]
    getattr(second, how)()
    assert third.reads(2) and servers(shared_engine) == server
    assert third.end() == ""
    check_gone(shared_engine)


def test_killed_at_once_nothing_remains(shared_engine, start):
    containers = [start() for _ in range(4)]
    for container in containers:
        container.process.kill()
    for container in containers:
        container.process.communicate(timeout=300)
    check_gone(shared_engine)


def test_a_single_container_takes_its_server_along(shared_engine, start):
    container = start()
    server = servers(shared_engine)
    assert len(server) == 1 and container.end() == ""
    assert not set(server) & set(servers(shared_engine))


def test_a_killed_server_is_reported_to_all_and_used_by_nobody_else(shared_engine, start):
    first, second = start(), start()
    assert first.do("true") == second.do("true") == (0, "")
    server, = servers(shared_engine)
    system.kill(server)
    assert system.eventually(lambda: not servers(shared_engine))
    assert not first.reads(3) and not second.reads(4)
    third = start()
    assert third.reads(5) and third.lower()[0] != second.lower()[0]
    for container in (first, second):  # they learn it at once
        assert any(LOST in line for line in container.process.stderr)  # beside what the programs in it say
        container.end()
    assert third.end() == ""


def test_a_stopped_server_is_not_used(shared_engine, start):
    first = start()
    server, = servers(shared_engine)
    system.stop(server)
    try:
        second, third = start(), start()
        assert second.reads(1) and third.reads(1) and second.lower()[0] == third.lower()[0] != first.lower()[0]
    finally:
        system.kill(server, signal.SIGCONT)
    assert first.reads(1)


def test_a_stopped_starter_keeps_nobody_waiting(shared_engine, start):
    first = start()
    system.stop(first.process.pid)
    try:
        second = start()
        assert second.reads(1) and second.lower()[0] == first.lower()[0]
        assert second.end() == ""
    finally:
        system.kill(first.process.pid, signal.SIGCONT)
    assert first.reads(2) and first.end() == ""


def test_a_replaced_image_is_another_one(shared_engine, start, image, images):
    file = shared_engine.user.home / f".sarus/images/{image}/latest.squashfs"
    first = start()
    copy = file.with_suffix(".copy")
    shutil.copy2(file, copy)
    shutil.chown(copy, shared_engine.user.uid, shared_engine.user.gid)
    os.rename(copy, file)
    second = start()
    assert second.reads(1) and first.reads(1)
    assert len(servers(shared_engine)) == 2 and first.lower()[0] != second.lower()[0]


@pytest.mark.parametrize("shared_engine", ["setuid"], indirect=True)
def test_other_users_have_servers_of_their_own(shared_engine, start, image, other_user):
    """Rootless, see test_shared_namespaces.py."""
    start()
    theirs = shared_engine.variant(user=other_user)
    # The very same file.
    home = other_user.home / ".sarus/images" / image
    home.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(shared_engine.user.home / ".sarus/images" / image, home, copy_function=os.link)
    subprocess.run(["chown", "-R", "-h", f"{other_user.uid}:{other_user.gid}", other_user.home / ".sarus"], check=True)
    start(engine=theirs)
    assert len(servers(shared_engine)) == 1 and len(servers(theirs)) == 1


def test_the_server_is_not_bound_to_the_processor_of_the_first_container(shared_engine, start):
    """A workload manager binds each rank to processors of its own."""
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    try:
        first = start()
    finally:
        os.sched_setaffinity(0, processors)
    server, = servers(shared_engine)
    assert os.sched_getaffinity(server) == processors
    assert os.sched_getaffinity(first.process.pid) == {min(processors)}


def test_a_limit_of_processor_time_is_for_one_container(shared_engine, start):
    first = start()
    second = start(engine=shared_engine.variant(wrapper=("prlimit", "--cpu=1000")))
    assert first.lower()[0] != second.lower()[0] and second.end() == ""


def test_verbose_names_the_sharing(shared_engine, start):
    first, second = start("--verbose"), start("--verbose")
    assert SHARED not in first.log and SHARED in second.log


def enter_cgroup(directory):
    with contextlib.suppress(FileExistsError):
        directory.mkdir()
    return ("sh", "-c", f'echo $$ >{directory}/cgroup.procs && exec "$@"', "-")


def test_job_steps_do_not_depend_on_each_other(shared_engine, start):
    """A workload manager kills and suspends all processes of a step's cgroup. Its tasks have cgroups of their own below."""
    base = next(path for path in map(pathlib.Path, ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids", "/sys/fs/cgroup")) if os.access(path / "cgroup.procs", os.W_OK))
    steps = [base / f"sarus-image-{os.getpid()}-{number}" for number in (1, 2)]
    tasks = [steps[0] / "task_0", steps[0] / "task_1", steps[1] / "task_0"]
    for step in steps:
        step.mkdir()
    try:
        containers = [start(engine=shared_engine.variant(wrapper=enter_cgroup(task))) for task in tasks]
        devices = [container.lower()[0] for container in containers]
        assert devices[0] == devices[1] != devices[2]
        for container in containers:
            assert container.end() == ""
        check_gone(shared_engine)
    finally:
        for directory in tasks + steps:
            assert system.eventually(lambda directory=directory: not directory.exists() or not (directory / "cgroup.procs").read_text())
            directory.rmdir()


@pytest.mark.thorough
def test_random_kills_leave_nothing(shared_engine, start, image):
    """Of the starters, the servers and the programs. SARUS_SOAK=1000 starts so many, 64 at a time."""
    soak = int(os.environ.get("SARUS_SOAK", "0"))
    total, at_once = (soak, 64) if soak else (100, 16)
    dice = random.Random(16)
    running, results = [], []
    for number in range(total):
        running.append(shared_engine.start("run", image, "sh", "-c", f"cat /data/{number % 8} | wc -c; sleep 0.{dice.randrange(10)}"))
        if dice.random() < 0.5:
            time.sleep(dice.random() * 0.1)
            victim = dice.choice(running)
            choices = [victim.pid, *system.descendants(victim.pid), *(servers(shared_engine) if dice.random() < 0.2 else [])]
            with contextlib.suppress(ProcessLookupError):
                system.kill(dice.choice(choices))
        while len(running) >= at_once or (number == total - 1 and running):
            process = running.pop(0)
            results.append((process.communicate(timeout=300)[0], process.returncode))
    assert len(results) == total and ("300000\n", 0) in results
    shared_engine.sarus("ps")  # removes the records of containers whose janitor was killed
    check_gone(shared_engine)
