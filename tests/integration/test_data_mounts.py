"""Squashfs files as read-only directories of containers: one file in place of many on a parallel file system."""

import os
import pathlib
import shutil
import subprocess

import pytest
from helpers import sif, system

MANY = 40
SHOW = "cat /data/name && ls /data/many | wc -l && stat -c %a /data/name"


@pytest.fixture(scope="module")
def place(workspace):
    """A directory of the tests' user, for data files."""
    directory = workspace / "data-mounts"
    directory.mkdir()
    return directory


def give(file, user, owner):
    """Everybody may read the file; it is the user's unless it has another owner."""
    file.chmod(0o644)
    return user.own(file) if owner is None else file


@pytest.fixture(scope="module")
def make(place, user):
    """make(name) -> a squashfs file of the user with `name` in its file "name"."""

    def one(name, owner=None):
        tree = place / f"tree-{name}"
        (tree / "many").mkdir(parents=True)
        for number in range(MANY):
            (tree / "many" / str(number)).write_text(str(number))
        (tree / "name").write_text(f"{name}\n")
        file = place / f"{name}.sqsh"
        subprocess.run(["mksquashfs", tree, file, "-quiet", "-no-progress", "-all-root"], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(tree)
        return give(file, user, owner)

    return one


@pytest.fixture(scope="module")
def data(make):
    return make("data")


@pytest.fixture(scope="module")
def sif_of(place, user):
    """sif_of(name, ...) -> a SIF file of the user with the partitions: (content, file system, purpose)."""

    def one(name, *partitions, owner=None):
        return give(sif.make(place / f"{name}.sif", *partitions), user, owner)

    return one


@pytest.fixture(scope="module")
def apptainers(sif_of, make):
    """A SIF file as Apptainer builds it, with an overlay behind the image."""
    return sif_of("apptainer", (make("inner").read_bytes(), sif.SQUASHFS, sif.PRIMARY), (b"e" * 9000, sif.EXT3, sif.OVERLAY))


def option_forms(file):
    """Each way to ask for /data, as options of `run`."""
    definition = file.with_suffix(".toml")
    definition.write_text(f'mounts = ["{file}:/data:sqsh"]\n')
    definition.chmod(0o644)
    return [[f"--mount=type=squashfs,source={file},destination=/data"], [f"--mount=type=squashfs,src={file},dst=/data,readonly"],
            ["-v", f"{file}:/data:sqsh"], ["-v", f"{file}:/data:ro,sqsh"], ["-B", f"{file}:/data:image-src=/"], [f"--edf={definition}"]]


def test_the_content_of_a_file_is_a_directory(engine, busybox, data):
    for options in option_forms(data):
        assert engine.output(busybox, "sh", "-c", SHOW, options=options) == f"data\n{MANY}\n644", options


def test_the_content_of_a_sif_file_is_a_directory(engine, busybox, apptainers):
    for options in option_forms(apptainers):
        assert engine.output(busybox, "sh", "-c", SHOW, options=options) == f"inner\n{MANY}\n644", options


def test_a_sif_file_of_data_alone(engine, busybox, make, data, sif_of, apptainers):
    of_data = sif_of("of-data", (b"e" * 5000, sif.EXT3, sif.OVERLAY), (make("alone").read_bytes(), sif.SQUASHFS, sif.DATA))
    options = [word for number, file in enumerate((of_data, apptainers, data)) for word in ("-v", f"{file}:/d{number}:sqsh")]
    assert engine.output(busybox, "sh", "-c", "cat /d?/name", options=options).splitlines() == ["alone", "inner", "data"]


@pytest.mark.asroot
def test_without_fuse_a_sif_file_is_unpacked(engines, load_image, plain_busybox, apptainers):
    engine = engines("rootless", "crun").variant(sandbox=("--no-fuse",))
    image = load_image(engine, "busybox", plain_busybox)
    assert engine.output(image, "sh", "-c", SHOW, options=["-v", f"{apptainers}:/data:sqsh"]) == f"inner\n{MANY}\n644"


def test_nobody_can_write_or_gain_rights_there(engine, busybox, data):
    result = engine.run(busybox, "sh", "-c", "touch /data/x; rm /data/name; grep ' /data ' /proc/self/mounts", options=["-v", f"{data}:/data:sqsh"])
    assert result.stderr.count("Read-only file system") == 2, result.stderr
    assert {"ro", "nosuid", "nodev"} <= set(result.stdout.split()[3].split(","))


def test_many_files_at_once_and_one_at_several_places(engine, busybox, make, place):
    files = [make(f"one-of-many-{number}") for number in range(6)]
    link = place / "link.sqsh"
    link.unlink(missing_ok=True)
    link.symlink_to(files[0])
    options = [word for number, file in enumerate(files) for word in ("-v", f"{file}:/d{number}:sqsh")]
    options += ["-v", f"{files[0]}:/again:sqsh", "-v", f"{link}:/by-link:sqsh"]
    output = engine.output(busybox, "sh", "-c", "cat /d?/name /again/name /by-link/name", options=options)
    assert output.splitlines() == [f"one-of-many-{number}" for number in (*range(6), 0, 0)]


def servers(engine):
    return [pid for pid, uid, command in system.processes() if uid == engine.user.uid and command.startswith(f"{engine.prefix}/bin/sarus-squashfs ")]


@pytest.mark.asroot
@pytest.mark.parametrize("mode", ["setuid", "rootless"])
@pytest.mark.parametrize("kind", ["data", "apptainers"])
def test_the_ranks_of_a_node_share_one_server(mode, kind, engines, load_image, plain_busybox, request):
    data = request.getfixturevalue(kind)
    engine = engines(mode, "crun")
    engine = engine.variant(sandbox=("--fuse",))
    image = load_image(engine, "busybox", plain_busybox)
    kernel = mode == "setuid"  # for the image
    assert servers(engine) == []
    options = ["-v", f"{data}:/data:sqsh"]
    with engine.standing(image, *options), engine.standing(image, *options), engine.standing(image, *options):
        assert len(servers(engine)) == (1 if kernel else 2)
    assert system.eventually(lambda: servers(engine) == [])


@pytest.mark.asroot
def test_the_kernel_mounts_what_root_alone_can_change(setuid_engine, load_image, plain_busybox, make, data, sif_of):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    directory = pathlib.Path("/opt") / f"data-of-root-{os.getpid()}"
    directory.mkdir()
    try:
        ours = directory / "data.sqsh"
        shutil.copy(make("of-root", owner="root"), ours)
        in_sif = directory / "data.sif"
        shutil.copy(sif_of("of-root", (ours.read_bytes(), sif.SQUASHFS, sif.PRIMARY), owner="root"), in_sif)
        for file, kind in ((ours, "squashfs"), (in_sif, "squashfs"), (data, "fuse.sarus-squashfs")):
            mount = setuid_engine.output(image, "grep", " /data ", "/proc/self/mounts", options=["-v", f"{file}:/data:sqsh"])
            assert mount.split()[2] in (kind, kind.split(".")[0]), mount
            assert setuid_engine.output(image, "wc", "-l", "/data/name", options=["-v", f"{file}:/data:sqsh"]).startswith("1 ")
        with setuid_engine.standing(image, "-v", f"{in_sif}:/data:sqsh"), setuid_engine.standing(image, "-v", f"{in_sif}:/data:sqsh"):
            assert list(system.loop_devices().values()).count(str(in_sif)) == 1
    finally:
        shutil.rmtree(directory)


@pytest.mark.asroot
@pytest.mark.parametrize("policy, kind", [("kernel", "squashfs"), ("fuse", "fuse")])
def test_the_site_chooses_who_mounts_them(policy, kind, setuid_engine, make_setuid_prefix, load_image, plain_busybox, data):
    engine = setuid_engine.variant(prefix=make_setuid_prefix(f"data-mount-{policy}", dataMount=policy))
    image = load_image(engine, "busybox", plain_busybox)
    mount = engine.output(image, "grep", " /data ", "/proc/self/mounts", options=["-v", f"{data}:/data:sqsh"])
    assert mount.split()[2].split(".")[0] == kind, mount


@pytest.mark.asroot
def test_a_site_gives_data_to_all_containers(setuid_engine, make_setuid_prefix, load_image, plain_busybox, data):
    mounts = [{"type": "squashfs", "source": str(data), "destination": "/data"}]
    engine = setuid_engine.variant(prefix=make_setuid_prefix("data-of-the-site", siteMounts=mounts))
    assert engine.output(load_image(engine, "busybox", plain_busybox), "sh", "-c", SHOW).startswith("data\n")


def failure(engine, image, *options):
    result = engine.run(image, "true", options=options, check=False)
    assert result.returncode == 1 and result.stdout == ""
    return result.stderr.splitlines()


def test_what_is_no_squashfs_file_is_named(engine, busybox, place, data):
    text = place / "text"
    text.write_text("no image\n" * 100)
    text.chmod(0o644)
    cut = place / "cut.sqsh"
    cut.write_bytes(data.read_bytes()[:200])
    cut.chmod(0o644)
    closed = place / "closed.sqsh"
    closed.unlink(missing_ok=True)
    shutil.copy(data, closed)
    closed.chmod(0)
    for path, reason, hint in [
            (text, f"Failed to use image {text}: not a squashfs file", "Make the file again: mksquashfs DIRECTORY FILE"),
            (cut, "Failed to use image", "Make the file again: mksquashfs DIRECTORY FILE"),
            (place, "the source is not a regular file", "Only squashfs and SIF files are mounted with type=squashfs or the flag sqsh"),
            (pathlib.Path("/dev/null"), "the source is not a regular file", "Only squashfs and SIF files are mounted with type=squashfs or the flag sqsh"),
            (place / "missing", "No such file or directory", ""),
            (closed, "Permission denied", "")]:
        if path == closed and engine.user.uid == 0:
            continue
        lines = failure(engine, busybox, "-v", f"{path}:/data:sqsh")
        assert lines[0].startswith(f"Failed to mount {path} on container's /data: ") and reason in lines[0], lines
        assert not hint or hint in lines[1], lines


def test_what_is_wrong_with_a_sif_file_is_told(engine, busybox, data, sif_of):
    content = data.read_bytes()
    whole = (content, sif.SQUASHFS, sif.PRIMARY)
    cut = sif_of("cut", whole)
    cut.write_bytes(cut.read_bytes()[:-4096])
    start = sif_of("start", whole)
    start.write_bytes(start.read_bytes()[:100])
    for file, reason in [
            (sif_of("encrypted", (content, sif.ENCRYPTED, sif.PRIMARY)), "the SIF file has an encrypted file system in place of squashfs"),
            (sif_of("ext3", (content, sif.EXT3, sif.PRIMARY), whole[:2] + (sif.DATA,)), "the SIF file has ext3 in place of squashfs"),
            (sif_of("none"), "the SIF file has no partition"),
            (sif_of("two", *2 * [whole[:2] + (sif.DATA,)]), "the SIF file has 2 partitions with squashfs and no primary one"),
            (cut, "the partition of the SIF file is incomplete"),
            (start, "the header of the SIF file is incomplete")]:
        lines = failure(engine, busybox, "-v", f"{file}:/data:sqsh")
        assert lines[0] == f"Failed to mount {file} on container's /data: Failed to use image {file}: {reason}", lines
        assert lines[1:] == ["Only a SIF file with one complete squashfs partition can be mounted"], lines


@pytest.mark.parametrize("option, message", [
    (["-v", "/a.sqsh:/data:sqsh,rw"], "'rw' cannot be: a squashfs file is read-only"),
    (["--mount=type=squashfs,source=/a.sqsh,destination=/data,rw"], "'rw' cannot be: a squashfs file is read-only"),
    (["--mount=type=squashfs,source=/a.sqsh,destination=/etc"], "Invalid mount request"),
    (["--mount=type=squashfs,destination=/data"], "no source specified"),
    (["--mount=type=squashfs,source=/a.sqsh,destination=/data,size=1m"], "'size' is not a valid squashfs mount option")])
def test_what_cannot_be_is_refused(user_engine, load_image, plain_busybox, option, message):
    assert message in failure(user_engine, load_image(user_engine, "busybox", plain_busybox), *option)[0]


def test_descriptors_of_the_starter_are_no_data(user_engine, load_image, plain_busybox):
    image = load_image(user_engine, "busybox", plain_busybox)
    messages = ["\n".join(failure(user_engine, image, "-v", f"/proc/self/fd/{number}:/data:sqsh")) for number in range(3, 12)]
    refusals = [message for message in messages if "Links such as /proc/self/fd/0 cannot be followed" in message]
    assert refusals and all("No such file or directory" in message for message in messages if message not in refusals), messages


@pytest.mark.asroot
def test_the_end_of_a_server_is_told(setuid_engine, load_image, plain_busybox, data):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    script = "echo ready; while read -r line; do :; done"
    with setuid_engine.standing(image, "-v", f"{data}:/data:sqsh", script=script) as process:
        pid, = servers(setuid_engine)
        system.kill(pid)
        assert system.eventually(lambda: not servers(setuid_engine))
        _, errors = process.communicate(timeout=300)
    assert "The process which provides a mounted squashfs file (sarus-squashfs) was ended" in errors
