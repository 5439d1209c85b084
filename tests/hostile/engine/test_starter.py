"""The set-user-ID starter, called directly by somebody who means harm."""

import os
import random
import resource
import shutil
import signal
import socket as sockets
import stat
import struct
import subprocess
import threading

import pytest
from helpers import installation
from launch_request import (SEALS, ask, exec_request, head, inspect_request, kill_request, list_request, memory_file, request,
                            start)

pytestmark = pytest.mark.asroot


@pytest.fixture
def image(setuid_engine, load_image, plain_busybox):
    """The path of an image file that the user owns."""
    load_image(setuid_engine, "busybox", plain_busybox)
    return next((setuid_engine.user.home / ".sarus" / "images").rglob("busybox/latest.squashfs"))


@pytest.fixture
def opened(image):
    descriptor = os.open(image, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def launch(engine, image, descriptors=(), **fields):
    """Runs a request for the image behind a descriptor."""
    channel = memory_file(request(image, **fields))
    try:
        return start(engine, [channel], {channel, image, *descriptors} if image > 2 else {channel, *descriptors})
    finally:
        os.close(channel)


def refused(result, *words):
    """One clear message and a status of failure, not a crash; nothing was run."""
    assert 0 < result.returncode < 126, result
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert 1 <= len(lines) <= 2, result.stderr
    for word in words:
        assert word in result.stderr


def test_a_request_made_by_hand_works(setuid_engine, opened):
    result = launch(setuid_engine, opened, command=["id", "-u"])
    assert (result.returncode, result.stdout.strip()) == (0, str(setuid_engine.user.uid)), result.stderr


@pytest.mark.parametrize("arguments", [[], [""], ["-1"], ["99999999999999999999"], ["3x"], ["3", "4"], ["../../etc"], ["\n\x1b[2J"], ["0"], ["1"]])
def test_odd_arguments(setuid_engine, arguments):
    refused(start(setuid_engine, arguments))


@pytest.mark.parametrize("words", [["ps"], ["ps", "", "text"], ["inspect", "", "json", "name"], ["kill", "", "SIGTERM", "name"], ["exec", "3"],
                                   ["create-repository"], ["launch", "3"]], ids=" ".join)
def test_words_are_no_requests(setuid_engine, words):
    refused(start(setuid_engine, words), "Unknown argument" if len(words) == 1 else "wrong number of arguments", "started by `sarus`")


def test_requests_made_by_hand_are_those_of_the_commands(setuid_engine):
    listed = ask(setuid_engine, list_request(json=True))
    assert (listed.returncode, listed.stdout, listed.stderr) == (0, "[]\n", "")
    for data in (exec_request("missing"), inspect_request("missing"), kill_request("missing")):
        refused(ask(setuid_engine, data), "with the name 'missing'")


def test_expectations_of_a_container_made_by_hand(setuid_engine, load_image, plain_busybox):
    """They are compared, and printed without control characters in one line."""
    image = load_image(setuid_engine, "busybox", plain_busybox)
    with setuid_engine.standing(image, "--name", "expected"):
        refused(ask(setuid_engine, exec_request("expected", settings={"a\n\x1b[2J": "b\n"})), "runs already and cannot change", "a\\x0a\\x1b[2J: none instead of b\\x0a")
        refused(ask(setuid_engine, exec_request("expected", reference="x\n", content="\x1b")), "image: ", " instead of x")
        refused(ask(setuid_engine, exec_request("expected", settings={f"mount on /{i}": "/x" for i in range(9999)})), "runs already and cannot change")
        assert ask(setuid_engine, exec_request("expected", ["echo", "ran"], settings={"mount on /x": "", "SSH": ""})).stdout == "ran\n"


def test_a_keeper_is_a_unix_socket_of_the_caller(setuid_engine, tmp_path):
    with sockets.socket() as internet, open(tmp_path / "file", "w") as file:
        for keeper in (0, 2, 999, -2, internet.fileno(), file.fileno()):
            channel = memory_file(exec_request("missing", keeper=keeper))
            refused(start(setuid_engine, [channel], {channel, internet.fileno(), file.fileno()}), "Invalid request: the keeper is no Unix socket")
            os.close(channel)


def test_a_command_has_not_the_connection_to_its_keeper(setuid_engine, load_image, plain_busybox):
    """The starter has it, tells the end of the command, and takes a status in place of 0 alone."""
    image = load_image(setuid_engine, "busybox", plain_busybox)
    with setuid_engine.standing(image, "--name", "held"):
        for script, status in (("ls /proc/self/fd | wc -l", 5), ("exit 3", 3)):
            ours, theirs = sockets.socketpair(sockets.AF_UNIX, sockets.SOCK_SEQPACKET)
            heard = []

            def keep(ours=ours, heard=heard):
                heard.append(ours.recv(10))
                ours.send(b"\5")
                ours.close()

            keeper = threading.Thread(target=keep)
            keeper.start()
            channel = memory_file(exec_request("held", ["sh", "-c", script], keeper=theirs.fileno()))
            result = start(setuid_engine, [channel], {channel, theirs.fileno()})
            os.close(channel)
            theirs.close()
            keeper.join()
            assert (result.returncode, heard) == (status, [b""]) and result.stdout in ("", "4\n"), result


@pytest.mark.parametrize("verb", [8, 9, 255, 2**31, 2**32 - 1])
def test_verbs_that_do_not_exist(setuid_engine, verb):
    refused(ask(setuid_engine, head(verb)), "unknown verb")


def test_requests_of_one_verb_for_another(setuid_engine, opened):
    for verb in range(1, 5):
        refused(ask(setuid_engine, head(verb) + request(opened)[len(head(verb)):]), "Invalid request")
    refused(ask(setuid_engine, head("create-repository") + b"\0"), "superfluous")


def test_no_argument_vector_at_all(setuid_engine):
    script = "import ctypes,sys;c=ctypes.CDLL(None);n=(ctypes.c_char_p*1)(None);c.execve(sys.argv[1].encode(),n,n);sys.exit(77)"
    result = subprocess.run(["python3", "-c", script, f"{setuid_engine.prefix}/libexec/sarus-starter"], user=setuid_engine.user.uid,
                            group=setuid_engine.user.gid, capture_output=True, text=True, timeout=300)
    assert result.returncode == 1 and "wrong number of arguments" in result.stderr


@pytest.mark.parametrize("seals", [0, SEALS & ~0x8, SEALS & ~0x4, SEALS & ~0x2, SEALS & ~0x1])
def test_request_that_could_still_change(setuid_engine, opened, seals):
    channel = memory_file(request(opened), seals)
    refused(start(setuid_engine, [channel], {channel, opened}), "not a sealed memory file")
    os.close(channel)


@pytest.mark.parametrize("kind", ["pipe", "directory", "device", "file"])
def test_request_in_something_else(setuid_engine, workspace, kind):
    if kind == "pipe":
        channel, _ = os.pipe()
    else:
        (workspace / "request").write_bytes(request(3))
        channel = os.open({"directory": "/", "device": "/dev/zero", "file": workspace / "request"}[kind], os.O_RDONLY)
    refused(start(setuid_engine, [channel], {channel}), "not a sealed memory file")


def test_damaged_requests_never_crash(setuid_engine, opened):
    goods = [request(opened, mounts=[("/tmp", "/x")])] * 60
    goods += [exec_request("missing"), list_request(), inspect_request("missing"), kill_request("missing")] * 8
    chance = random.Random(7)
    for good in goods:
        data = bytearray(good)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(8, len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        data = data[:chance.randrange(1, len(data) + 1)] if chance.random() < 0.3 else data
        channel = memory_file(bytes(data))
        result = start(setuid_engine, [channel], {channel, opened})
        os.close(channel)
        assert 0 <= result.returncode <= 127 and len(result.stderr.splitlines()) <= 3, (bytes(data), result)


@pytest.mark.parametrize("number", [-1, 0, 1, 2, 200, 2**31 - 1, -2**31])
def test_image_descriptor_that_is_not_open(setuid_engine, number):
    refused(launch(setuid_engine, number) if number < 3 else launch_unopened(setuid_engine, number), "is not open")


def launch_unopened(engine, number):
    channel = memory_file(request(number))
    return start(engine, [channel], {channel})


def test_image_and_request_under_one_number(setuid_engine):
    first = memory_file(b"")
    os.close(first)  # its number comes next
    channel = memory_file(request(first))
    assert channel == first
    refused(start(setuid_engine, [channel], {channel}), "is not open")


@pytest.mark.parametrize("kind,word", [("directory", "not a regular file"), ("device", "not a regular file"), ("fifo", "not a regular file"),
                                       ("writable", "reading alone"), ("path", "reading alone"), ("empty", "is empty"), ("proc", "is empty"),
                                       ("sysfs", "image"), ("truncated", "image"), ("text", "image")])
def test_image_that_is_something_else(setuid_engine, image, workspace, kind, word):
    place = workspace / f"odd-{kind}"
    place.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(place)
    elif kind in ("truncated", "writable"):
        place.write_bytes(image.read_bytes()[:4096 if kind == "truncated" else None])
    else:
        place.write_text("" if kind == "empty" else "no squashfs " * 1000)
    place = {"directory": "/", "device": "/dev/zero", "proc": "/proc/cpuinfo", "sysfs": "/sys/kernel/uevent_seqnum"}.get(kind, place)
    descriptor = os.open(place, {"writable": os.O_RDWR, "path": os.O_PATH, "fifo": os.O_RDWR}.get(kind, os.O_RDONLY))
    try:
        refused(launch(setuid_engine, descriptor), word)
    finally:
        os.close(descriptor)


def test_pmi_fd_cannot_name_descriptors_of_the_start(setuid_engine, opened):
    listing = ["sh", "-c", "ls /proc/self/fd | wc -w"]
    plain = launch(setuid_engine, opened, command=listing).stdout
    for number in [opened, *range(3, 24)]:
        result = launch(setuid_engine, opened, command=listing, environment=[f"PMI_FD={number}"])
        assert (result.returncode, result.stdout) == (0, plain), result.stderr


@pytest.mark.parametrize("limit", ["NOFILE", "FSIZE", "AS", "DATA", "CPU", "NPROC", "STACK", "CORE", "MEMLOCK", "SIGPENDING"])
def test_tiny_limits_are_survived_or_explained(setuid_engine, opened, limit):
    value = {"NOFILE": 10, "CPU": 1, "STACK": 65536}.get(limit, 0)
    channel = memory_file(request(opened))
    result = start(setuid_engine, [channel], {channel, opened},
                   prepare=lambda: resource.setrlimit(getattr(resource, f"RLIMIT_{limit}", 11), (value, value)))
    os.close(channel)
    if limit in ("AS", "DATA", "STACK") and result.returncode < 0:
        return  # the kernel could not even load the program
    assert result.returncode >= 0, result
    assert result.returncode == 0 or result.stderr.strip(), result


def test_inherited_signal_state_does_no_harm(setuid_engine, opened):
    def prepare():
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, set(range(1, 32)))
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        os.umask(0o777)

    channel = memory_file(request(opened, command=["sh", "-c", "umask; exit 9"]))
    result = start(setuid_engine, [channel], {channel, opened}, prepare=prepare)
    os.close(channel)
    assert result.returncode in (9, 128 + signal.SIGALRM), result


def test_working_directory_that_was_removed(setuid_engine, opened, workspace):
    place = workspace / "above" / "gone"
    place.mkdir(parents=True)
    os.chown(place.parent, setuid_engine.user.uid, -1)

    def prepare():
        os.chdir(place)
        os.rmdir(place)

    channel = memory_file(request(opened))
    assert start(setuid_engine, [channel], {channel, opened}, prepare=prepare).returncode == 0
    os.close(channel)


def writers(socket):
    """The user ids with which the kernel says that what waits in the socket was written."""
    found = set()
    while True:
        data, ancillary, _, _ = socket.recvmsg(1 << 16, 1024)
        if not data:
            return found
        for level, kind, content in ancillary:
            if (level, kind) == (sockets.SOL_SOCKET, sockets.SCM_CREDENTIALS):
                found.add((struct.unpack("iii", content[:12])[1], data.decode(errors="replace")))


@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.parametrize("arguments", [["--debug", "run", "IMAGE", "true"], ["run", "IMAGE", "missing-command"],
                                       ["run", "--mount=type=bind,source=/missing,destination=/m", "IMAGE", "true"],
                                       ["run", "--workdir=/proc/self", "IMAGE", "true"], ["run", "--entrypoint=/etc", "IMAGE"],
                                       ["exec", "missing", "true"], ["ps"], ["kill", "missing"], ["inspect", "missing"]],
                         ids=lambda arguments: " ".join(arguments))
def test_nothing_is_printed_by_root(engines, load_image, plain_busybox, arguments, runtime):
    """Whoever reads the user's streams (the journal) may ask the kernel who wrote."""
    engine = engines("setuid", runtime)
    image = load_image(engine, "busybox", plain_busybox)
    ours, theirs = sockets.socketpair()
    ours.setsockopt(sockets.SOL_SOCKET, sockets.SO_PASSCRED, 1)
    process = engine.start(*(image if word == "IMAGE" else word for word in arguments), stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    theirs.close()
    found = writers(ours)
    process.wait(timeout=300)
    assert found and {uid for uid, _ in found} == {engine.user.uid}, sorted(found)


def test_names_that_are_paths(setuid_engine, opened):
    for name in ["..", "../../etc", "a/b", "", "-x", "x" * 200, "a\nb"]:
        refused(launch(setuid_engine, opened, name=name))
        for data in (exec_request(name), inspect_request(name), kill_request(name)):
            refused(ask(setuid_engine, data))


def test_hard_link_to_the_starter_is_refused(setuid_engine):
    program = setuid_engine.prefix / "libexec" / "sarus-starter"
    second = setuid_engine.prefix.parent / "second-name"
    second.mkdir(exist_ok=True)
    (second / "libexec").mkdir(exist_ok=True)
    link = second / "libexec" / "starter"
    os.link(program, link)
    try:
        assert stat.S_IMODE(link.stat().st_mode) & stat.S_ISUID
        result = subprocess.run([link, "3"], user=setuid_engine.user.uid, group=setuid_engine.user.gid, capture_output=True, text=True, timeout=300)
        assert result.returncode == 1 and "hard links" in result.stderr and f"-samefile {link}" in result.stderr
    finally:
        link.unlink()


@pytest.mark.parametrize("again", [False, True])
def test_prefix_of_a_deleted_hard_link_is_refused(make_setuid_prefix, setuid_engine, opened, again):
    """The program has one name when it is executed, and the path that the kernel remembers of it lies in the attacker's folder. Where the
    node has `protected_hardlinks`, users cannot make the link: root does."""
    prefix = make_setuid_prefix(f"unchecked-{again}", securityChecks=False)
    attacker = installation.unused(prefix.parent / f"attackers-prefix-{again}")
    (attacker / "libexec").mkdir(parents=True)
    (attacker / "etc").symlink_to(prefix / "etc")
    for name in ("sarus-hook", "sarus-enter"):
        shutil.copy(prefix / "libexec" / name, attacker / "libexec" / name)
    for place in (attacker, attacker / "libexec"):
        os.chown(place, setuid_engine.user.uid, -1)
    link = attacker / "libexec" / "starter"
    os.link(prefix / "libexec" / "sarus-starter", link)
    program = os.open(link, os.O_PATH)
    link.unlink()
    if again:  # the path that the kernel tells leads to something
        shutil.copy(prefix / "libexec" / "sarus-starter", attacker / "libexec" / "starter (deleted)")
    channel = memory_file(request(opened))
    try:
        result = subprocess.run([f"/proc/self/fd/{program}", str(channel)], user=setuid_engine.user.uid, group=setuid_engine.user.gid, extra_groups=[],
                                pass_fds=(program, channel, opened), capture_output=True, text=True, timeout=300)
    finally:
        os.close(program)
        os.close(channel)
    refused(result, attacker.name)
