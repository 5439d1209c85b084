"""The records of the set-user-ID starter in syslog, and users who would rather have others."""

import contextlib
import os
import pathlib
import re
import socket
import struct
import subprocess

import pytest
from helpers import system
from helpers.installation import set_configuration
from launch_request import memory_file, request

pytestmark = pytest.mark.asroot


class Syslog:
    """A listener in the place of /dev/log that asks the kernel who sends."""

    def __init__(self, path):
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        path.chmod(0o666)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.senders = []

    def records(self, count, timeout=300):
        """The next records, each a dictionary of the keys with their texts as they are escaped."""
        self.socket.settimeout(timeout)
        return [self.next() for _ in range(count)]

    def next(self):
        data, ancillary, _, _ = self.socket.recvmsg(65536, 256)
        self.senders += [struct.unpack("iII", content)[1:] for _, kind, content in ancillary if kind == socket.SCM_CREDENTIALS]
        line = data.decode("ascii")
        assert len(line) < 6144 and re.fullmatch(r"[ -~]*", line), line
        head, fields = re.fullmatch(r"(<\d+>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d sarus-starter\[\d+\]:)((?: [a-z_]+=(?:\w+|\"(?:[^\"\\]|\\.)*\"))+)", line).groups()
        pairs = re.findall(r" ([a-z_]+)=(\w+|\"(?:[^\"\\]|\\.)*\")", fields)
        assert len(dict(pairs)) == len(pairs), line
        return {"priority": head[1:head.index(">")], **{key: value.strip('"') for key, value in pairs}}

    def is_silent(self):
        self.socket.settimeout(0.3)
        with contextlib.suppress(TimeoutError):
            return self.socket.recv(65536) is None
        return True


@pytest.fixture
def syslog(tmp_path):
    listener = Syslog(tmp_path / "log")
    yield listener
    listener.socket.close()
    assert set(listener.senders) <= {(0, 0)}, "all records come from root"


@pytest.fixture
def engine(setuid_engine, syslog):
    return setuid_engine.variant(sandbox=("--syslog", str(syslog.path)))


@pytest.fixture
def image(setuid_engine, load_image, plain_busybox):
    return load_image(setuid_engine, "busybox", plain_busybox)


def test_start_and_end_are_recorded_as_a_pair(engine, image, syslog, workspace):
    user = engine.user
    result = engine.run(image, "sh", "-c", "exit 7", options=["--name=pair", f"--mount=type=bind,src={workspace},dst=/with,readonly", "--device=/dev/kmsg:/dev/other:r"],
                        check=False, env={"SLURM_JOB_ID": "4711"})
    assert result.returncode == 7, result.stderr
    start, end = syslog.records(2)
    assert syslog.senders == [(0, 0)] * 2
    assert (start["event"], start["priority"], end["event"], end["status"]) == ("start", "86", "end", "7")
    expected = {"verb": "run", "uid": str(user.uid), "gid": str(user.gid), "user": user.name, "claimed_job": "4711", "image": f"{image}:latest", "file_owner": str(user.uid),
                "container": "pair", "mounts": f"{workspace}:/with:ro", "devices": "/dev/kmsg:/dev/other:r"}
    assert {key: start[key] for key in expected} == expected
    assert start["file"].endswith("/busybox/latest.squashfs") and re.fullmatch("[0-9a-f]{32}", start["file_id"])
    assert end == {**start, "event": "end", "status": "7"}
    assert syslog.is_silent()


def test_commands_in_a_container_are_recorded_too(engine, image, syslog):
    process = engine.start("run", "--name=inside", image, "sleep", "600")
    syslog.records(1)
    system.eventually(lambda: engine.sarus("exec", "inside", "true").returncode == 0)
    engine.sarus("kill", "-9", "inside")
    process.communicate(timeout=300)
    records = []
    while not records or (records[-1]["event"], records[-1]["verb"]) != ("end", "run"):
        records += [record for record in syslog.records(1) if record["event"] != "refused"]
    assert [(record["event"], record["verb"], record["container"], record.get("status")) for record in records] == [
        ("start", "exec", "inside", None), ("end", "exec", "inside", "0"), ("end", "run", "inside", "137")]
    assert all(record["image"] == f"{image}:latest" for record in records)


def test_refusals_are_recorded_with_their_reason(engine, image, syslog):
    result = engine.run(image, "true", options=["--mount=type=bind,src=/etc,dst=/dev/null"], check=False)
    record, = syslog.records(1)
    assert result.returncode == 1
    assert (record["event"], record["priority"], record["uid"], record["image"], record["status"]) == ("refused", "84", str(engine.user.uid), f"{image}:latest", "1")
    assert "/dev/null" in record["reason"]


def test_refusals_before_there_is_a_request_are_recorded_too(engine, syslog):
    link = engine.prefix / "libexec" / "second-name"
    os.link(engine.prefix / "libexec" / "sarus-starter", link)
    try:
        assert engine.sarus("ps").returncode == 1
    finally:
        link.unlink()
    record, = syslog.records(1)
    assert (record["event"], record["uid"]) == ("refused", str(engine.user.uid)) and "hard links" in record["reason"]
    channel = os.open("/dev/null", os.O_RDONLY)
    argv, _ = engine.command()
    subprocess.run([*argv[:-1], f"{engine.prefix}/libexec/sarus-starter", str(channel)], pass_fds=(channel,), capture_output=True, timeout=300)
    os.close(channel)
    record, = syslog.records(1)
    assert (record["event"], record["uid"]) == ("refused", str(engine.user.uid)) and "sealed" in record["reason"]


def test_what_starts_nothing_is_not_recorded(engine, image, syslog):
    assert engine.sarus("run", "--dry-run", image, "true").returncode == 0
    assert engine.sarus("ps").returncode == 0
    assert engine.sarus("kill", "nothing").returncode == 1
    assert syslog.is_silent()


FORGED = 'a"\n<86>Nov 22 00:00:00 sarus-starter[1]: event=start uid=0 \\" \x1b[2J\u202e'


def test_no_text_of_a_user_ends_a_value_or_a_line(engine, image, syslog):
    """By a request that `sarus` would not write."""
    stored = next((engine.user.home / ".sarus" / "images").rglob("busybox/latest.squashfs"))
    file = engine.user.home / FORGED
    file.write_bytes(stored.read_bytes())
    engine.user.own(file)
    number = 9
    channel = memory_file(request(number, reference=FORGED, environment=["SLURM_JOB_ID=" + FORGED], mounts=[(str(engine.user.home), "/x:y\n")]))
    argv, _ = engine.command()
    starter = [f"{engine.prefix}/libexec/sarus-starter", str(channel)]
    result = subprocess.run([*argv[:-1], "sh", "-c", f'exec "$2" "$3" {number}<"$1"', "sh", file, *starter], pass_fds=(channel,), capture_output=True, timeout=300)
    os.close(channel)
    records = syslog.records(2)
    assert [record["event"] for record in records] == ["start", "end"], (result, records)
    for record in records:
        assert record["uid"] == str(engine.user.uid)
        for key in ("image", "file", "claimed_job"):
            assert r"a\"\x0a<86>Nov 22" in record[key] and record[key].endswith(r"\\\" \x1b[2J\xe2\x80\xae"), record
        assert record["mounts"].endswith(r":/x\x3ay\x0a:rw")


def test_long_texts_are_cut(engine, image, syslog):
    mounts = [f"--mount=type=bind,src=/usr,dst=/{i:03}{'m' * 240}" for i in range(40)]
    engine.run(image, "true", options=mounts, env={"SLURM_JOB_ID": "9" * 100000})
    start, end = syslog.records(2)
    assert start["claimed_job"].endswith("999...") and start["mounts"].endswith(",...") and end["status"] == "0"


def test_the_end_is_recorded_if_the_starter_is_killed(engine, image, syslog):
    process = engine.start("run", "--name=killed", image, "sleep", "600")
    syslog.records(1)
    system.eventually(lambda: pathlib.Path(f"/proc/{process.pid}/status").read_text().split("Uid:")[1].split()[0] == str(engine.user.uid))
    system.kill(process.pid)
    end, = syslog.records(1)
    assert (end["event"], end["status"], end["container"]) == ("end", "unknown", "killed")
    process.communicate(timeout=300)


def test_the_kernel_does_not_end_the_process_first_that_writes_the_end(engine, image, syslog):
    argv, identity = engine.launched_by(["sh", "-c", 'echo 1000 >/proc/self/oom_score_adj; exec "$@"', "sh"], "run", image, "sh", "-c", "cat /proc/self/oom_score_adj; cat")
    process = subprocess.Popen(argv, env=engine.user.environment(), cwd=engine.user.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **identity)
    assert process.stdout.readline() == "1000\n"
    janitor, = (child for child in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                if pathlib.Path(f"/proc/{child}/comm").read_text() == "sarus-janitor\n")
    assert pathlib.Path(f"/proc/{janitor}/oom_score_adj").read_text() == "0\n"
    process.communicate("", timeout=300)


def test_a_full_queue_neither_stops_a_start_nor_hides_that_a_record_is_missing(engine, image, syslog):
    flood = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    flood.connect(str(syslog.path))
    flood.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            flood.send(b"<86>flood")
    process = engine.start("run", image, "sh", "-c", "echo running; cat")
    assert process.stdout.readline() == "running\n"
    syslog.socket.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while syslog.socket.recv(65536):
            pass
    process.communicate(timeout=300)
    end, = syslog.records(1)
    assert (end["event"], end["status"], end["lost"]) == ("end", "0", "1")
    flood.close()


def test_nothing_fails_without_a_syslog(engine, image, syslog):
    syslog.socket.close()
    assert engine.output(image, "echo", "runs") == "runs"


def test_the_site_chooses_the_facility_or_none(make_setuid_prefix, engine, image, syslog):
    prefix = make_setuid_prefix("audit")
    other = engine.variant(prefix=prefix)
    for facility, priority in (("local3", "158"), ("off", None)):
        set_configuration(prefix, auditLog=facility)
        other.run(image, "true")
        if priority:
            assert [record["priority"] for record in syslog.records(2)] == [priority] * 2
        else:
            assert syslog.is_silent()
    set_configuration(prefix, auditLog=None, imagePolicy={"owners": ["root"]})
    other.run(image, "true", check=False)
    record, = syslog.records(1)
    assert (record["event"], record["error"], record["status"]) == ("refused", "forbidden-by-site", "1") and "imagePolicy.owners" in record["reason"]


@pytest.mark.parametrize("owner", ["root", "user"])
def test_the_job_comes_from_a_cgroup_that_only_root_can_have_made(engine, image, syslog, owner):
    hierarchy = next(path for path in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup") if (pathlib.Path(path) / "cgroup.procs").exists())
    own = subprocess.run("grep -E '^[0-9]+:(pids|):' /proc/self/cgroup | head -1 | cut -d: -f3", shell=True, capture_output=True, text=True, check=True).stdout.strip()
    folder = pathlib.Path(hierarchy + own) / f"slurm-audit-{os.getpid()}"
    job = folder / "job_4711"
    job.mkdir(parents=True)
    try:
        if owner == "user":
            engine.user.own(folder)
        argv, _ = engine.command("run", image, "true")
        result = subprocess.run(["sh", "-c", f'echo $$ > {job}/cgroup.procs; exec "$@"', "sh", *argv], capture_output=True, text=True, timeout=300,
                                env=engine.user.environment(SLURM_JOB_ID="1"), cwd=engine.user.home)
        assert result.returncode == 0, result.stderr
        start = syslog.records(2)[0]
        assert (start.get("job"), start.get("claimed_job")) == (("4711", None) if owner == "root" else (None, "1"))
    finally:
        for directory in (job, folder):
            system.eventually(lambda: not (directory / "cgroup.procs").read_text())
            directory.rmdir()
