"""Where a user's images are: the variable SARUS_REPOSITORY_DIR and the key userRepositoryDir, and users who point them at others' files."""

import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from helpers.installation import set_configuration

NAME = "load/library/placed"


@pytest.fixture
def folder(user, request):
    """A directory of the user's."""
    directory = user.home / f"place-{request.node.name.split('[')[0][5:30]}"
    directory.mkdir()
    user.own(directory)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def archive(images, plain_busybox):
    return images.archive(plain_busybox, "placed")


def sarus(engine, *arguments, place=None, status=0, env=None, **keywords):
    variables = {**({} if place is None else {"SARUS_REPOSITORY_DIR": place}), **(env or {})}
    result = engine.sarus(*arguments, env=variables, **keywords)
    assert result.returncode == status, f"{arguments}: {result.returncode}\n{result.stdout}{result.stderr}"
    return result


def test_the_variable_names_the_repository(user_engine, folder, archive):
    place = folder / "deep/images"
    sarus(user_engine, "load", archive, "placed", place=place)
    assert (place / "images" / NAME / "latest.squashfs").exists() and (place / "metadata.json").exists()
    assert sarus(user_engine, "run", NAME, "echo", "runs", place=f"{place}//").stdout == "runs\n"
    assert "placed" in sarus(user_engine, "images", place=place).stdout
    assert json.loads(sarus(user_engine, "df", "--json", place=place).stdout)["repository"] == str(place)
    assert "is not available" in sarus(user_engine, "run", NAME, "true", status=1).stderr
    assert sarus(user_engine, "rmi", NAME, place=place).stdout == f"removed image {NAME}:latest\n"
    assert place.stat().st_uid == user_engine.user.uid


def test_completions_know_the_place(any_engine, folder, archive):
    place = folder / "images"
    sarus(any_engine, "load", archive, "completed", place=place)
    script = f'PATH={any_engine.prefix}/bin:$PATH; source <(sarus completion bash); _sarus_images'
    result = subprocess.run(["bash", "-c", script], env=any_engine.user.environment(SARUS_REPOSITORY_DIR=place), capture_output=True, text=True,
                            cwd="/", **any_engine.user.identity())
    assert result.stdout.splitlines() == ["load/library/completed:latest"], result.stderr


def test_other_programs_are_told_the_place(any_engine, user, folder, archive):
    """podman-hpc finds a converted image by these links (test_podman_hpc_shared_images.py)."""
    place = folder / "images"
    sarus(any_engine, "load", archive, "placed", place=place)
    links = {os.readlink(path) for path in (user.home / ".cache/sarus/converted").glob("*.sarus")}
    assert str(place / "images" / NAME / "latest.squashfs") in links


# The site's key


@pytest.fixture(scope="module")
def site_prefix(make_any_prefix):
    return make_any_prefix("repository-place", userRepositoryDir="${SCRATCH}/$USER/images")


@pytest.fixture
def site(any_engine, site_prefix):
    set_configuration(site_prefix, userRepositoryDir="${SCRATCH}/$USER/images")
    return any_engine.variant(prefix=site_prefix)


def repository(engine, **variables):
    return json.loads(sarus(engine, "df", "--json", env=variables).stdout)["repository"]


def test_the_key_names_the_repository(site, user, folder):
    assert repository(site, SCRATCH=folder) == f"{folder}/{user.name}/images"
    assert repository(site, SCRATCH=folder, USER="somebody", LOGNAME="somebody") == f"{folder}/{user.name}/images"
    assert repository(site, SCRATCH=folder, SARUS_REPOSITORY_DIR=folder / "own") == f"{folder}/own"
    assert repository(site, SCRATCH=folder, SARUS_REPOSITORY_DIR="") == f"{folder}/{user.name}/images"


@pytest.mark.parametrize("scratch", [None, ""])
def test_a_variable_of_the_key_must_be_set(site, scratch):
    for command in (["images"], ["run", NAME, "true"], ["df"]):
        result = sarus(site, *command, status=1, env={"SCRATCH": scratch})
        assert result.stderr.splitlines() == ["userRepositoryDir in sarus.json: the variable 'SCRATCH' is not defined",
                                              "Set it, or choose another place for your images with SARUS_REPOSITORY_DIR"]
    assert sarus(site, "version", env={"SCRATCH": scratch}).stdout
    doctor = json.loads(site.sarus("doctor", "--json", env={"SCRATCH": scratch}).stdout)
    finding, = (one for one in doctor if one["check"] == "repository")
    assert finding["status"] == "error" and "'SCRATCH' is not defined" in finding["message"]


@pytest.mark.parametrize("value", ["relative", "/tmp/../etc", "/tmp/\nx", "$HOME", "$(id)", "/"])
def test_the_value_of_a_variable_is_never_interpreted(site, value):
    set_configuration(site.prefix, userRepositoryDir="$SCRATCH")
    result = sarus(site, "images", status=1, env={"SCRATCH": value})
    assert result.stderr.startswith("Invalid place of the image repository in userRepositoryDir in sarus.json: '")
    assert len(result.stderr.splitlines()) == 1


# Users who choose places


@pytest.mark.parametrize("value", ["images", "./images", "~/images", "/", "//", "/tmp/..", "/tmp/./x", "/tmp/a\nb", "/tmp/\x1b[2J", " /tmp/x"])
def test_a_place_must_be_an_absolute_path(any_engine, value):
    for command in (["images"], ["pull", "busybox"], ["run", "busybox", "true"], ["prune"], ["df"]):
        result = sarus(any_engine, *command, place=value, status=1)
        assert result.stderr.startswith("Invalid place of the image repository in SARUS_REPOSITORY_DIR: '") and "\x1b" not in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_a_place_that_everybody_can_change_is_refused(any_engine, folder):
    folder.chmod(0o777)
    assert "every user can change that directory" in sarus(any_engine, "images", place=folder, status=1).stderr
    assert "every user can change that directory" in sarus(any_engine, "images", place=folder / "below", status=1).stderr
    assert list(folder.iterdir()) == []


@pytest.mark.asroot
@pytest.mark.parametrize("by_link", [False, True])
def test_the_repository_of_another_user_is_refused(user_engine, other_user, engines, folder, archive, by_link):
    """Its images could be anybody's, even if they may be read."""
    theirs = engines("setuid", "crun").variant(user=other_user)
    place = other_user.home / "open"
    sarus(theirs, "load", archive, "placed", place=place)
    chosen = place
    if by_link:
        chosen = folder / "link"
        chosen.symlink_to(place)
        user_engine.user.own(chosen)
    before = sorted(path for path in place.rglob("*"))
    for command in (["images"], ["run", NAME, "true"], ["rmi", NAME], ["prune", "--keep-bytes=0"], ["load", archive, "placed"]):
        result = sarus(user_engine, *command, place=chosen, status=1)
        assert f"belongs to another user (uid {other_user.uid})" in result.stderr, command
    assert sorted(path for path in place.rglob("*")) == before
    shutil.rmtree(place)


@pytest.mark.asroot
def test_a_link_of_another_user_is_refused(user_engine, other_user, folder, temp_dir, archive):
    """They could turn it to other images at any time."""
    sarus(user_engine, "load", archive, "placed", place=folder / "images")
    link = temp_dir / "place-link"
    link.symlink_to(folder / "images")
    other_user.own(link)
    assert "belongs to another user" in sarus(user_engine, "run", NAME, "true", place=link, status=1).stderr
    link.unlink()


@pytest.mark.asroot
def test_nothing_is_made_with_privileges(setuid_engine, folder, opt):
    """Where the user may not create it, the starter does not either: it makes only the user's directory below localRepositoryBaseDir."""
    place = opt / "not-writable/images"
    result = sarus(setuid_engine, "images", place=place, status=1)
    assert result.stderr.splitlines() == [f"Failed to create the image repository {place}: no permission", "Change SARUS_REPOSITORY_DIR"]
    assert not place.parent.exists()
    sarus(setuid_engine, "df", place=folder / "images")
    assert all(path.stat().st_uid == setuid_engine.user.uid for path in folder.rglob("*"))


@pytest.mark.asroot
def test_the_policy_for_images_holds_in_every_place(setuid_engine, make_setuid_prefix, home_base, user, temp_dir, archive):
    prefix = make_setuid_prefix("place-policy", imagePolicy={"paths": [str(home_base)], "owners": [user.name]})
    engine = setuid_engine.variant(prefix=prefix)
    allowed, forbidden = user.home / "policy-images", temp_dir / "policy-images"
    for place in (allowed, forbidden):
        sarus(engine, "load", archive, "placed", place=place)
    assert sarus(engine, "run", NAME, "echo", "runs", place=allowed).stdout == "runs\n"
    assert "imagePolicy.paths" in sarus(engine, "run", NAME, "true", place=forbidden, status=1).stderr
    link = user.home / "policy-link"
    link.symlink_to(forbidden)
    user.own(link)
    assert "imagePolicy.paths" in sarus(engine, "run", NAME, "true", place=link, status=1).stderr
    link.unlink()
    for place in (allowed, forbidden):
        shutil.rmtree(place)


@contextlib.contextmanager
def silent_filesystem(point):
    """A FUSE mount whose server never answers."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    if libc.mount(b"silent", str(point).encode(), b"fuse", 0, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    try:
        yield
    finally:
        libc.umount2(str(point).encode(), 2)  # MNT_DETACH
        os.close(device)  # whoever waits gets an error


@pytest.mark.asroot
def test_a_filesystem_that_never_answers_stops_only_the_users_own_commands(setuid_engine, workspace):
    point = workspace / "silent"
    point.mkdir(exist_ok=True)
    with silent_filesystem(point):
        waiting = setuid_engine.start("run", NAME, "true", env={"SARUS_REPOSITORY_DIR": point / "images"})
        place = {"SARUS_REPOSITORY_DIR": point / "images"}
        for command in ("version", "ps", "help"):
            assert setuid_engine.sarus(command, env=place).returncode == 0
        found = json.loads(setuid_engine.sarus("doctor", "--json", env=place).stdout)
        finding, = (one for one in found if one["check"] == "repository")
        assert finding["status"] == "error" and finding["message"].startswith("no answer within ")
        assert waiting.poll() is None and pathlib.Path(f"/proc/{waiting.pid}/exe").resolve().name == "sarus"  # not the starter
        waiting.kill()
        waiting.communicate(timeout=300)


# An older repository in the usual place


def test_images_in_the_usual_place_are_mentioned_and_stay(any_engine, user, folder, archive):
    usual, place = user.home / ".sarus", folder / "images"
    sarus(any_engine, "load", archive, "placed")
    first = sarus(any_engine, "images", place=place)
    assert f"The images in {usual} are not used: SARUS_REPOSITORY_DIR names {place}." in first.stderr and "placed" not in first.stdout
    assert sarus(any_engine, "images", place=place).stderr == ""  # once
    missing = sarus(any_engine, "run", NAME, "true", place=place, status=1).stderr
    assert f"The image is in {usual}, but SARUS_REPOSITORY_DIR names {place}" in missing
    found = json.loads(any_engine.sarus("doctor", "--json", env={"SARUS_REPOSITORY_DIR": place}).stdout)
    note, = (one for one in found if one["status"] == "note" and str(usual) in one["message"] and one["check"] == "repository")
    assert (usual / "images" / NAME / "latest.squashfs").exists()
    if (place / "images").exists():
        (place / "images").rmdir()
    subprocess.run(["sh", "-c", note["cure"]], check=True, cwd="/", **user.identity())
    assert not (usual / "images").exists()
    found = json.loads(any_engine.sarus("doctor", "--json", env={"SARUS_REPOSITORY_DIR": place}).stdout)
    assert not any(str(usual) in one["message"] for one in found if one["check"] == "repository")
    assert sarus(any_engine, "run", NAME, "echo", "moved", place=place).stdout == "moved\n"
    assert "placed" in sarus(any_engine, "images", place=place).stdout
    assert "placed" not in sarus(any_engine, "images").stdout
