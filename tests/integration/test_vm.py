"""Containers in a virtual machine with Debian's kernel, where there are cgroups of version 2 alone, and AppArmor."""

import platform
import re

import pytest
from helpers import system, vm

pytestmark = pytest.mark.asroot
if platform.machine() != "x86_64":
    pytest.skip("the virtual machines of these tests are of the architecture x86_64", allow_module_level=True)

ENGINES = ["setuid-crun", "setuid-runc", "rootless-crun", "rootless-runc"]
SETUID = [name for name in ENGINES if name.startswith("setuid")]

PROFILE = """profile sarus-test flags=(attach_disconnected,mediate_deleted) {
  file,
  signal,
  ptrace,
  unix,
  network,
  capability,
  deny /etc/os-release rw,
}
"""

# What the script of each engine does. $step: the cgroup of the job step; sarus: `sarus run` of the engine's user, inside of it.
CHECKS = """
echo 64 >$step/pids.max
check {engine}-cgroup sarus run {image} cat /proc/self/cgroup
check {engine}-rules sarus run --device=/dev/kmsg:r {image} sh -c '
    cat /proc/self/cgroup
    head -c 4 /dev/zero | wc -c
    echo x >/dev/null && echo null
    head -n 1 /dev/kmsg >/dev/null && echo read
    echo hello >/dev/kmsg && echo written'
check {engine}-write-allowed sarus run --device=/dev/kmsg:rw {image} sh -c 'echo hello >/dev/kmsg && echo written'
check {engine}-processes sarus run --device=/dev/kmsg:r {image} sh -c 'for i in $(seq 100); do sleep 1 & done; wait'
echo max >$step/pids.max
echo 100M >$step/memory.max
check {engine}-memory sarus run --device=/dev/kmsg:r {image} dd if=/dev/zero of=/dev/null bs=200M count=1
check {engine}-memory-refused cat $step/memory.events
echo max >$step/memory.max
check {engine}-leftovers sh -c 'ls -d $0/sarus-*' $step
check {engine}-mounts grep -c squashfs /proc/self/mountinfo
check {engine}-loops sh -c 'cat /sys/block/loop*/loop/backing_file'
"""

START = """
mkdir -p {temp_dir} /sys/fs/cgroup/job
chmod 1777 {temp_dir}
echo 0 >/proc/sys/kernel/dmesg_restrict
echo '+memory +pids +cpuset +cpu' >/sys/fs/cgroup/cgroup.subtree_control
echo '+memory +pids +cpuset +cpu' >/sys/fs/cgroup/job/cgroup.subtree_control
enter() {{
    step=/sys/fs/cgroup/job/$1
    mkdir $step
}}
sarus() {{
    sh -c 'echo $$ >$0/cgroup.procs; exec "$@"' $step /usr/bin/setpriv --reuid {uid} --regid {gid} --init-groups -- env -i HOME={home} USER={name} \\
        PATH=/usr/bin:/bin $prefix/bin/sarus "$@"
}}
check lsm cat /sys/kernel/security/lsm
check cgroups cat /proc/self/cgroup
"""

APPARMOR = """
enter {engine}-apparmor
check {engine}-apparmor sarus run {image} cat /proc/self/attr/current
check {engine}-apparmor-denied sarus run {image} cat /etc/os-release
check {engine}-apparmor-allowed sarus run {image} cat /etc/hosts
"""


@pytest.fixture(scope="module")
def machine(engines, make_setuid_prefix, load_image, plain_busybox, home_base, opt, user, build_dir, workspace, temp_dir):
    """What the checks of one boot found."""
    kernel, modules = vm.debian_kernel(build_dir / "vm")
    parser = next((vm.debian_package("apparmor", build_dir / "vm") / "sbin").glob("apparmor_parser"))
    root = vm.Root(workspace / "vm-root")
    for program in ("crun", "runc", "squashfuse", "squashfuse_ll", "setpriv", "tini-static"):
        root.add_program(system.program(program))
    root.add_program(parser, "/usr/sbin/apparmor_parser")
    root.write("/vm/profile", PROFILE)
    script = START.format(uid=user.uid, gid=user.gid, home=user.home, name=user.name, temp_dir=temp_dir)
    for name in ENGINES:
        engine = engines(*name.split("-"))
        image = load_image(engine, "busybox", plain_busybox)
        script += f"prefix={engine.prefix}\nenter {name}\n" + CHECKS.replace("{engine}", name).replace("{image}", image)
    script += "check apparmor-load apparmor_parser --skip-cache --replace /vm/profile\n"
    for name in SETUID:
        prefix = make_setuid_prefix(f"vm-{name}", name.split("-")[1], apparmorProfile="sarus-test")
        script += f"prefix={prefix}\n" + APPARMOR.format(engine=name, image=image)
    prefix = make_setuid_prefix("vm-no-profile", "crun", apparmorProfile="no-such-profile")
    script += f"prefix={prefix}\nenter no-profile\ncheck no-profile sarus run {image} true\n"
    for tree in (home_base, opt):
        root.add_tree(tree)
    initramfs = vm.make_initramfs(modules, workspace / "vm-initramfs")
    found = vm.run(root, script, kernel, initramfs, workspace / "vm", "lsm=apparmor apparmor=1")
    # A rootless container warns that this kernel is too old to replace directories of the image.
    return {name: (status, re.sub(r"^\[.*\[WARN\] .*\n?", "", output, flags=re.M)) for name, (status, output) in found.items()}


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
    cgroup = machine[f"{name}-rules"][1].splitlines()[0]
    assert f"{cgroup}/".startswith(f"0::/job/{name}/")


def test_device_can_be_used_as_asked_for(machine, name):
    assert "read" in machine[f"{name}-rules"][1].splitlines()
    assert machine[f"{name}-write-allowed"] == (0, "written")


def test_device_cannot_be_used_otherwise(machine, setuid_name):
    status, text = machine[f"{setuid_name}-rules"]
    assert status == 1 and "/dev/kmsg: Operation not permitted" in text and "written" not in text


def test_rules_need_privileges(machine):
    """Without them a device is as accessible as it is outside of the container."""
    for name in set(ENGINES) - set(SETUID):
        assert "written" in machine[f"{name}-rules"][1].splitlines()


def test_usual_devices_work_with_device_rules(machine, name):
    assert machine[f"{name}-rules"][1].splitlines()[1:3] == ["4", "null"]


def test_limits_of_the_job_hold_for_processes(machine, name):
    assert "can't fork" in machine[f"{name}-processes"][1]


def test_limits_of_the_job_hold_for_memory(machine, name):
    assert machine[f"{name}-memory"][0] == 137
    events = dict(line.split() for line in machine[f"{name}-memory-refused"][1].splitlines())
    assert int(events["oom_kill"]) > 0


def test_nothing_is_left_behind(machine, name):
    assert machine[f"{name}-leftovers"][0] != 0, machine[f"{name}-leftovers"][1]
    assert machine[f"{name}-mounts"][1] == "0"
    assert machine[f"{name}-loops"][0] != 0, machine[f"{name}-loops"][1]


def test_apparmor_profile_confines_the_container(machine, setuid_name):
    assert machine["apparmor-load"][0] == 0, machine["apparmor-load"][1]
    assert machine[f"{setuid_name}-apparmor"] == (0, "sarus-test (enforce)")
    assert machine[f"{setuid_name}-apparmor-allowed"][0] == 0
    status, text = machine[f"{setuid_name}-apparmor-denied"]
    assert status == 1 and "Permission denied" in text


def test_apparmor_profile_that_is_not_loaded_is_an_error(machine):
    status, text = machine["no-profile"]
    assert status == 1 and "no-such-profile" in text
