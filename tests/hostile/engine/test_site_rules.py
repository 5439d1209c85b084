"""The rules of a site for images and containers (docs/admin/audit_and_policy.md), and users who would rather have none."""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import socket
import subprocess
import threading

import pytest
from helpers.installation import set_configuration
from launch_request import exec_request, memory_file, request, start

pytestmark = pytest.mark.asroot
KEYS = ("imagePolicy", "containerLimits", "allowMount", "allowDevice", "allowExec", "privilegedGroups", "imageMount", "enablePMIxv3Support")
ASK = "in sarus.json): ask its administrators"


@pytest.fixture(scope="module")
def prefix(make_setuid_prefix):
    return make_setuid_prefix("site-rules")


@pytest.fixture
def engine(setuid_engine, prefix):
    yield setuid_engine.variant(prefix=prefix)
    set_configuration(prefix, **dict.fromkeys(KEYS))


@pytest.fixture(scope="module")
def stored(images, prefix, root, plain_busybox, engines):
    """(an image of root's in the central repository, its file, its digest)"""
    admin = engines("setuid", "crun").variant(prefix=prefix, user=root)
    result = admin.sarus("load", "--centralized-repository", images.archive(plain_busybox, "site"), "site", timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    file = next((prefix / "var/centralized").rglob("site/latest.squashfs"))
    digest = re.search("fsverity-sha256:[0-9a-f]{64}", admin.sarus("inspect", "--centralized-repository", "--json", "load/library/site").stdout)[0]
    return "load/library/site", file, digest


@pytest.fixture
def place(opt, engine):
    """A directory of root's for image files."""
    folder = opt / "site-images"
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


def rules(engine, **keys):
    set_configuration(engine.prefix, **keys)


def run(engine, image, *options):
    return engine.run(image, "echo", "ran", options=options, check=False)


def ran(result):
    assert (result.returncode, result.stdout) == (0, "ran\n"), result
    return True


def refused(result, *words):
    assert result.returncode == 1 and "ran" not in result.stdout, result
    assert len(result.stderr.strip().splitlines()) == 1 and ASK in result.stderr, result.stderr
    for word in words:
        assert word in result.stderr
    return True


@contextlib.contextmanager
def opened(path):
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def launch(engine, descriptor, **fields):
    """As a front end that knows no rules."""
    channel = memory_file(request(descriptor, command=["echo", "ran"], **fields))
    try:
        return start(engine, [channel], {channel, descriptor})
    finally:
        os.close(channel)


def copy(engine, source, target, owner=None):
    shutil.copyfile(source, target)
    target.chmod(0o644)
    if owner is not None:
        owner.own(target)
    return target


def test_owner_of_the_image(engine, stored, place):
    theirs = copy(engine, stored[1], place / "root.squashfs")
    own = copy(engine, stored[1], engine.user.home / "own.squashfs", engine.user)
    rules(engine, imagePolicy={"owners": ["root", "nobody-knows-this-name"]})
    ran(run(engine, theirs))
    refused(run(engine, own), "images of the user", "imagePolicy.owners")
    theirs.chmod(0o664)
    refused(run(engine, theirs), "may write to")
    rules(engine, imagePolicy={"owners": [str(engine.user.uid)]})
    ran(run(engine, own))


def test_group_of_the_image(engine, stored, place):
    theirs = copy(engine, stored[1], place / "group.squashfs")
    rules(engine, imagePolicy={"groups": [str(engine.user.gid)]})
    refused(run(engine, theirs), "imagePolicy.groups")
    os.chown(theirs, 0, engine.user.gid)
    ran(run(engine, theirs))


def test_directory_of_the_image(engine, stored, place):
    theirs = copy(engine, stored[1], place / "in.squashfs")
    link = engine.user.home / "link.squashfs"
    link.symlink_to(theirs)
    outside = copy(engine, stored[1], engine.user.home / "out.squashfs", engine.user)
    rules(engine, imagePolicy={"paths": [str(place)]})
    ran(run(engine, theirs))
    ran(run(engine, link))
    refused(run(engine, outside), "imagePolicy.paths")
    rules(engine, imagePolicy={"paths": [str(place)[:-1]]})
    refused(run(engine, theirs), "imagePolicy.paths")
    link.unlink()


def test_an_image_that_was_removed_stays_removed(engine, stored, place):
    theirs = copy(engine, stored[1], place / "gone.squashfs")
    rules(engine, imagePolicy={"paths": [str(place)]})
    with opened(theirs) as descriptor:
        ran(launch(engine, descriptor))
        theirs.unlink()
        refused(launch(engine, descriptor), "imagePolicy.paths")
        copy(engine, stored[1], place / "gone.squashfs")
        refused(launch(engine, descriptor), "imagePolicy.paths")


FROM_ANOTHER_NAMESPACE = """
import array, os, socket, subprocess, sys
sock, folder, own = int(sys.argv[1]), sys.argv[2], sys.argv[3]
subprocess.run(["mount", "--bind", own, folder], check=True)
descriptor = os.open(folder + "/image.squashfs", os.O_RDONLY)
socket.socket(fileno=sock).sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))])
"""


def test_a_path_of_another_mount_namespace_is_none(engine, stored, place):
    copy(engine, stored[1], place / "image.squashfs")
    own = engine.user.home / "own-images"
    own.mkdir()
    engine.user.own(own)
    copy(engine, stored[1], own / "image.squashfs", engine.user)
    ours, its = socket.socketpair()
    subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "python3", "-c", FROM_ANOTHER_NAMESPACE, str(its.fileno()), place, own],
                   check=True, pass_fds=(its.fileno(),), timeout=300, **engine.user.identity())
    _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    rules(engine, imagePolicy={"paths": [str(place)]})
    refused(launch(engine, descriptors[0]), "another mount namespace")
    os.close(descriptors[0])


def test_digests_that_the_site_lists(engine, stored, place):
    listed = place / "digests"
    listed.write_text(f"# images of this site\n#{stored[2]}\nfsverity-sha256:{'0' * 64} other\n")
    theirs = copy(engine, stored[1], place / "image.squashfs")
    rules(engine, imagePolicy={"digestsFile": str(listed)})
    refused(run(engine, theirs), stored[2], "imagePolicy.digestsFile")
    listed.write_text(f"{stored[2]} busybox\n")
    ran(run(engine, theirs))
    ran(run(engine, theirs))
    data = bytearray(theirs.read_bytes())
    data[-1] ^= 1
    with open(theirs, "r+b") as file:  # in place: the remembered digest must not count
        file.write(data)
    refused(run(engine, theirs), "imagePolicy.digestsFile")


def test_what_its_owner_could_change_has_no_digest(engine, stored, place):
    """Between the check and the end of the container."""
    listed = place / "digests"
    listed.write_text(f"{stored[2]}\n")
    rules(engine, imagePolicy={"digestsFile": str(listed)})
    own = copy(engine, stored[1], engine.user.home / "same.squashfs", engine.user)
    refused(run(engine, own), "somebody could change")
    folder = engine.user.home / "with-a-file-of-roots"
    folder.mkdir()
    engine.user.own(folder)
    refused(run(engine, copy(engine, stored[1], folder / "image.squashfs")), "somebody could change")


def test_the_list_of_digests_is_roots(engine, stored, place):
    listed = place / "digests"
    rules(engine, imagePolicy={"digestsFile": str(listed)})
    image = copy(engine, stored[1], place / "image.squashfs")
    missing = run(engine, image)
    assert missing.returncode == 1 and "is missing" in missing.stderr
    listed.write_text(f"{stored[2]}\n")
    listed.chmod(0o666)
    result = run(engine, image)
    assert result.returncode == 1 and "ran" not in result.stdout and str(listed) in result.stderr


def test_images_are_verified_before_they_run(engine, stored, place):
    reference, file, digest = stored
    rules(engine, imagePolicy={"verify": True})
    ran(run(engine, reference, "--centralized-repository"))
    with opened(file) as descriptor:
        ran(launch(engine, descriptor, digest=digest))
        refused(launch(engine, descriptor, digest="fsverity-sha256:" + "0" * 64), "not as it was made")
        refused(launch(engine, descriptor), "without a recorded digest")
    data = file.read_bytes()
    try:
        with open(file, "r+b") as damaged:
            damaged.seek(len(data) // 2)
            damaged.write(bytes([data[len(data) // 2] ^ 1]))
        refused(run(engine, reference, "--centralized-repository"), "not as it was made")
    finally:
        file.write_bytes(data)


@pytest.mark.parametrize("policy", [{"owners": ["root", "{uid}"]}, {"paths": ["/"]}, {"verify": True}], ids=lambda policy: next(iter(policy)))
def test_what_is_no_image_file_is_refused_at_once(engine, stored, place, policy):
    """Nothing that waits, has an effect when it is read, or has no place."""
    rules(engine, imagePolicy={key: [name.format(uid=engine.user.uid) for name in value] if isinstance(value, list) else value for key, value in policy.items()})
    fifo = place / "fifo"
    os.mkfifo(fifo, 0o600)
    engine.user.own(fifo)
    memory = os.memfd_create("image")
    os.write(memory, stored[1].read_bytes())
    channel, _ = os.openpty()
    descriptors = [os.open(fifo, os.O_RDWR), memory, channel, os.open(place, os.O_RDONLY), os.open("/dev/zero", os.O_RDONLY),
                   os.open("/proc/self/environ", os.O_RDONLY), os.open(stored[1], os.O_PATH), os.open(stored[1], os.O_RDWR), os.eventfd(0)]
    for descriptor in descriptors:
        result = launch(engine, descriptor, digest=stored[2])
        assert result.returncode == 1 and "ran" not in result.stdout.split(), result
        os.close(descriptor)


DIGESTS = pathlib.Path("/run/sarus/digests")


def test_only_images_take_part_in_the_memory_of_digests(engine, stored, place):
    """Users can open most files of root's, and must not push the digests of images out."""
    rules(engine, imagePolicy={"verify": True})
    header = place / "header.h"
    header.write_text("no image")
    with opened(header) as descriptor:
        result = launch(engine, descriptor, digest=stored[2])
    assert result.returncode == 1 and "not a squashfs file" in result.stderr
    inode = f"-{header.stat().st_ino}-{header.stat().st_size}-"
    assert not [entry for entry in DIGESTS.iterdir() if inode in entry.name]


def test_who_waits_for_a_digest_takes_the_first_that_is_there(engine, stored, place):
    """A user who freezes a start while it reads an image must not keep those of others waiting."""
    rules(engine, imagePolicy={"verify": True})
    image = copy(engine, stored[1], place / "frozen.squashfs")
    with opened(image) as descriptor:
        ran(launch(engine, descriptor, digest=stored[2]))
        seconds, nanoseconds = divmod(image.stat().st_ctime_ns, 10**9)
        entry, = (entry for entry in DIGESTS.iterdir() if entry.name.endswith(f"-{seconds}.{nanoseconds}"))
        with entry.open("r+") as frozen:
            fcntl.flock(frozen, fcntl.LOCK_EX)
            frozen.truncate(0)
            later = threading.Timer(1, lambda: entry.write_text(stored[2]))
            later.start()
            ran(launch(engine, descriptor, digest=stored[2]))
            later.join()


def test_a_server_of_the_users_serves_no_image_under_a_rule(engine, stored, place):
    """The user could look into it, and let it answer what another image holds."""
    theirs = copy(engine, stored[1], place / "image.squashfs")
    rules(engine, imagePolicy={"owners": ["root"]}, imageMount="fuse")
    refused(run(engine.with_fuse(), theirs), "the kernel may not mount it")


@pytest.mark.parametrize("key, fields, options", [
    ("allowMount", {"mounts": [("/usr", "/x")]}, ["--mount=type=bind,src=/usr,dst=/x"]),
    ("allowMount", {"mounts": [("", "/x")]}, ["--tmpfs=/x"]),
    ("allowDevice", {"devices": ["/dev/kmsg:r"]}, ["--device=/dev/kmsg:r"])])
def test_what_the_site_switches_off(engine, stored, key, fields, options):
    rules(engine, **{key: False})
    refused(run(engine, stored[1], *options), key)
    with opened(stored[1]) as descriptor:
        refused(launch(engine, descriptor, **fields), key)
        ran(launch(engine, descriptor))


def test_a_directory_that_a_variable_names_is_a_mount_of_the_user(engine, stored):
    """With `enablePMIxv3Support`, users choose them as with --mount."""
    own = engine.user.home / "brought"
    own.mkdir()
    variables = {"PMIX_SERVER_TMPDIR": str(own), "PMIX_DSTORE_1_BASE_PATH": "/usr/share"}
    rules(engine, allowMount=False, enablePMIxv3Support=True)
    result = engine.run(stored[1], "sh", "-c", f"test -d {own} || echo ran", check=False, env=variables)
    assert ran(result) and "allowMount" in result.stderr
    rules(engine, allowMount=None, containerLimits={"mounts": 1})
    refused(engine.run(stored[1], "echo", "ran", check=False, env=variables), "containerLimits.mounts")


def test_home_is_not_mounted_where_users_mount_nothing(engine, stored):
    rules(engine, allowMount=False, mountHome=True)
    ran(run(engine, stored[1]))
    rules(engine, mountHome=None)


@contextlib.contextmanager
def sleeping(engine, image, name):
    process = engine.start("run", "--name", name, image, "sh", "-c", "echo ready; exec sleep 600")
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    yield
    engine.sarus("kill", "-9", name)
    process.communicate(timeout=300)


def test_no_command_enters_a_container_where_the_site_forbids_it(engine, stored):
    with sleeping(engine, stored[1], "entered"):
        rules(engine, allowExec=False)
        refused(engine.sarus("exec", "entered", "echo", "ran"), "allowExec")
        channel = memory_file(exec_request("entered", ["echo", "ran"]))
        refused(start(engine, [channel], {channel}), "allowExec")
        os.close(channel)


def test_mounts_of_a_container_are_limited(engine, stored):
    rules(engine, containerLimits={"mounts": 2})
    mounts = [f"--mount=type=bind,src=/usr,dst=/x{i}" for i in range(3)]
    ran(run(engine, stored[1], *mounts[:2]))
    refused(run(engine, stored[1], *mounts), "more than 2 mounts", "containerLimits.mounts")


def test_containers_of_a_user_are_limited(engine, stored, root):
    rules(engine, containerLimits={"perUser": 2})
    with sleeping(engine, stored[1], "first"):
        ran(run(engine, stored[1]))
        with sleeping(engine, stored[1], "second"):
            refused(run(engine, stored[1]), "more than 2 containers", "containerLimits.perUser")
            ran(run(engine.variant(user=root), stored[1]))
        ran(run(engine, stored[1]))


def test_of_containers_that_start_at_once_as_many_as_the_limit_start(engine, stored):
    rules(engine, containerLimits={"perUser": 2})
    processes = [engine.start("run", stored[1], "sh", "-c", "echo ready; read line") for _ in range(6)]
    outcomes = [process.stdout.readline() for process in processes]
    results = [process.communicate("\n", timeout=300) for process in processes]
    assert outcomes.count("ready\n") == 2
    assert all(ASK in error for line, (_, error) in zip(outcomes, results) if not line), results


def test_groups_that_may_use_the_privileges(engine, stored, root):
    rules(engine, privilegedGroups=["nobody-knows-this-group", "0"])
    refused(run(engine, stored[1]), "privilegedGroups")
    with opened(stored[1]) as descriptor:
        refused(launch(engine, descriptor), "privilegedGroups")
    ran(run(engine.variant(user=root), stored[1]))
    rules(engine, privilegedGroups=[str(engine.user.gid)])
    ran(run(engine, stored[1]))


def test_refusals_are_those_of_the_starter_and_not_of_a_dry_run_alone(engine, stored):
    rules(engine, allowDevice=False)
    refused(engine.sarus("run", "--dry-run", "--device=/dev/kmsg:r", stored[1], "echo", "ran"), "allowDevice")


def test_rootless_containers_have_no_rules(engine, stored):
    """Users can do that without us: SECURITY.md says so."""
    rules(engine, imagePolicy={"owners": ["1"]}, allowMount=False, privilegedGroups=["0"])
    argv, identity = engine.with_fuse().launched_by(["setpriv", "--no-new-privs"], "run", "--mount=type=bind,src=/usr,dst=/x", stored[1], "echo", "ran")
    ran(subprocess.run(argv, env=engine.user.environment(), cwd=engine.user.home, capture_output=True, text=True, timeout=300, **identity))
