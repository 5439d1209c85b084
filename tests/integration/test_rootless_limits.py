"""The table "What needs privileges" of the administrator's guide, row by row, and mounts which root itself may not read."""

import os
import subprocess

import pytest

pytestmark = pytest.mark.asroot


@pytest.fixture(params=["crun", "runc"])
def both(request, engines, load_image, plain_busybox):
    """(set-user-ID engine, rootless engine, image) with one runtime."""
    privileged, rootless = engines("setuid", request.param), engines("rootless", request.param).variant(sandbox=("--fuse",))
    return privileged, rootless, load_image(privileged, "busybox", plain_busybox)


@pytest.fixture(scope="module")
def secret(opt):
    """A folder which root alone can enter."""
    directory = opt / "roots-alone"
    directory.mkdir(mode=0o700)
    (directory / "data").mkdir()
    (directory / "data" / "file").write_text("for containers")
    return directory / "data"


def test_image_is_mounted_by_the_kernel_or_through_fuse(both):
    for engine, expected in zip(both[:2], ("squashfs", "fuse.sarus-squashfs")):
        process = engine.start("run", both[2], "sh", "-c", "echo ready; read line")
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        with open(f"/proc/{process.pid}/mountinfo") as mounts:
            types = [line.split(" - ")[1].split()[0] for line in mounts if line.split()[4].endswith("/rootfs-lower")]
        process.communicate("\n", timeout=300)
        assert types == [expected]


def test_site_mounts_of_sources_for_root_alone(both, make_setuid_prefix, make_rootless_prefix, secret):
    privileged, rootless, image = both
    mount = [{"type": "bind", "source": str(secret), "destination": "/data"}]
    site = privileged.variant(prefix=make_setuid_prefix(f"site-mount-{privileged.runtime}", privileged.runtime, siteMounts=mount))
    assert site.output(image, "cat", "/data/file") == "for containers"
    own = rootless.variant(prefix=make_rootless_prefix(f"site-mount-{privileged.runtime}", privileged.runtime, siteMounts=mount))
    result = own.run(image, "cat", "/data/file", check=False)
    assert result.returncode == 1 and f"Failed to bind mount {secret} on container's /data" in result.stderr and "Permission denied" in result.stderr


def test_supplementary_groups_have_their_numbers(both):
    privileged, rootless, image = both
    groups = {str(gid) for gid in privileged.user.groups}
    assert set(privileged.output(image, "id", "-G").split()) == groups
    assert set(rootless.output(image, "id", "-G").split()) <= {str(privileged.user.gid), "65534"}


def test_bundle_and_state_lie_where_the_user_cannot_write(both):
    privileged, rootless, image = both
    for engine, owner in ((privileged, 0), (rootless, rootless.user.uid)):
        process = engine.start("run", "--name", f"state-{engine.mode}", image, "sh", "-c", "echo ready; read line")
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        row = engine.sarus("ps").stdout.splitlines()[1].split()
        process.communicate("\n", timeout=300)
        bundle = next(word for word in row if word.startswith("/"))
        assert os.stat(bundle).st_uid == owner


def test_what_needs_no_privileges_works_the_same(both, workspace):
    """Identity, files, devices of the node, namespaces, hooks' absence: the same lines of output."""
    script = "id -u; id -g; id -un; umask; cat /etc/hosts | wc -l; echo $HOME; test -w /dev/null && echo null; cat /mnt/shared; grep NoNewPrivs /proc/self/status; " \
             "grep Cap /proc/self/status | grep -v CapBnd; test -c /dev/device && echo device; pwd"
    (workspace / "shared").write_text("shared\n")
    options = [f"--mount=type=bind,src={workspace}/shared,dst=/mnt/shared", "--device=/dev/zero:/dev/device", "--workdir=/tmp/made"]
    first, second = (engine.output(both[2], "sh", "-c", script, options=options) for engine in both[:2])
    assert first == second and first.splitlines()[-1] == "/tmp/made"


# Sources which root may not read


@pytest.fixture
def fuse_mounted(engines, load_image, plain_busybox, home_base):
    """run(engine, *arguments): `sarus ARGUMENTS` beside a FUSE filesystem that the user has mounted, without allow_root, on ~/fuse."""
    engine = engines("setuid", "crun")
    load_image(engine, "busybox", plain_busybox)
    point = engine.user.home / "fuse"
    point.mkdir()
    os.chown(point, engine.user.uid, engine.user.gid)
    image = engine.user.home / ".sarus/images/load/library/busybox/latest.squashfs"
    script = f"""squashfuse {image} {point} || exit 9
grep ' {point} ' /proc/self/mountinfo | grep -v -e allow_root -e allow_other >/dev/null || exit 8
"$@"; status=$?
fusermount3 -u {point}; exit $status"""

    def run(used, *arguments):
        argv, identity = used.variant(sandbox=("--fuse",)).command(*arguments)
        end = argv.index(used.program)
        return subprocess.run([*argv[:end], "sh", "-c", script, "sh", *argv[end:]], env=used.user.environment(), cwd=used.user.home,
                              capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, **identity)

    yield engine, point, run
    point.rmdir()


def test_fuse_mount_of_the_user_without_allow_root(fuse_mounted):
    engine, point, run = fuse_mounted
    result = run(engine, "run", f"--mount=type=bind,src={point},dst=/mnt", "load/library/busybox", "sh", "-c", "ls /mnt/bin/busybox")
    assert (result.returncode, result.stdout) == (0, "/mnt/bin/busybox\n"), result.stderr


def test_fuse_mount_of_the_user_as_a_site_mount(fuse_mounted, make_setuid_prefix):
    engine, point, run = fuse_mounted
    prefix = make_setuid_prefix("site-fuse", siteMounts=[{"type": "bind", "source": str(point), "destination": "/data"}])
    result = run(engine.variant(prefix=prefix), "run", "load/library/busybox", "ls", "/data/bin/busybox")
    assert (result.returncode, result.stdout) == (0, "/data/bin/busybox\n"), result.stderr


def test_a_directory_that_another_user_has_occupied_stops_nobody(engines, load_image, plain_busybox, temp_dir, user, other_user):
    engine = engines("rootless", "crun").variant(sandbox=("--fuse",))
    image = load_image(engine, "busybox", plain_busybox)
    taken = temp_dir / f"sarus-{user.uid}"
    aside = temp_dir / "aside"
    if taken.exists():
        taken.rename(aside)
    session = user.home / "session"
    session.mkdir(mode=0o700)
    os.chown(session, user.uid, user.gid)
    try:
        for make in (taken.mkdir, taken.touch):
            make()
            os.chown(taken, other_user.uid, other_user.gid)
            assert engine.output(image, "echo", "works") == "works"
            assert engine.output(image, "echo", "works", env={"XDG_RUNTIME_DIR": str(session)}) == "works"
            taken.rmdir() if taken.is_dir() else taken.unlink()
    finally:
        if aside.exists():
            aside.rename(taken)


# Nodes without FUSE


@pytest.fixture(params=["crun", "runc"])
def without_fuse(request, engines):
    return engines("rootless", request.param).variant(sandbox=("--no-fuse",))


def test_without_fuse_an_image_is_unpacked_once_and_freed_by_prune(without_fuse, images, temp_dir):
    """Told at the first start alone: later ones are as quick as with FUSE, and nothing is wrong with them."""
    engine = without_fuse
    name = f"unpacked-{engine.runtime}"
    image = engine.load(images.archive(images.busybox(extra=lambda layer: layer.file("etc/which", name)), name), name)
    cache = temp_dir / f"sarus-{engine.user.uid}" / "unpacked"
    engine.sarus("prune")
    first, second = (engine.run(image, "cat", "/etc/which") for _ in range(2))
    assert (first.stdout, second.stdout) == (name, name)
    warnings = first.stderr.splitlines()
    assert len(warnings) == 1 and warnings[0].endswith(
        f"[Rootfs] [WARN] FUSE cannot be used on this node: unpacking the image into {cache}, once"), first.stderr
    assert second.stderr == ""
    copy = [path for path in cache.iterdir() if path.is_dir()]
    assert [(path / "etc/which").read_text() for path in copy] == [name]

    process = engine.start("run", image, "sh", "-c", "echo ready; read line; cat /etc/which")
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    engine.sarus("prune")
    assert process.communicate("go on\n", timeout=300)[0] == name, "a copy in use is kept"
    pruned = engine.sarus("prune")
    assert pruned.returncode == 0 and "unpacked" in pruned.stdout, pruned.stderr
    assert list(cache.iterdir()) == []
    assert "unpacking the image" in engine.run(image, "true").stderr
