"""Copies of images on a node: what another user puts in their place in /tmp is never used."""

import os
import shutil

import pytest
from helpers.broadcast import SUFFIX, Copies

pytestmark = pytest.mark.asroot
JOBS = iter(range(1000, 2000))


@pytest.fixture
def copies(user_engine, load_image, plain_busybox, temp_dir):
    reference = load_image(user_engine, "busybox", plain_busybox)
    made = Copies(user_engine, temp_dir, reference, next(JOBS))
    yield made
    if made.directory.is_symlink():
        made.directory.unlink()
    shutil.rmtree(made.directory, ignore_errors=True)


def plant(copies, other_user, directory, mode=0o700):
    """The other user's directory with a file of the right name, which even has the right bytes."""
    directory.mkdir()
    directory.chmod(mode)
    shutil.copyfile(copies.shared, directory / copies.name)
    for path in (directory, directory / copies.name):
        other_user.own(path)


def test_directory_of_another_user_is_not_used(copies, other_user):
    plant(copies, other_user, copies.directory, 0o755)
    path, said = copies.used()
    assert path == copies.shared
    assert f"Not using copies of images on this node: {copies.directory} belongs to another user (uid {other_user.uid})" in said
    result = copies.stage("prepare")
    assert result.returncode == 1 and "belongs to another user" in result.stderr


def test_link_to_a_directory_is_not_followed(copies, other_user, tmp_path):
    tmp_path.chmod(0o755)
    plant(copies, other_user, tmp_path / "theirs", 0o755)
    copies.directory.symlink_to(tmp_path / "theirs")
    os.chown(copies.directory, other_user.uid, other_user.gid, follow_symlinks=False)
    assert copies.used()[0] == copies.shared
    assert copies.stage("prepare").returncode == 1


def test_own_link_to_an_own_directory_is_not_followed(copies, tmp_path):
    """Another user can make a link to a directory which the user has, and hard links to links."""
    tmp_path.chmod(0o755)
    (tmp_path / "mine").mkdir(mode=0o700)
    shutil.copyfile(copies.shared, tmp_path / "mine" / copies.name)
    copies.own(tmp_path / "mine", tmp_path / "mine" / copies.name)
    copies.directory.symlink_to(tmp_path / "mine")
    os.chown(copies.directory, copies.engine.user.uid, copies.engine.user.gid, follow_symlinks=False)
    path, said = copies.used()
    assert path == copies.shared and "is not a private directory" in said


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_directory_that_others_can_enter_is_not_used(copies, mode):
    copies.make().directory.chmod(mode)
    path, said = copies.used()
    assert path == copies.shared and "is not a private directory" in said
    copies.directory.chmod(0o700)
    assert copies.used()[0] == copies.file


def replace(copies, kind, other_user):
    original = copies.file.rename(copies.directory / "original")
    if kind == "file of another user":
        shutil.copyfile(original, copies.file)
        other_user.own(copies.file)
        copies.file.chmod(0o444)
        return
    if kind == "symbolic link":
        copies.file.symlink_to(original)
    elif kind == "hard link":
        os.link(original, copies.file)
    elif kind == "FIFO":
        os.mkfifo(copies.file)
    elif kind == "writable by others":
        shutil.copyfile(original, copies.file)
        copies.own(copies.file)
        copies.file.chmod(0o666)
        return
    elif kind == "shorter file":
        copies.file.write_bytes(original.read_bytes()[:-4096])
    elif kind == "other image":
        data = bytearray(original.read_bytes())
        at = data.index(b"sarus image id: ") + 16
        data[at] ^= 1
        copies.file.write_bytes(data)
    if not copies.file.is_symlink():
        copies.own(copies.file)


@pytest.mark.parametrize("kind", ["file of another user", "symbolic link", "hard link", "FIFO", "writable by others", "shorter file", "other image"])
def test_only_a_plain_file_of_the_user_with_the_right_content_is_used(copies, other_user, kind):
    copies.make()
    assert copies.used()[0] == copies.file
    replace(copies, kind, other_user)
    assert copies.used()[0] == copies.shared


def test_copy_with_other_bytes_is_removed_before_anybody_uses_it(copies):
    assert copies.stage("prepare").stdout == "ready\n"
    data = bytearray(copies.shared.read_bytes())
    data[len(data) // 2] ^= 1
    copies.partial().write_bytes(data)
    copies.own(copies.partial())
    result = copies.stage("complete", f"--suffix={SUFFIX}")
    assert result.returncode == 1 and "is not what was recorded for the image" in result.stderr
    assert list(copies.directory.iterdir()) == [] and copies.used()[0] == copies.shared


def test_copy_that_another_name_could_change_is_refused(copies, temp_dir):
    """A hard link elsewhere would outlive the check."""
    copies.stage("prepare")
    shutil.copyfile(copies.shared, copies.partial())
    copies.own(copies.partial())
    os.link(copies.partial(), temp_dir / f"other-name-{copies.job}")
    assert copies.stage("complete", f"--suffix={SUFFIX}").returncode == 1
    os.unlink(temp_dir / f"other-name-{copies.job}")


@pytest.mark.parametrize("job", ["", "x", "../../tmp", "1/../..", "99999999999999999999999"])
def test_job_number_is_a_number(copies, job):
    assert copies.used(SLURM_JOB_ID=job)[0] == copies.shared
    result = copies.stage("prepare", environment={"SLURM_JOB_ID": job})
    assert result.returncode == 1 and "There is no Slurm job" in result.stderr


def test_digest_names_no_path(copies):
    result = copies.stage("prepare", squashfsDigest="fsverity-sha256:../../etc")
    assert result.returncode == 1 and "expects DIGEST SIZE IDENTITY" in result.stderr
    assert copies.stage("prepare").returncode == 0
    assert copies.stage("complete", "--suffix=x/../../etc/passwd").returncode == 1
