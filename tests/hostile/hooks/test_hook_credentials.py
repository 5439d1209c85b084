"""What the image and the user have put below a container's root is looked up and opened with the user's rights, not with root's: every
open of every hook is traced, over an image whose files lead to what the user must not read or open."""

import json
import os
import pathlib
import platform
import re
import subprocess

import pytest
from helpers.compiler import compile_library
from test_hook_amdgpu import TWO_GPUS
from test_hook_images import HOOKS, SECONDS, Attack, template  # noqa: F401

pytestmark = pytest.mark.asroot

PROGRAMS = pathlib.Path(__file__).resolve().parents[2] / "integration/programs"
USER, GROUP, GROUPS = 61234, 61235, [61236, 61237]
TOKEN = "TOKEN-OF-ANOTHER-USER"
MUSL = {"x86_64": "x86_64", "aarch64": "aarch64"}[platform.machine()]
LOG, MESSAGE = "/mnt/log", "said by the hook"
CALL = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)(?:<([^>]*)>)?.*$")


class Trace:
    """The opens of a process and its threads, each with the file-system ids and groups that it was made with."""

    def __init__(self, text):
        self.opens = []
        ids = {}
        unfinished = {}
        for line in text.splitlines():
            thread = line.split(None, 1)[0]
            if line.endswith("<unfinished ...>"):
                unfinished[thread] = line.removesuffix("<unfinished ...>").rstrip()
                continue
            resumed = re.match(r"^\d+ +<\.\.\. \w+ resumed>(.*)$", line)
            if resumed:
                line = unfinished.pop(thread) + resumed[1]
            call = CALL.match(line)
            if not call:
                continue
            thread, name, arguments, result, path = call.groups()
            if thread not in ids:  # of the first, or of the one that is about to be told the number of this one
                ids[thread] = list(next((ids[parent] for parent, begun in unfinished.items() if " clone" in begun and parent in ids), [0, 0, []]))
            own = ids[thread]
            if name in ("clone", "clone3"):
                ids.setdefault(result, list(own))  # the child may have changed its own before the call returned here
            elif name in ("setresuid", "setresgid"):
                own[name == "setresgid"] = int(arguments.split(", ")[1])  # the ids for files follow the effective ones
            elif name == "setfsuid" and arguments != "-1":
                own[0] = int(arguments)
            elif name == "setfsgid" and arguments != "-1":
                own[1] = int(arguments)
            elif name == "setgroups":
                own[2] = [int(number) for number in re.findall(r"\d+", arguments.partition(",")[2])]
            elif name.startswith("open"):
                self.opens.append((name, arguments, int(result), path or "", tuple(own[:2]) + (tuple(own[2]),)))


class TracedAttack(Attack):
    """The image holds mounts of things that are not the user's, and has all that hooks read lead there."""

    def __init__(self, directory, template, program):  # noqa: F811
        super().__init__(directory, template, program)
        traps = directory / "traps"
        private = traps / "private"
        private.mkdir(parents=True)
        (traps / "secret").write_text(f"/{TOKEN}\n")
        (traps / "secret").chmod(0o600)
        (private / "inside.conf").write_text(f"/{TOKEN}-INSIDE\n")
        compile_library(private / "libmpi.so.12.9.9", "int mpi(void) { return 0; }\n", f"lib{TOKEN}.so.12")
        compile_library(private / f"lib{TOKEN}.so.1", "int token(void) { return 0; }\n", f"lib{TOKEN}.so.1")
        compile_library(traps / "library", "int token(void) { return 0; }\n", f"lib{TOKEN}.so.2")
        private.chmod(0o700)
        (traps / "library").chmod(0o600)
        os.mknod(traps / "device", 0o20666, os.makedev(1, 5))
        mounts = {"mnt/secret": traps / "secret", "mnt/private": private, "mnt/device": traps / "device", "mnt/proc": "/proc", "mnt/sys": "/sys",
                  "usr/lib/libdevice.so.1": traps / "device", "usr/lib/libproc.so.1": "/proc/version", "usr/lib/libsecret.so.1": traps / "library"}
        self.mounting = ["set -e"]
        for place, source in mounts.items():
            target = self.root / place
            target.mkdir(parents=True) if os.path.isdir(source) else (target.parent.mkdir(parents=True, exist_ok=True), target.touch())
            self.mounting.append(f"mount --bind {source} {target}")
        for number, target in enumerate(("/mnt/secret", "/mnt/device", "/mnt/proc/version", "/mnt/sys/kernel/uevent_seqnum", f"/mnt/private/lib{TOKEN}.so.1")):
            (self.root / f"usr/lib/libtrap{number}.so.1").symlink_to(target)
        os.mkfifo(self.root / "usr/lib/libfifo.so.1")
        (self.root / f"lib/ld-musl-{MUSL}.so.1").write_bytes(b"")
        (self.root / f"etc/ld-musl-{MUSL}.path").symlink_to("/mnt/secret")
        if program.name == "amdgpu_hook":
            self.mounting.insert(0, TWO_GPUS)
        elif program.name == "timestamp_hook":
            # The hook sees the path as the host does. The user could not pass the directories above the root.
            (self.root / "tmp").chmod(0o1777)
            self.mounting.append(f"mount --bind {self.root}/tmp /mnt")
            self.environment, self.settings = [f"TIMESTAMP_HOOK_LOGFILE={LOG}"], {"TIMESTAMP_HOOK_MESSAGE": MESSAGE, "HOOK_TRUST_CONTAINER": "true"}
        elif program.name == "slurm_global_sync_hook":
            (directory / "home/user").mkdir(parents=True)
            os.chown(directory / "home/user", USER, GROUP)
            (directory / "home/passwd").write_text(f"user:x:{USER}:{GROUP}::/:/bin/sh\n")
            self.mounting.append(f"mount --bind {directory}/home /mnt")
            self.settings = {"HOOK_BASE_DIR": "/mnt", "PASSWD_FILE": "/mnt/passwd", "HOOK_TRUST_CONTAINER": "true"}
            self.environment = ["SLURM_JOB_ID=7", "SLURM_STEPID=0", "SLURM_NTASKS=1", "SLURM_PROCID=0"]
        elif program.name == "mkhomedir_hook":
            self.environment = ["HOME=/home/new/user"]
            (self.root / "etc/passwd").symlink_to("/mnt/secret")
            (self.root / "etc/skel").mkdir()
            for number, target in enumerate(("/mnt/secret", "/mnt/device", "/mnt/proc/version")):
                (self.root / f"etc/skel/link{number}").symlink_to(target)
            os.mkfifo(self.root / "etc/skel/fifo")
        elif program.name == "pmix_hook":
            for place in ("spool/pmix.12.3", "tmp/spmix_appdir_61234_12.3"):
                (directory / "slurm" / place).mkdir(parents=True)
                os.chown(directory / "slurm" / place, USER, GROUP)
            self.environment = ["SLURM_MPI_TYPE=pmix", "SLURM_JOB_ID=12", "SLURM_STEP_ID=3", f"SLURM_JOB_UID={USER}", "PMIX_RANK=0"]
            self.mounting.append(f"mount --bind {directory}/slurm /srv")
            self.settings = {"SLURM_SPOOL_DIR": "/srv/spool", "SLURM_TMPFS": "/srv/tmp", "HOOK_TRUST_CONTAINER": "true"}
        elif program.name == "pc_injection_hook":
            self.arguments = [f"--lib={directory}/host/libmpi.so.12.2.0", f"--dependency-lib={directory}/host/libdep.so.1.3"]
        elif program.name == "pce_hook":
            (directory / "edits.json").write_text(json.dumps({"containerEdits": [{"env": [f"MESSAGE={MESSAGE}"]}]}))
            self.settings = {"PCE_INPUT": f"{directory}/edits.json"}
        self.configure("include /mnt/secret\ninclude /mnt/private/*.conf\ninclude /mnt/device\ninclude /mnt/proc/version\ninclude /mnt/proc/sys/*/*\n"
                       "include /mnt/sys/kernel/*\n/mnt/private\n/mnt/proc/self\n")

    def configure(self, text):
        (self.root / "etc/ld.so.conf").write_text(text)

    def trace(self):
        path = "LD_LIBRARY_PATH=/mnt/private:/mnt/proc/self/fd:/mnt/sys/kernel:/usr/lib"
        config = json.dumps({"root": {"path": str(self.root)},
                             "process": {"env": [*self.environment, path], "user": {"uid": USER, "gid": GROUP, "additionalGids": GROUPS}}})
        (self.directory / "config.json").write_text(config)
        state = json.dumps({"ociVersion": "1.0.0", "id": "attack", "pid": 0, "status": "creating", "bundle": str(self.directory)})
        log = self.directory / "trace"
        calls = "open,openat,openat2,clone,clone3,setfsuid,setfsgid,setgroups,setresuid,setresgid"
        script = "\n".join([*self.mounting, f'exec strace -f -y -qq -s 4096 -o {log} -e trace={calls} "$0" "$@"'])
        result = subprocess.run(["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script, str(self.program), *self.arguments],
                                env={**self.settings, "PATH": os.environ["PATH"]}, input=config if self.program.name in PRECREATE_HOOKS else state,
                                capture_output=True, text=True, timeout=3 * SECONDS)
        assert self.snapshot() == self.before
        return result, Trace(log.read_text())

    def below(self, path):
        return path == str(self.root) or path.startswith(f"{self.root}/") or path == LOG

    def isTrap(self, path):
        places = ["mnt/device", "mnt/proc", "mnt/sys", "usr/lib/libdevice.so.1", "usr/lib/libproc.so.1", "usr/lib/libfifo.so.1"]
        return any(path == f"{self.root}/{place}" or path.startswith(f"{self.root}/{place}/") for place in places) or path == str(self.directory / "traps/device")


# Hooks that look at nothing below the root, or at one file there.
FEW_OPENS = {"timestamp_hook": 1, "slurm_global_sync_hook": 0, "stdout_stderr_test_hook": 0, "pce_hook": 0}
ALL_HOOKS = [*HOOKS, "amdgpu_hook", "mkhomedir_hook", "pc_injection_hook", "pmix_hook", *FEW_OPENS]
PRECREATE_HOOKS = ["pce_hook", "pc_injection_hook"]


@pytest.fixture(params=HOOKS)
def attack(request, tmp_path, template, build_dir):  # noqa: F811
    tmp_path.chmod(0o755)
    return TracedAttack(tmp_path, template, build_dir / request.param)


def check_opens(attack, trace):
    user = (USER, GROUP, tuple(GROUPS))
    looked = 0
    for name, arguments, _, path, ids in trace.opens:
        directory = re.match(r"(?:AT_FDCWD|\d+)<([^>]*)>, \"(.*?)\"", arguments)
        place, entry = directory.groups() if directory else ("", "")
        if path == str(attack.root) and "O_PATH" in arguments and not attack.below(place):
            continue  # the root itself, along a path of the host's
        if not attack.below(place) and not attack.below(path):
            continue
        looked += 1
        call = f"{name}({arguments}) = {path} as {ids}"
        assert "O_PATH" in arguments or not attack.isTrap(path), f"opened: {call}"
        if ids == user:
            continue
        # Root makes entries in the container's own directories: it looks at one name of them at a time, and follows no link.
        makes = "O_CREAT" in arguments and "O_EXCL" in arguments
        looks = "O_PATH" in arguments and "O_NOFOLLOW" in arguments and "/" not in entry
        assert name == "openat" and (makes or looks), f"with root's rights: {call}"
        assert not place.startswith(f"{attack.root}/mnt/"), f"with root's rights in what the user mounted: {call}"
    assert looked == FEW_OPENS[attack.program.name] if attack.program.name in FEW_OPENS else looked > 10


def check_contents(attack, result):
    for path in (attack.root / "etc").iterdir():
        if path.is_file() and not path.is_symlink():
            assert TOKEN.encode() not in path.read_bytes(), path
    assert TOKEN not in result.stderr


def test_no_hook_is_forgotten_here(build_dir):
    daemons = {"mps_hook", "ssh_hook"}  # they leave a process, which would be traced for ever: test_hook_mps.py, test_hook_ssh.py
    others = {"podman_hpc_hook", "sethomevar_hook"}  # never root's: ../podman_hpc; looks at the node's accounts alone
    assert {path.name for path in build_dir.glob("*_hook")} == {*ALL_HOOKS, *daemons, *others}


@pytest.mark.parametrize("attack", ALL_HOOKS, indirect=True)
def test_every_open_below_the_root_is_the_users(attack):
    result, trace = attack.trace()
    assert result.returncode == 0, result.stderr
    done = {"amdgpu_hook": lambda: (attack.root / "dev/dri/renderD129").exists(),
            "timestamp_hook": lambda: MESSAGE in (attack.root / "tmp/log").read_text(),
            "slurm_global_sync_hook": lambda: (attack.directory / "home/user/.oci-hooks/slurm-global-sync").exists(),
            "stdout_stderr_test_hook": lambda: "hook's stdout" in result.stdout,
            "pce_hook": lambda: f"MESSAGE={MESSAGE}" in json.loads(result.stdout)["process"]["env"]}.get(attack.program.name)
    assert done is None or done(), result.stdout + result.stderr
    check_opens(attack, trace)
    check_contents(attack, result)


@pytest.mark.parametrize("target", ["/mnt/secret", "/mnt/private/inside.conf", "/mnt/device", "/mnt/proc/version"])
@pytest.mark.parametrize("place", ["etc/ld.so.conf", "etc/ld.so.cache"])
def test_files_that_lead_to_what_the_user_cannot_read_are_as_good_as_none(attack, place, target):
    attack.replace(place, lambda path: path.symlink_to(target))
    result, trace = attack.trace()
    assert result.returncode == 0, result.stderr
    check_opens(attack, trace)
    check_contents(attack, result)


@pytest.mark.parametrize("attack", ["ldcache_hook"], indirect=True)
def test_threads_that_read_libraries_are_the_users_too(attack):
    """So many files that the hook starts threads."""
    library = attack.root / "usr/lib/libmpi.so.12.1.0"
    for number in range(300):
        (attack.root / f"usr/lib/libmany{number}.so.1").write_bytes(library.read_bytes())
    result, trace = attack.trace()
    assert result.returncode == 0, result.stderr
    check_opens(attack, trace)
    names = {path for _, arguments, _, path, _ in trace.opens if "O_PATH" not in arguments and "/libmany" in path}
    assert len(names) == 300


@pytest.mark.parametrize("attack", ["ldcache_hook", "mpi_hook"], indirect=True)
def test_a_file_server_that_never_answers_does_not_keep_who_waits_for_the_hook(attack):
    """Not even SIGKILL ends a process whose question a FUSE server has taken: the process that the OCI runtime waits for asks none."""
    served, ready = attack.root / "mnt/served", attack.directory / "ready"
    served.mkdir(parents=True)
    script = (f"mknod -m 0600 {attack.directory}/fuse c 10 229 && mount --bind {attack.directory}/fuse /dev/fuse || exit; "
              f"/usr/bin/python3 -B {PROGRAMS}/silent_fuse.py {served} {ready} & server=$!; until [ -e {ready} ]; do sleep 0.1; done; "
              f'"$0" <{attack.directory}/state & hook=$!; until [ -e {ready}.asked ]; do sleep 0.1; done; kill -KILL $hook; wait $hook; echo "status $?"; kill -KILL $server; wait')
    (attack.root / "etc/ld.so.conf").unlink()
    (attack.root / "etc/ld.so.conf").symlink_to("/mnt/served/ld.so.conf")
    (attack.directory / "config.json").write_text(json.dumps({"root": {"path": str(attack.root)}, "process": {"user": {"uid": USER, "gid": GROUP}}}))
    (attack.directory / "state").write_text(json.dumps({"id": "attack", "pid": 0, "status": "creating", "bundle": str(attack.directory)}))
    result = subprocess.run(["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script, str(attack.program)],
                            env={**attack.settings, "PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=SECONDS)
    assert result.stdout == "status 137\n", result.stdout + result.stderr
