"""Memory file systems of users (--tmpfs): where and with which options an unprivileged user may try to mount one."""

import os

import pytest

FORMS = {"tmpfs": "--tmpfs={}", "mount": "--mount=type=tmpfs,dst={}"}


@pytest.fixture
def busybox(user_engine, load_image, plain_busybox):
    return load_image(user_engine, "busybox", plain_busybox)


def failed(result, *words):
    assert 0 < result.returncode <= 127 and result.stdout == "", result
    for word in words:
        assert word in result.stderr


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("destination", ["/", "/dev", "/dev/../dev", "//proc", "/proc/self", "/sys", "/etc/..", "/proc/sys/kernel", "/dev/null",
                                         "/dev/pts", "/dev/fd", "/dev/x/../zero", "/dev/ptmx/below", "relative"])
def test_destinations_of_the_engine(user_engine, busybox, form, destination):
    failed(user_engine.run(busybox, "true", options=[FORMS[form].format(destination)], check=False))


@pytest.mark.parametrize("options", [":mode=4777", ":uid=0", ":size=1m:uid=0", ":size=1m,uid=0", ":size=-1", ":size=0", ":size=1%", ":size=1e9",
                                     ":size=99999999999999999999", ":size=17179869184g", ":size=1m\\,dev", ":huge=always", ":dev", ":exec,suid"])
def test_no_other_mount_options_get_in(user_engine, busybox, options):
    failed(user_engine.run(busybox, "true", options=[f"--tmpfs=/scratch{options}"], check=False))
    option = options.replace(":", ",")
    failed(user_engine.run(busybox, "true", options=[f"--mount=type=tmpfs,dst=/scratch{option}"], check=False))


def test_it_belongs_to_the_user_without_devices_and_set_id_bits(user_engine, busybox):
    script = "grep ' /scratch ' /proc/self/mountinfo; stat -c '%u %g %a' /scratch; touch /scratch/x && mknod /scratch/d c 1 3 2>&1"
    lines = user_engine.run(busybox, "sh", "-c", script, options=["--tmpfs=/scratch:size=1m"], check=False).stdout.splitlines()
    assert {"nosuid", "nodev"} <= set(lines[0].split()[5].split(","))
    assert lines[1] == f"{user_engine.user.uid} {user_engine.user.gid} 755"
    assert "Operation not permitted" in lines[2]


def test_links_of_an_image_do_not_lead_out(user_engine, load_image, images):
    def links(layer):
        layer.symlink("to-dev", "/dev")
        layer.symlink("to-proc", "/proc/self")
        layer.symlink("up", "../../../../tmp/above")

    image = load_image(user_engine, "tmpfs-links", images.busybox(extra=links))
    for name in ("to-dev", "to-proc"):
        failed(user_engine.run(image, "true", options=[f"--tmpfs=/{name}"], check=False))
    assert user_engine.output(image, "grep", "-c", " /tmp/above ", "/proc/self/mountinfo", options=["--tmpfs=/up"]) == "1"
    assert not os.path.exists("/tmp/above")


@pytest.mark.asroot
def test_directories_that_only_root_may_search(setuid_engine, load_image, plain_busybox, opt):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    closed = opt / "closed-tmpfs"
    (closed / "exists").mkdir(parents=True)
    closed.chmod(0o700)
    messages = set()
    for name in ("exists", "missing"):
        place = f"/h/closed-tmpfs/{name}"
        result = setuid_engine.run(image, "true", options=[f"--mount=type=bind,src={opt},dst=/h", f"--tmpfs={place}"], check=False)
        failed(result)
        messages.add(result.stderr.replace(place, "PLACE"))
    assert len(messages) == 1
    assert not (closed / "missing").exists()


@pytest.mark.asroot
def test_the_rules_of_the_site_hold(make_setuid_prefix, setuid_engine, load_image, images):
    rules = {"notAllowedPrefixesOfPath": ["/etc"], "notAllowedPaths": ["/opt"]}
    engine = setuid_engine.variant(prefix=make_setuid_prefix("tmpfs-rules", userMounts=rules))
    image = load_image(engine, "tmpfs-rules", images.busybox(extra=lambda layer: layer.symlink("to-etc", "/etc")))
    for place in ("/etc", "/etc/below", "/opt", "//etc", "/to-etc"):
        failed(engine.run(image, "true", options=[f"--tmpfs={place}"], check=False), "not")
