"""The seccomp profile that comes with the installation, in containers of both OCI runtimes."""

import json
import pathlib

import pytest
from helpers import installation
from helpers.compiler import compile_program

SOURCE = pathlib.Path(__file__).parent / "programs" / "system_calls.c"


@pytest.fixture(scope="module")
def program(workspace):
    return compile_program(workspace / "system_calls", SOURCE.read_text(), ["-static"])


@pytest.fixture(scope="module", params=["setuid-crun", "setuid-runc", "rootless-crun", "rootless-runc"])
def filtered(request, make_setuid_prefix, make_rootless_prefix, user):
    mode, runtime = request.param.split("-")
    make = make_setuid_prefix if mode == "setuid" else make_rootless_prefix
    prefix = make(f"seccomp-{request.param}", runtime)
    installation.set_configuration(prefix, seccompProfile=f"{prefix}/etc/seccomp/{'default' if mode == 'setuid' else 'rootless'}.json")
    return installation.Engine(prefix, user, mode, runtime)


@pytest.fixture
def image(filtered, load_image, images, program):
    return load_image(filtered, "system-calls", images.busybox(extra=lambda layer: layer.file("calls", program.read_bytes(), mode=0o755)))


def results(engine, image):
    return dict(line.split(": ", 1) for line in engine.output(image, "/calls").splitlines())


def test_blocked_calls_fail_with_no_permission(filtered, image):
    found = results(filtered, image)
    blocked = ["mount", "umount2", "pivot_root", "chroot", "setns", "bpf", "init_module", "kexec_load", "reboot", "swapon", "open_by_handle_at",
               "userfaultfd", "unshare new mounts", "unshare new network", "clone new user", "socket vsock", "syslog"]
    assert {name: found[name] for name in blocked} == dict.fromkeys(blocked, "Operation not permitted")
    assert found["unshare new user"] == ("Operation not permitted" if filtered.mode == "setuid" else "works")
    assert found["Seccomp"] == "2"


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_the_profile_for_privileges_starts_rootless_containers_or_names_the_other(make_rootless_prefix, user, load_image, images, program, runtime):
    """runc without privileges needs a call that this profile refuses."""
    prefix = make_rootless_prefix(f"seccomp-strict-{runtime}", runtime)
    installation.set_configuration(prefix, seccompProfile=f"{prefix}/etc/seccomp/default.json")
    engine = installation.Engine(prefix, user, "rootless", runtime)
    image = load_image(engine, "system-calls", images.busybox(extra=lambda layer: layer.file("calls", program.read_bytes(), mode=0o755)))
    if runtime == "crun":
        assert results(engine, image)["unshare new user"] == "Operation not permitted"
        return
    result = engine.run(image, "true", check=False)
    assert result.returncode == 1
    assert result.stderr.splitlines()[0] == ("sarus-enter: Failed to create a user namespace: Operation not permitted. The seccomp profile must allow it "
                                             "(use etc/seccomp/rootless.json)")


def test_calls_that_libraries_can_do_without_look_absent(filtered, image):
    found = results(filtered, image)
    absent = ["clone3", "io_uring_setup", "a call of the future"]
    assert {name: found[name] for name in absent} == dict.fromkeys(absent, "Function not implemented")


def test_what_parallel_programs_need_works(filtered, image):
    found = results(filtered, image)
    needed = ["process_vm_readv", "get_mempolicy", "set_mempolicy", "sched_setaffinity", "keyctl", "personality", "threads", "shmget",
              "memfd_create", "unshare files", "socket inet"]
    assert {name: found[name] for name in needed} == dict.fromkeys(needed, "works")
    assert filtered.output(image, "sh", "-c", "(echo sub) | cat; ls / > /dev/null; sleep 0 & wait; id -u") == f"sub\n{filtered.user.uid}"


@pytest.mark.asroot
def test_there_is_no_filter_without_the_key(engines, load_image, images, program):
    engine = engines("setuid", "crun")
    image = load_image(engine, "system-calls", images.busybox(extra=lambda layer: layer.file("calls", program.read_bytes(), mode=0o755)))
    found = results(engine, image)
    for name in ("clone3", "bpf", "chroot"):  # the filter for standard streams lets them pass
        assert found[name] not in ("Function not implemented", "Operation not permitted"), found


@pytest.mark.parametrize("name", ["default.json", "rootless.json"])
def test_each_call_is_named_once(installed, name):
    profile = json.loads((installed / "etc" / "seccomp" / name).read_text())
    names = [name for rule in profile["syscalls"] if "args" not in rule for name in rule["names"]]
    assert len(names) == len(set(names)) and len(names) > 300


@pytest.mark.parametrize("text, message", [("{", "seccomp"), ('{"defaultAction": 1}', "")])
def test_damaged_profile_is_an_error(make_setuid_prefix, user, load_image, plain_busybox, text, message):
    prefix = make_setuid_prefix(f"seccomp-damaged-{len(text)}")
    profile = prefix / "etc" / "seccomp" / "default.json"
    profile.write_text(text)
    installation.set_configuration(prefix, seccompProfile=str(profile))
    engine = installation.Engine(prefix, user, "setuid", "crun")
    result = engine.run(load_image(engine, "busybox", plain_busybox), "echo", "started", check=False)
    assert result.returncode == 1 and result.stdout == "" and message in result.stderr
