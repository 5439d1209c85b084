"""Images of equal content: they share one file in the repository, and no second one is downloaded or converted."""

import json
import os
import re
import shutil
import subprocess

import pytest

CHECKED = "> checking the stored image {}, which has the same content".format


@pytest.fixture
def content(images):
    """An image that no other test has."""
    return images.busybox(extra=lambda layer: layer.file("variant", os.urandom(16).hex()))


@pytest.fixture
def sarus(any_engine):
    """sarus(*arguments) -> standard output. The images that were stored are removed at the end."""
    before = names_of(any_engine)

    def run(*arguments, **keywords):
        result = any_engine.sarus(*arguments, **keywords)
        assert result.returncode == 0, result.stdout + result.stderr
        run.errors = result.stderr
        return result.stdout

    run.engine = any_engine
    yield run
    for name in names_of(any_engine) - before:
        any_engine.sarus("rmi", name)


def names_of(engine):
    return {image["reference"] for image in json.loads(engine.sarus("images", "--json").stdout)}


def path_of(sarus, name):
    return json.loads(sarus("inspect", "--json", name))["path"]


def inode_of(sarus, name):
    return os.stat(path_of(sarus, name)).st_ino


def blob_requests(registry, since):
    return [line for line in registry.requests()[since:] if "/blobs/" in line]


def in_place(sarus, path, position, data):
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


def test_pull_of_stored_content_asks_for_the_manifest_only(sarus, registry, content):
    first = registry.push(content, "library/equal:1")
    others = [registry.push(content, name) for name in ("library/equal:2", "group/other:1")]
    sarus("pull", first)
    sarus("prune")
    since = len(registry.requests())
    for other in [*others, f"{registry.host}/library/equal@{content.manifest_digest()}"]:
        lines = sarus("pull", other).splitlines()
        assert lines[-2] == CHECKED(first)
        assert re.fullmatch(rf"Stored {other} \(.*B\) in \d+ s without conversion\. Run it with: sarus run {other} COMMAND", lines[-1])
        assert inode_of(sarus, other) == inode_of(sarus, first)
    digests = [image["digest"] for image in json.loads(sarus("images", "--json")) if image["server"] == registry.host]
    assert digests == [content.manifest_digest()] * 4
    assert blob_requests(registry, since) == []
    sarus("rmi", first)
    assert sarus("images", "--verify").count(f"{registry.host}/group/other:1: intact") == 1
    assert len(sarus.engine.output(others[1], "cat", "/variant")) == 32


def test_load_of_stored_layers_converts_nothing_and_has_its_own_configuration(sarus, registry, images, content):
    pulled = registry.push(content, "library/equal-layers:1")
    sarus("pull", pulled)
    content.configuration["config"]["Cmd"] = ["echo", "of the archive"]
    output = sarus("load", images.archive(content, "equal-layers"), "equal-layers:1")
    assert CHECKED(pulled) in output and "> making squashfs image" not in output
    assert inode_of(sarus, "load/library/equal-layers:1") == inode_of(sarus, pulled)
    assert sarus("run", "load/library/equal-layers:1") == "of the archive\n"
    again = sarus("load", images.archive(content, "equal-layers"), "equal-layers:1")  # the same name
    assert "without conversion" in again
    assert sarus("run", "load/library/equal-layers:1") == "of the archive\n"
    assert sarus("images").count("equal-layers") == 2


def test_of_two_imports_at_once_one_converts(sarus, registry, images, content):
    archive = images.archive(content, "equal-at-once")
    commands = [("load", archive, f"equal-at-once:{number}") for number in range(3)] + [("pull", registry.push(content, "library/equal-at-once:1"))]
    processes = [sarus.engine.start(*command) for command in commands]
    results = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, results
    assert sum("> making squashfs image" in output for output, _ in results) == 1
    assert len({inode_of(sarus, f"load/library/equal-at-once:{number}") for number in range(3)}) == 1


def test_other_options_of_the_site_make_another_file(sarus, make_any_prefix, images, content):
    archive = images.archive(content, "equal-options")
    sarus("load", archive, "equal-options:1")
    other = sarus.engine.variant(prefix=make_any_prefix("equal-options", mksquashfsOptions="-comp gzip"))
    for name, converted in (("equal-options:2", True), ("equal-options:3", False)):
        result = other.sarus("load", archive, name)
        assert ("> making squashfs image" in result.stdout) == converted, result.stdout + result.stderr
    inodes = [inode_of(sarus, f"load/library/equal-options:{number}") for number in (1, 2, 3)]
    assert inodes[0] != inodes[1] == inodes[2]


def test_damaged_file_gets_no_further_name(sarus, images, content):
    archive = images.archive(content, "equal-damaged")
    sarus("load", archive, "equal-damaged:1")
    in_place(sarus, path_of(sarus, "load/library/equal-damaged:1"), 5000, b"damage")
    assert "> making squashfs image" in sarus("load", archive, "equal-damaged:2")
    assert "The stored image load/library/equal-damaged:1 is damaged: its file is not used again" in sarus.errors
    assert "> making squashfs image" not in sarus("load", archive, "equal-damaged:1")  # which mends it
    assert sarus("images", "--verify").count("intact") >= 2


def test_sarus_1_7_removes_and_replaces_one_name_only(sarus, images, content):
    """It removes both files of a name, or renames new ones over them, and writes the index anew; its metadata have no record."""
    archive = images.archive(content, "equal-old")
    for number in range(3):
        sarus("load", archive, f"equal-old:{number}")
    removed, replaced, kept = (path_of(sarus, f"load/library/equal-old:{number}") for number in range(3))
    os.unlink(removed)
    os.unlink(removed.replace(".squashfs", ".meta"))
    draft = replaced + "-abcdefghijklmnop"
    subprocess.run(["cp", "-p", kept, draft], check=True)
    in_place(sarus, draft, 5000, b"another")
    metadata = replaced.replace(".squashfs", ".meta")
    stored = json.load(open(metadata))
    del stored["Store"]
    with open(metadata, "w") as file:
        json.dump(stored, file)
    os.rename(draft, replaced)
    assert sarus("images").count("/equal-old") == 2
    assert "load/library/equal-old:2: intact" in sarus("images", "--verify")
    # What 1.7 has written is not known to be equal.
    assert CHECKED("load/library/equal-old:2") in sarus("load", archive, "equal-old:3")


@pytest.mark.asroot
def test_import_killed_at_any_of_its_changes_leaves_the_shared_file_to_the_other_names(sarus, images, content):
    engine = sarus.engine
    archive = images.archive(content, "equal-killed")
    sarus("load", archive, "equal-killed:1")
    file = path_of(sarus, "load/library/equal-killed:1")
    kills = []
    for call, number in [(call, number) for call in ("linkat", "/^rename", "fsync", "write") for number in range(1, 7)]:
        command = ["strace", "--quiet=all", "--user", engine.user.name, "--trace", call, "--output", "/dev/null",
                   "--inject", f"{call}:signal=KILL:when={number}", engine.program, "load", str(archive), "equal-killed:2"]
        result = subprocess.run(command, env=engine.user.environment(), cwd=engine.user.home, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
        kills += [call] if result.returncode == -9 else []
        sarus("images")  # it repairs
        assert "load/library/equal-killed:1: intact" in sarus("images", "--verify")
        links = [path.name for path in engine.user.home.joinpath(".sarus/images").rglob("*") if path.stat().st_ino == os.stat(file).st_ino]
        assert len(links) == os.stat(file).st_nlink and not any("squashfs-" in name for name in links), (call, number, links)
        engine.sarus("rmi", "load/library/equal-killed:2")
    assert set(kills) == {"linkat", "/^rename", "fsync", "write"} and len(kills) > 10, kills
    assert os.stat(file).st_nlink == 1
    for leftover in engine.user.home.glob(".sarus/cache/ociImages/image-*"):
        shutil.rmtree(leftover)  # killed before it had a lock: Sarus keeps it for a day, and other tests would find it


@pytest.mark.asroot
def test_file_that_somebody_else_owns_or_can_write_gets_no_further_name(sarus, images, content, other_user):
    archive = images.archive(content, "equal-foreign")
    sarus("load", archive, "equal-foreign:1")
    file = path_of(sarus, "load/library/equal-foreign:1")
    os.chmod(file, 0o666)
    assert "> making squashfs image" in sarus("load", archive, "equal-foreign:2")
    sarus("rmi", "load/library/equal-foreign:2")
    os.chmod(file, 0o644)
    os.chown(file, other_user.uid, other_user.gid)
    assert "> making squashfs image" in sarus("load", archive, "equal-foreign:2")
    assert inode_of(sarus, "load/library/equal-foreign:2") != os.stat(file).st_ino


@pytest.mark.asroot
def test_privileged_start_of_a_shared_file_is_that_of_a_file_of_its_own(setuid_engine, images, content):
    archive = images.archive(content, "equal-started")
    names = [setuid_engine.load(archive, f"equal-started{number}") for number in (1, 2)]
    output = {setuid_engine.output(name, "sh", "-c", "cat /variant; stat -c %u:%g /variant; touch /variant 2>&1") for name in names}
    assert len(output) == 1
    for name in names:
        setuid_engine.sarus("rmi", name)
