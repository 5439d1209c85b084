"""Devices of the Container Device Interface: `sarus run --device vendor.com/class=name`."""

import json
import os
import re
import stat

import pytest
from helpers import installation

RECORDER = """#!/bin/sh
{ echo "args=$*"; echo "directory=$(pwd)"; echo "state=$(tr -d '\\n')"; env | sed 's/^/env:/'; } >> "$RECORD"
echo "hook talks" >&2
"""

NVIDIA = """---
cdiVersion: 0.5.0
kind: v.com/gpu
containerEdits:
  env:
  - VENDOR_VISIBLE=void
  deviceNodes:
  - path: /dev/vctl          # bound from a node that exists everywhere
    hostPath: /dev/null
  hooks:
  - hookName: createContainer
    path: {hook}
    args:
    - recorder
    - create-symlinks
    - --link
    - libv.so.1::/usr/lib/libv.so
    env: ["RECORD={record}", "PATH=/usr/bin:/bin"]
  mounts:
  - containerPath: /usr/lib64/libv.so.1
    hostPath: {directory}/libv.so.1
    options:
    - ro
    - nosuid
    - nodev
    - rbind
    - rprivate
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/v0
      hostPath: /dev/zero
- name: all
  containerEdits:
    deviceNodes:
    - path: /dev/v0
      hostPath: /dev/zero
    - path: /dev/v1
      hostPath: /dev/full
"""


class Cdi:
    """An installation with CDI files of a test's own."""

    def __init__(self, engine, directory):
        self.engine = engine
        self.directory = directory
        self.record = directory / "record"

    def own(self, path):
        if self.engine.rootless:
            os.chown(path, self.engine.user.uid, self.engine.user.gid)
        return path

    def write(self, name, text, mode=0o644):
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        self.own(path.parent)
        path.write_text(text)
        path.chmod(mode)
        return self.own(path)

    def add(self, name, *, kind="v.com/c", device="d", common=None, **edits):
        text = json.dumps({"cdiVersion": "1.1.0", "kind": kind, "containerEdits": common or {}, "devices": [{"name": device, "containerEdits": edits}]})
        return self.write(name, text)

    def add_vendor(self):
        hook = self.write("recorder", RECORDER, 0o755)
        self.write("libv.so.1", "library")
        return self.write("vendor.yaml", NVIDIA.format(hook=hook, record=self.record, directory=self.directory))

    def directories(self, *directories):
        installation.set_configuration(self.engine.prefix, cdiSpecDirs=[str(d) for d in directories])


@pytest.fixture(params=["setuid-crun", "setuid-runc", "rootless-crun", "rootless-runc"])
def cdi_engine(request, engines):
    return engines(*request.param.split("-"))


def make_cdi(engine):
    directory = engine.prefix / "etc" / "cdi"
    directory.mkdir()
    made = Cdi(engine, directory)
    made.own(directory)
    made.directories(directory)
    return made


def remove_cdi(made):
    installation.set_configuration(made.engine.prefix, cdiSpecDirs=None)
    for path in sorted(made.directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    made.directory.rmdir()


@pytest.fixture
def cdi(cdi_engine):
    made = make_cdi(cdi_engine)
    yield made
    remove_cdi(made)


@pytest.fixture
def user_cdi(user_engine):
    """Both ways in which a user runs containers, for rules that the OCI runtime has no part in."""
    made = make_cdi(user_engine)
    yield made
    remove_cdi(made)


@pytest.fixture
def setuid_cdi(setuid_engine):
    made = make_cdi(setuid_engine)
    yield made
    remove_cdi(made)


@pytest.fixture
def image(load_image, plain_busybox):
    return lambda cdi: load_image(cdi.engine, "busybox", plain_busybox)


def errors(cdi, image, *devices, options=()):
    result = cdi.engine.run(image(cdi), "true", options=[*options, *(f"--device={d}" for d in devices)], check=False)
    assert result.returncode == 1, result.stdout + result.stderr
    return result.stderr


def test_a_device_brings_nodes_variables_mounts_and_hooks(cdi, image):
    cdi.add_vendor()
    script = "test -c /dev/v0 && test -c /dev/vctl && head -c 3 /dev/v0 | wc -c && cat /usr/lib64/libv.so.1 && echo \" $VENDOR_VISIBLE\"; " \
             "ls /dev/v1 2>/dev/null; echo x 2>/dev/null > /usr/lib64/libv.so.1 || echo readonly"
    result = cdi.engine.run(image(cdi), "sh", "-c", script, options=["--device=v.com/gpu=0"], env={"VENDOR_VISIBLE": "all"})
    assert result.stdout == "3\nlibrary void\nreadonly\n"
    recorded = cdi.record.read_text()
    assert "args=create-symlinks --link libv.so.1::/usr/lib/libv.so\n" in recorded
    state = json.loads(re.search("state=(.*)", recorded)[1])
    assert state["bundle"] and state["status"]
    known = {f"env:{name}" for name in ("RECORD", "HOOK_TRUST_CONTAINER", "PATH", "PWD", "SHLVL", "_")}
    assert {line.split("=")[0] for line in recorded.splitlines() if line.startswith("env:")} <= known


def test_all_is_a_device_of_that_name_and_several_devices_can_be_given(user_cdi, image):
    user_cdi.add_vendor()
    listing = user_cdi.engine.output(image(user_cdi), "sh", "-c", "ls /dev/v*",
                                     options=["--device", "v.com/gpu=all", "--device", "v.com/gpu=0", "--device=/dev/null:/dev/vuser"])
    assert listing.split() == ["/dev/v0", "/dev/v1", "/dev/vctl", "/dev/vuser"]
    assert user_cdi.record.read_text().count("create-symlinks") == 1, "the edits of a file are applied once"


def test_nothing_is_read_where_no_cdi_device_is_asked_for(user_cdi, image):
    user_cdi.write("broken.json", "{")
    assert user_cdi.engine.run(image(user_cdi), "true").stderr == ""


def test_cdi_overrides_what_the_command_line_says(user_cdi, image):
    user_cdi.add("v.json", env=["A=cdi", "B=x=y"])
    script = "echo $A $B"
    assert user_cdi.engine.output(image(user_cdi), "sh", "-c", script, options=["--device=v.com/c=d", "-e", "A=user"]) == "cdi x=y"


def test_a_dry_run_names_the_device_as_the_reason(user_cdi, image):
    user_cdi.add_vendor()
    result = user_cdi.engine.run(image(user_cdi), "true", options=["--dry-run", "--device=v.com/gpu=0"])
    reason = f"v.com/gpu=0 ({user_cdi.directory}/vendor.yaml)"
    for line in ("/dev/v0 from /dev/zero", "/usr/lib64/libv.so.1 from ", "VENDOR_VISIBLE=void"):
        assert [text for text in result.stdout.splitlines() if line in text and reason in text], line + " in " + result.stdout
    assert not user_cdi.record.exists()


def test_a_later_directory_wins_and_equal_priority_is_a_conflict(user_cdi, image):
    user_cdi.add("low/v.json", env=["A=low"])
    user_cdi.add("high/v.json", env=["A=high"])
    low, high = user_cdi.directory / "low", user_cdi.directory / "high"
    user_cdi.directories(low, high, user_cdi.directory / "missing")

    def run():
        return user_cdi.engine.output(image(user_cdi), "sh", "-c", "echo $A", options=["--device=v.com/c=d"])

    assert run() == "high"
    user_cdi.directories(high, low)
    assert run() == "low"
    user_cdi.add("low/w.json", env=["A=other"])
    assert f"The CDI device 'v.com/c=d' is described twice: by {low}/v.json and {low}/w.json" in errors(user_cdi, image, "v.com/c=d")


def test_an_unknown_device_is_explained(user_cdi, image):
    user_cdi.add("v.json", env=["A=1"])
    text = errors(user_cdi, image, "v.com/c=7")
    assert text.splitlines()[:2] == ["Unknown CDI device 'v.com/c=7'", "The devices of v.com/c are: d"]
    user_cdi.write("broken.yaml", "cdiVersion: {0.5.0\n")
    text = errors(user_cdi, image, "w.com/c=d")
    assert text.startswith("The CDI device 'w.com/c=d' is not found, and a file of CDI devices cannot be used: "
                           f"{user_cdi.directory}/broken.yaml: line 2: a list or mapping in brackets does not end\n"), text
    assert user_cdi.engine.run(image(user_cdi), "true", options=["--device=v.com/c=d"]).stderr == "", "a broken file does not hinder the others"
    user_cdi.directories()
    assert "CDI devices are switched off at this site" in errors(user_cdi, image, "v.com/c=d")


HEADER = "cdiVersion: 0.5.0\nkind: v.com/c\ndevices:\n"


@pytest.mark.parametrize("text, device, expected", [
    ("- name: 1\n  containerEdits:\n    env: [A=number]\n", "1", "number"),
    ("- name: d\n  containerEdits:\n    env:\n    - >-\n      A=one\n      two\n", "d", "one two"),
    ("- name: d\n  containerEdits:\n    env:\n    - |\n      A=one\n       two\n", "d", "one\n two"),
    ("- name: d\n  containerEdits:\n    env:\n    - \"A=a\\tb\\u00e9\"\n    mounts:\n    hooks: ~\n", "d", "a\tb\u00e9"),
    ("- name: a\n  containerEdits:\n    env: &e [\"A=1\",\n      B=2]\n- name: d\n  containerEdits:\n    env: *e\n", "d", "1"),
    ("- name: !!str 1\n  containerEdits: {env: [\"A=tag\"]}\n...\n", "1", "tag"),
    ("- name: d\n  annotations: {yes: 1, uid: 2}\n  containerEdits:\n    env: [A=yes]\n    additionalGids: []\n", "d", "yes")])
@pytest.mark.parametrize("mark", ["", "\ufeff", "# made by a tool\n%YAML 1.1\n---\n"])
def test_forms_of_yaml_that_podman_reads(user_cdi, image, text, device, expected, mark):
    header = HEADER.replace("0.5.0", "0.7.0") if "additionalGids" in text else HEADER
    user_cdi.write("vendor.yaml", mark + header + text)
    assert user_cdi.engine.output(image(user_cdi), "sh", "-c", 'printf "%s" "$A"', options=[f"--device=v.com/c={device}"]) == expected


def test_a_name_that_is_neither_path_nor_cdi_device(user_cdi, image):
    text = errors(user_cdi, image, "v.com/c")
    assert "Invalid device request 'v.com/c': host device path 'v.com/c' must be absolute" in text
    assert "vendor.com/class=name" in text


@pytest.mark.parametrize("edits, message", [
    ({"intelRdt": {"closID": "x"}}, "asks for intelRdt, which is not supported"),
    ({"netDevices": [{"hostInterfaceName": "lo", "name": "lo"}]}, "asks for network devices, which is not supported"),
    ({"mounts": [{"hostPath": "tmpfs", "containerPath": "/x", "type": "tmpfs"}]}, "asks for a mount of type 'tmpfs' on /x"),
    ({"mounts": [{"hostPath": "/etc", "containerPath": "/x", "options": ["idmap"]}]}, "asks for the mount option 'idmap'"),
    ({"mounts": [{"hostPath": "/etc", "containerPath": "/proc/x"}]}, "destination cannot be a subdirectory of '/proc'"),
    ({"mounts": [{"hostPath": "/nowhere", "containerPath": "/x"}]}, "Failed to bind mount /nowhere on container's /x for v.com/c=d"),
    ({"deviceNodes": [{"path": "/dev/nowhere"}]}, "\"/dev/nowhere\" is a device file. Stat failed: No such file or directory"),
    ({"deviceNodes": [{"path": "/dev/x", "hostPath": "/dev/null", "type": "b"}]}, "\"/dev/null\" is not a device of type 'b'"),
    ({"deviceNodes": [{"path": "/dev/x", "hostPath": "/etc/passwd"}]}, "\"/etc/passwd\" is not a device file"),
    ({"hooks": [{"hookName": "createRuntime", "path": "/nowhere/hook"}]}, "The hook 'v.com/c=d' cannot be run: /nowhere/hook"),
])
def test_what_cannot_be_done_is_said(user_cdi, image, edits, message):
    path = user_cdi.add("v.json", **edits)
    text = errors(user_cdi, image, "v.com/c=d")
    assert message in text
    assert str(path) in text or "hook" in message


def test_only_root_gives_devices_away(setuid_cdi, image, user):
    path = setuid_cdi.add("v.json", env=["A=1"])
    elsewhere = user.home / "v.json"

    def refused(reason):
        assert reason in errors(setuid_cdi, image, "v.com/c=d")

    os.chown(path, user.uid, user.gid)
    refused(f'Path "{path}" must be owned by root')
    os.chown(path, 0, 0)
    path.chmod(0o664)
    refused(f'Path "{path}" cannot be group- or world-writable')
    path.chmod(0o644)
    path.rename(elsewhere)
    path.symlink_to(elsewhere)  # a file of root's, but in a directory of the user's
    refused(f'Path "{user.home}" must be owned by root')
    path.unlink()
    elsewhere.rename(path)
    os.chown(setuid_cdi.directory, user.uid, user.gid)
    refused(f'Path "{setuid_cdi.directory}" must be owned by root')
    os.chown(setuid_cdi.directory, 0, 0)
    installation.set_configuration(setuid_cdi.engine.prefix, securityChecks=False)
    try:
        os.chown(path, user.uid, user.gid)
        refused(f'Path "{path}" must be owned by root')
    finally:
        installation.set_configuration(setuid_cdi.engine.prefix, securityChecks=True)


def test_a_hook_that_the_user_can_change_does_not_run(setuid_cdi, image, user):
    hook = setuid_cdi.write("recorder", RECORDER, 0o755)
    os.chown(hook, user.uid, user.gid)
    setuid_cdi.add("v.json", hooks=[{"hookName": "createRuntime", "path": str(hook), "env": [f"RECORD={setuid_cdi.record}"]}])
    assert f'Path "{hook}" must be owned by root' in errors(setuid_cdi, image, "v.com/c=d")
    assert not setuid_cdi.record.exists()


def test_without_privileges_the_users_own_directory_counts_too(user_cdi, image, user):
    own = user.home / ".config" / "cdi"
    created = [d for d in (own.parent, own) if not d.exists()]
    own.mkdir(parents=True, exist_ok=True)
    file = own / "v.json"
    file.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": "v.com/c", "devices": [{"name": "d", "containerEdits": {"env": ["A=own"]}}]}))
    for path in (own.parent, own, file):
        os.chown(path, user.uid, user.gid)
    try:
        if user_cdi.engine.rootless:
            assert user_cdi.engine.output(image(user_cdi), "sh", "-c", "echo $A", options=["--device=v.com/c=d"]) == "own"
        else:
            assert "Unknown CDI device" in errors(user_cdi, image, "v.com/c=d")
    finally:
        file.unlink()
        for directory in reversed(created):
            directory.rmdir()


def test_sources_are_looked_up_with_the_users_rights(setuid_cdi, image, user, closed):
    """Generated files name paths below /tmp: what a user puts there must not lead to what only root may see."""
    link = user.home / "link"
    link.symlink_to(closed / "exists")
    try:
        setuid_cdi.add("v.json", mounts=[{"hostPath": str(link), "containerPath": "/x"}])
        assert "Permission denied" in errors(setuid_cdi, image, "v.com/c=d")
    finally:
        link.unlink()


def test_a_mount_of_the_user_inside_of_one_of_the_device_stays_visible(user_cdi, image, user):
    for name in ("outer/inner", "mine"):
        (user.home / name).mkdir(parents=True)
    (user.home / "mine" / "file").write_text("x")
    try:
        user_cdi.add("v.json", mounts=[{"hostPath": str(user.home / "outer"), "containerPath": "/x"}])
        options = [f"--mount=type=bind,source={user.home}/mine,destination=/x/inner", "--device=v.com/c=d"]
        assert user_cdi.engine.output(image(user_cdi), "ls", "/x/inner", options=options) == "file"
    finally:
        (user.home / "mine" / "file").unlink()
        for name in ("outer/inner", "outer", "mine"):
            (user.home / name).rmdir()


def test_options_of_mounts_are_kept(user_cdi, image):
    user_cdi.add("v.json", mounts=[{"hostPath": "/usr", "containerPath": "/x", "options": ["ro", "nodev", "noexec", "rbind"]},
                                   {"hostPath": "/usr", "containerPath": "/y"}])
    script = "while read -r _ path _ flags _; do case $path in /x|/y) echo $path $flags;; esac; done < /proc/self/mounts"
    flags = dict(line.split() for line in user_cdi.engine.output(image(user_cdi), "sh", "-c", script, options=["--device=v.com/c=d"]).splitlines())
    assert {"ro", "nosuid", "nodev", "noexec"} <= set(flags["/x"].split(","))
    assert "noexec" not in flags["/y"] and "nosuid" in flags["/y"] and "rw" in flags["/y"].split(",")


def test_owner_and_mode_of_the_file_where_there_are_privileges(cdi, image):
    """/dev/fuse here stands for a device of which the administrator gives a copy away."""
    host = os.stat("/dev/fuse")
    node = {"path": "/dev/given/v0", "hostPath": "/dev/fuse", "type": "c", "major": os.major(host.st_rdev), "minor": os.minor(host.st_rdev),
            "fileMode": 0o606, "uid": 0, "gid": 0}
    cdi.add("v.json", deviceNodes=[node])
    shown = cdi.engine.output(image(cdi), "stat", "-c", "%a %u %t:%T", "/dev/given/v0", options=["--device=v.com/c=d"])
    numbers = f"{os.major(host.st_rdev):x}:{os.minor(host.st_rdev):x}"
    if cdi.engine.rootless:
        own = {("--fuse",): 0o666, ("--closed-fuse",): 0o600}.get(cdi.engine.sandbox, stat.S_IMODE(host.st_mode))
        assert shown == f"{own:o} 65534 {numbers}"
    else:
        assert shown == f"606 0 {numbers}"
        # Allowed by the mode and by the rule for the device: EPERM comes from reading before a mount, not from opening.
        assert cdi.engine.output(image(cdi), "sh", "-c", "exec 3<>/dev/given/v0 && echo opened", options=["--device=v.com/c=d"]) == "opened"
        assert cdi.engine.output(image(cdi), "sh", "-c", "ls -a /dev | grep -c sarus-node; true", options=["--device=v.com/c=d"]) == "0"


def test_numbers_that_are_not_the_hosts(cdi, image):
    cdi.add("v.json", deviceNodes=[{"path": "/dev/v0", "hostPath": "/dev/zero", "type": "c", "major": 1, "minor": 3}])
    if cdi.engine.rootless:
        assert "the numbers of \"/dev/zero\" are not those of its CDI file" in errors(cdi, image, "v.com/c=d")
    else:
        assert cdi.engine.output(image(cdi), "stat", "-c", "%t:%T", "/dev/v0", options=["--device=v.com/c=d"]) == "1:3"


def test_an_owner_for_a_node_outside_of_dev_needs_its_numbers(setuid_cdi, image, user):
    (user.home / "node").symlink_to("/dev/fuse")
    other_mode = stat.S_IMODE(os.stat("/dev/fuse").st_mode) ^ 0o060
    try:
        setuid_cdi.add("v.json", deviceNodes=[{"path": "/dev/v0", "hostPath": str(user.home / "node"), "fileMode": other_mode}])
        assert "is no node of its own in /dev" in errors(setuid_cdi, image, "v.com/c=d")
    finally:
        (user.home / "node").unlink()


def test_a_fifo_is_made_anew(user_cdi, image):
    user_cdi.add("v.json", deviceNodes=[{"path": "/run/v.fifo", "type": "p", "fileMode": 0o600}])
    assert user_cdi.engine.output(image(user_cdi), "stat", "-c", "%F %a", "/run/v.fifo", options=["--device=v.com/c=d"]) == "fifo 600"


def test_permissions_become_rules_of_the_device_cgroup(setuid_cdi, image):
    node = {"path": "/dev/v0", "hostPath": "/dev/loop-control", "type": "c", "major": 10, "minor": 237, "fileMode": 0o666}
    script = "(exec 3</dev/v0) 2>/dev/null && echo read; (exec 3<>/dev/v0) 2>/dev/null && echo write; true"
    for permissions, expected in (("rw", ["read", "write"]), ("r", ["read"]), ("none", [])):
        setuid_cdi.add("v.json", deviceNodes=[{**node, "permissions": permissions}, {"path": "/dev/v1", "hostPath": "/dev/fuse"}])
        assert setuid_cdi.engine.output(image(setuid_cdi), "sh", "-c", script, options=["--device=v.com/c=d"]).split() == expected


def test_additional_groups(user_cdi, image):
    user_cdi.add("v.json", additionalGids=[0, 4242])
    result = user_cdi.engine.run(image(user_cdi), "id", "-G", options=["--device=v.com/c=d"])
    groups = result.stdout.split()
    assert "0" not in groups or user_cdi.engine.rootless
    if user_cdi.engine.rootless:
        assert "4242" not in groups
        assert "wants the group 4242, but you are not a member" in result.stderr
    else:
        assert "4242" in groups


def test_gpus_are_chosen_by_their_number_in_the_job(user_cdi, image):
    """As `docker run --gpus` does; a job that was given GPUs has all of them or says so."""
    common = [{"path": "/dev/vctl", "hostPath": "/dev/null"}]
    nodes = {str(i): [{"path": f"/dev/vgpu{i}", "hostPath": "/dev/zero"}] for i in range(3)}
    devices = [{"name": name, "containerEdits": {"deviceNodes": node}} for name, node in nodes.items()]
    devices.append({"name": "all", "containerEdits": {"deviceNodes": sum(nodes.values(), [])}})
    user_cdi.write("nvidia.json", json.dumps({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "containerEdits": {"deviceNodes": common},
                                              "devices": devices}))

    def seen(value, **variables):
        listing = user_cdi.engine.output(image(user_cdi), "sh", "-c", "ls /dev/vgpu*", options=["--gpus", value], env=variables)
        return [path.removeprefix("/dev/vgpu") for path in listing.split()]

    assert seen("1") == ["0"] and seen("2") == ["0", "1"] and seen("all") == ["0", "1", "2"]
    assert seen("device=1,2") == ["1", "2"]
    assert seen("2", CUDA_VISIBLE_DEVICES="0,1") == ["0", "1", "2"], "the job's limits choose among them"
    result = user_cdi.engine.run(image(user_cdi), "true", options=["--gpus", "1"], env={"CUDA_VISIBLE_DEVICES": "0,1"}, check=False)
    assert result.returncode == 1 and "CUDA_VISIBLE_DEVICES names 2 GPUs" in result.stderr
