"""A set-user-ID starter that gives its privileges up, for a container in which the user is root, keeps nothing of them."""

import os
import pathlib
import stat
import subprocess

import pytest

pytestmark = pytest.mark.asroot


@pytest.fixture
def image(setuid_engine, load_image, plain_busybox):
    return load_image(setuid_engine, "busybox", plain_busybox)


@pytest.fixture
def make_engine(setuid_engine, make_setuid_prefix, request):
    """make_engine(**sarus.json keys) -> the user's set-user-ID engine of another installation."""
    return lambda **settings: setuid_engine.variant(prefix=make_setuid_prefix(f"given-up-{request.node.name[5:25]}", "crun", **settings))


def starters(user):
    """The processes of the user that run the starter."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{pid}").st_uid == user.uid and "sarus-starter" in os.readlink(f"/proc/{pid}/exe"):
                yield pid
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue


def test_its_process_is_the_users_alone(setuid_engine, image):
    """The user may look into it, so what root has opened must be gone."""
    with setuid_engine.standing(image, "--remap-root"):
        found = list(starters(setuid_engine.user))
        assert found
        for pid in found:
            status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
            assert set(status["Uid"].split()) == {str(setuid_engine.user.uid)}
            assert os.readlink(f"/proc/{pid}/ns/user") != os.readlink("/proc/self/ns/user")
            for number in os.listdir(f"/proc/{pid}/fd"):
                path = f"/proc/{pid}/fd/{number}"
                try:
                    target = os.stat(path)
                except FileNotFoundError:
                    continue  # closed meanwhile
                if stat.S_ISREG(target.st_mode) or stat.S_ISDIR(target.st_mode):
                    assert target.st_uid == setuid_engine.user.uid or target.st_mode & 0o004, os.readlink(path)


def test_the_sites_rules_hold_before(make_engine, image, setuid_engine):
    nobody = make_engine(imagePolicy={"owners": ["nobody"]})
    result = nobody.sarus("run", "--remap-root", image, "true")
    assert result.returncode != 0 and "imagePolicy" in result.stderr, result


def test_a_site_can_forbid_it(make_engine, image):
    result = make_engine(allowRootless=False).sarus("run", "--remap-root", image, "true")
    assert result.returncode != 0 and "allowRootless" in result.stderr, result


def test_the_callers_limits_and_mask_arrive(setuid_engine, image):
    argv, identity = setuid_engine.launched_by(["prlimit", "--core=1000:2000", "--nofile=400:500", "sh", "-c", 'umask 027; exec "$@"', "sh"],
                                               "run", "--remap-root", image, "sh", "-c", "cat /proc/self/limits; umask")
    said = subprocess.run(argv, env=setuid_engine.user.environment(), cwd=setuid_engine.user.home, capture_output=True, text=True, check=True, **identity).stdout
    limits = {line[:25].strip(): line[25:].split()[:2] for line in said.splitlines()}
    assert limits["Max core file size"] == ["1000", "2000"] and limits["Max open files"] == ["400", "500"]
    assert said.splitlines()[-1] == "0027"


def test_the_option_alone_gives_nothing(setuid_engine):
    """Whoever calls the program with it has no more than his own rights, and no request."""
    program = setuid_engine.prefix / "libexec/sarus-starter"
    for arguments in (["--without-privileges"], ["--without-privileges", "99"], ["--without-privileges", "0"], ["99", "--without-privileges"]):
        result = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, **setuid_engine.user.identity())
        assert result.returncode == 1 and len(result.stderr.splitlines()) <= 2 and result.stderr, result


def test_a_place_of_another_user_is_not_searched(setuid_engine, image, temp_dir):
    """The caller's directory for such containers is looked up with his rights alone."""
    secret = temp_dir / f"secret-{os.getpid()}"
    (secret / "state/hidden").mkdir(parents=True)
    secret.chmod(0o700)
    place = temp_dir / f"sarus-{setuid_engine.user.uid}"
    before = temp_dir / "before"
    if place.exists():
        place.rename(before)
    place.symlink_to(secret)
    try:
        result = setuid_engine.sarus("kill", "hidden")
        assert result.returncode != 0 and "There is no container with the name 'hidden'" in result.stderr, result
        assert setuid_engine.sarus("ps").returncode == 0
    finally:
        place.unlink()
        if before.exists():
            before.rename(place)
