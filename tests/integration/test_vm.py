"""Containers in virtual machines with Debian's kernel, where there are cgroups of version 2 alone, and AppArmor or SELinux.

What the machines do is in the folder vm; the tests look at what came out of it.
"""

import os
import pathlib
import platform
import re
import subprocess

import pytest
from helpers import debian, system, vm

pytestmark = [pytest.mark.asroot, pytest.mark.thorough]
if platform.machine() != "x86_64":
    pytest.skip("the virtual machines of these tests are of the architecture x86_64", allow_module_level=True)

ENGINES = ["setuid-crun", "setuid-runc", "rootless-crun", "rootless-runc"]
SETUID = [name for name in ENGINES if name.startswith("setuid")]
MACHINES = {"apparmor": "lsm=apparmor apparmor=1", "selinux": "lsm=selinux selinux=1"}
SCRIPTS = pathlib.Path(__file__).parent / "vm"
LABEL = "system_u:system_r:container_t:s0:c1,c2"
MOUNT_LABEL = "system_u:object_r:container_file_t:s0:c1,c2"


@pytest.fixture(scope="module")
def machines(engines, load_image, plain_busybox, home_base, opt, user, build_dir, workspace, temp_dir):
    """What the checks found: {machine: {check: (exit status, output)}}."""
    kernel, modules = vm.debian_kernel(workspace / "vm-kernel")
    parser = debian.Releases(workspace).packages("bookworm", "amd64", ["apparmor"], workspace / "apparmor") / "sbin/apparmor_parser"
    root = vm.Root(workspace / "vm-root")
    for program in ("crun", "runc", "setpriv", "tini-static", "fsverity"):
        root.add_program(system.program(program))
    for program in ("sarus", "sarus-squashfs"):
        root.add_program(build_dir / program)  # for its libraries
    root.add_program(parser, "/usr/sbin/apparmor_parser")
    variables = {"engines": f"'{' '.join(ENGINES)}'", "temp_dir": temp_dir, "uid": user.uid, "gid": user.gid, "user": user.name, "home": user.home}
    for name in ENGINES:
        engine = engines(*name.split("-"))
        variables["image"] = load_image(engine, "busybox", plain_busybox)
        variables[f"prefix_{name.replace('-', '_')}"] = engine.prefix
    for name in ("apparmor.profile", "apparmor.sh", "selinux.sh", "verity.sh"):
        root.write(f"/vm/{name}", (SCRIPTS / name).read_text())
    root.write("/vm/common.sh", "".join(f"{name}={value}\n" for name, value in variables.items()) + (SCRIPTS / "common.sh").read_text())
    subprocess.run([system.program("checkpolicy"), "-M", "-U", "allow", "-c", "33", "-o", f"{root.directory}/vm/selinux.policy",
                    str(SCRIPTS / "selinux.conf")], check=True, capture_output=True)
    disk = root.directory / "vm/ext4"
    disk.touch()
    os.truncate(disk, 32 << 20)
    subprocess.run([system.program("mkfs.ext4"), "-q", "-F", "-O", "verity", "-b", "4096", str(disk)], check=True, capture_output=True)
    for tree in (home_base, opt):
        root.add_tree(tree)
    initramfs = vm.make_initramfs(modules, workspace / "vm-initramfs")
    found = vm.run(root, MACHINES, kernel, initramfs, workspace / "vm")
    # A rootless container warns that this kernel is too old to replace directories of the image.
    return {machine: {name: (status, re.sub(r"^\[.*\[WARN\] .*\n?", "", output, flags=re.M)) for name, (status, output) in checks.items()}
            for machine, checks in found.items()}


@pytest.fixture
def machine(machines):
    """What was found in the machine with AppArmor, in which cgroups are looked at too."""
    return machines["apparmor"]


@pytest.fixture
def selinux(machines):
    return machines["selinux"]


@pytest.fixture(params=ENGINES)
def name(request):
    return request.param


@pytest.fixture(params=SETUID)
def setuid_name(request):
    return request.param


def test_machine_has_cgroups_of_version_2_alone(machine):
    assert machine["cgroups"] == (0, "0::/")
    assert "apparmor" in machine["lsm"][1]


def test_container_stays_in_its_jobs_cgroup(machine, name):
    status, cgroup = machine[f"{name}-cgroup"]
    assert status == 0 and f"{cgroup}/".startswith(f"0::/job/{name}/")


def test_container_with_device_rules_stays_below_its_jobs_cgroup(machine, name):
    cgroup = machine[f"{name}-both-devices"][1].splitlines()[0]
    assert f"{cgroup}/".startswith(f"0::/job/{name}/")


def test_device_can_be_used_as_asked_for(machine, name):
    for check in ("reader", "writer", "both"):
        text = machine[f"{name}-{check}-devices"][1]
        assert re.search("read$", text, re.MULTILINE), text  # standard error may come in between
    assert "written" in machine[f"{name}-writer-devices"][1].splitlines()


@pytest.mark.parametrize("check", ["both", "reader"], ids=["run", "exec"])
def test_device_cannot_be_used_otherwise(machine, setuid_name, check):
    """Neither by the container's first process nor by `sarus exec` from another cgroup, while others may use it."""
    status, text = machine[f"{setuid_name}-{check}-devices"]
    assert status == 1 and "/dev/kmsg: Operation not permitted" in text and "written" not in text


def test_rules_need_privileges(machine):
    """Without them a device is as accessible as it is outside of the container."""
    for name in set(ENGINES) - set(SETUID):
        assert "written" in machine[f"{name}-both-devices"][1].splitlines()


def test_usual_devices_work_with_device_rules(machine, name):
    for check in ("reader", "writer", "both"):
        lines = [line for line in machine[f"{name}-{check}-devices"][1].splitlines() if not line.startswith("sh: ")]
        assert lines[1:3] == ["4", "null"]  # standard error may come in between


def test_limits_of_the_job_hold_for_processes(machine, name):
    assert "can't fork" in machine[f"{name}-processes"][1]


def test_limits_of_the_job_hold_for_memory(machine, name):
    assert machine[f"{name}-memory"][0] == 137
    events = dict(line.split() for line in machine[f"{name}-memory-refused"][1].splitlines())
    assert int(events["oom_kill"]) > 0


def test_files_of_a_container_leave_memory_to_its_job(machine, name):
    status, text = machine[f"{name}-memory-files"]
    assert status == 0 and "No space left on device" in text and str(50 << 10) in text.splitlines(), text


@pytest.mark.parametrize("check", ["memory", "exec-memory"], ids=["run", "exec"])
def test_the_limit_that_ended_a_command_is_named(machine, name, check):
    text = machine[f"{name}-{check}"][1]
    if check == "memory" or name in SETUID:  # without privileges the command of `sarus exec` is held by the caller's limits
        assert f"Out of memory: the kernel killed a process of the container. The limit is 100.00MB (104857600 bytes in /sys/fs/cgroup/job/{name}" in text


def test_cpus_of_the_job_hold(machine, name):
    assert machine[f"{name}-cpus"] == (0, "Cpus_allowed_list:\t0-1")
    assert machine[f"{name}-cpuset"] == (0, "Cpus_allowed_list:\t1")


def rights(text):
    """What the variable of that name in vm/common.sh prints: {"cgroup": ..., "label": ..., field of /proc/self/status: ...}."""
    lines = [line for line in text.splitlines() if line]
    found = {"cgroup": lines[0], "label": lines[1]}
    found.update(line.split(":\t", 1) for line in lines[2:] if re.match(r"[A-Z]\w+:\t", line))
    assert {"CapEff", "NoNewPrivs", "Seccomp", "Uid", "Cpus_allowed_list"} <= found.keys()
    return found


def test_exec_has_the_rights_of_the_container(machine, name):
    inside, beside = rights(machine[f"{name}-reader"][1]), rights(machine[f"{name}-reader-exec"][1])
    assert beside == inside
    assert (int(inside["CapBnd"], 16) == 0 or not name.startswith("setuid")) and inside["NoNewPrivs"] == "1"


def test_exec_from_another_cgroup_has_the_rights_of_the_container(machine, setuid_name):
    assert rights(machine[f"{setuid_name}-reader-exec-elsewhere"][1]) == rights(machine[f"{setuid_name}-reader"][1])


def test_rootless_exec_stays_in_the_cgroup_of_its_caller(machine):
    """Only root may move processes to the cgroup of another job step."""
    for name in set(ENGINES) - set(SETUID):
        inside, beside = rights(machine[f"{name}-reader"][1]), rights(machine[f"{name}-reader-exec-elsewhere"][1])
        assert beside.pop("cgroup").startswith("0::/job/elsewhere") and inside.pop("cgroup").startswith(f"0::/job/{name}")
        assert beside == inside


def test_limits_of_the_containers_job_hold_for_exec(machine, setuid_name):
    assert "can't fork" in machine[f"{setuid_name}-exec-processes"][1]
    assert machine[f"{setuid_name}-exec-memory"][0] == 137
    assert machine[f"{setuid_name}-still-running"] == (0, "alive")


@pytest.mark.parametrize("of", ["end", "background", "starter", "runtime"])
def test_no_cgroup_is_left_behind(machine, name, of):
    """At the end of the container, also with a process in the background; nor when the starter or the runtime is killed."""
    assert machine[f"{name}-leftovers-of-{of}"][0] != 0, machine[f"{name}-leftovers-of-{of}"][1]


@pytest.mark.parametrize("killed", ["starter", "runtime"])
def test_processes_end_with_what_runs_them(machine, name, killed):
    assert machine[f"{name}-processes-of-{killed}"] == (1, "")


def test_nothing_is_left_behind(machine, name):
    assert machine[f"{name}-mounts"][1] == "0"
    assert machine[f"{name}-loops"][0] != 0, machine[f"{name}-loops"][1]


def test_apparmor_profile_confines_the_container(machine, name):
    assert machine["apparmor-load"][0] == 0, machine["apparmor-load"][1]
    assert rights(machine[f"{name}-apparmor"][1])["label"] == "sarus-test (enforce)"
    assert machine[f"{name}-apparmor-allowed"][0] == 0
    status, text = machine[f"{name}-apparmor-denied"]
    assert status == 1 and "Permission denied" in text


def test_apparmor_profile_of_the_container_confines_exec(machine, name):
    """Even if the site's configuration has another one by now."""
    assert rights(machine[f"{name}-apparmor-exec"][1]) == rights(machine[f"{name}-apparmor"][1])
    status, text = machine[f"{name}-apparmor-exec-denied"]
    assert status == 1 and "Permission denied" in text


def test_apparmor_profile_that_is_not_loaded_is_an_error(machine):
    status, text = machine["no-profile"]
    assert status == 1 and "no-such-profile" in text


@pytest.mark.parametrize("key", ["selinuxLabel", "selinuxMountLabel"])
def test_selinux_label_is_an_error_without_selinux(machine, key):
    status, text = machine[f"no-selinux-{key}"]
    assert status == 1 and text.startswith(f"The SELinux label 'system_u:system_r:container_t:s0' (`{key}` in sarus.json) cannot be used: "
                                           "SELinux is not enabled on this node")


def test_kernel_fs_verity_satisfies_the_rules_for_digests(machine):
    """It has the digest that Sarus recorded, and the owner of the file cannot change it any more."""
    assert machine["verity-mount"][0] == 0, machine["verity-mount"][1]
    status, text = machine["verity-unprotected"]
    assert status == 1 and "imagePolicy.verify" in text and "ran" not in text.splitlines()
    assert machine["verity-enable"][0] == 0, machine["verity-enable"][1]
    digest = re.search("sha256:[0-9a-f]{64}", machine["verity-measure"][1])[0]
    assert f'"fsverity-{digest}"' in machine["verity-recorded"][1]
    assert machine["verity-verified"] == (0, "ran")
    assert "Operation not permitted" in machine["verity-write"][1]
    status, text = machine["verity-unlisted"]
    assert status == 1 and "imagePolicy.digestsFile" in text
    assert machine["verity-listed"] == (0, "ran")


def test_machine_enforces_selinux(selinux):
    assert "selinux" in selinux["lsm"][1]
    assert selinux["policy-load"][0] == 0 and selinux["enforcing"] == (0, "1")
    assert selinux["node-reads-secret"] == (0, "in secret")


def test_container_has_the_selinux_label(selinux, name):
    assert rights(selinux[f"{name}-label"][1])["label"] == LABEL
    assert selinux[f"{name}-plain"] == (0, "system_u:system_r:node_t:s0-s0:c0.c2")


def test_mounts_have_the_selinux_mount_label(selinux, name):
    lines = [line.split(" ") for line in selinux[f"{name}-label"][1].splitlines() if " - " in line]
    options = {fields[4]: fields[-1] for fields in lines}
    for directory in ("/", "/dev", "/dev/pts"):
        assert MOUNT_LABEL in options[directory], directory


@pytest.mark.parametrize("check", ["files", "exec-files"], ids=["run", "exec"])
def test_policy_decides_what_the_container_may_read(selinux, name, check):
    text = selinux[f"{name}-{check}"][1]
    assert "in shared" in text and re.search(r"\bx$", text, re.MULTILINE)  # standard error may come in between
    for folder in ("secret", "foreign"):
        assert f"in {folder}" not in text and f"can't open '/{folder}/file': Permission denied" in text


def test_selinux_label_of_the_container_holds_for_exec(selinux, name):
    """Even if the site's configuration has none by now."""
    assert rights(selinux[f"{name}-exec"][1]) == rights(selinux[f"{name}-label"][1])


@pytest.mark.parametrize("check", ["forbidden", "unlabelled-files"])
def test_what_the_policy_forbids_is_not_started(selinux, name, check):
    """A domain which the runtime may not enter, and a program which the domain may not run."""
    status, text = selinux[f"{name}-{check}"]
    assert status != 0 and "started" not in text.splitlines() and re.search("[Pp]ermission denied|[Oo]peration not permitted", text)


@pytest.mark.parametrize("key", ["selinuxLabel", "selinuxMountLabel"])
def test_selinux_label_that_the_policy_does_not_know_is_an_error(selinux, key):
    status, text = selinux[f"invalid-{key}"]
    assert status == 1
    assert text.startswith(f"The SELinux label 'system_u:system_r:no_such_t:s0' (`{key}` in sarus.json) is not valid in the policy of this node")
