"""`cmake --install` over an installation that is in use: what the site has decided stays."""

import os
import stat
import subprocess

import pytest
from helpers.installation import configure, copy_tree

pytestmark = pytest.mark.asroot


@pytest.fixture
def prefix(installed, opt, home_base):
    path = copy_tree(installed, opt / "installed")
    configure(path, local_base=home_base)
    yield path
    subprocess.run(["rm", "-rf", str(path)], check=True)


def install(build_dir, prefix, **keywords):
    """A newer version: files that are the same would not be replaced."""
    (prefix / "libexec/sarus-starter").write_bytes(b"older")
    (prefix / "libexec/sarus-starter").chmod(keywords.pop("mode", 0o4755))
    result = subprocess.run(["cmake", "--install", build_dir, "--prefix", prefix], capture_output=True, text=True, **keywords)
    assert result.returncode == 0, result.stderr
    assert (prefix / "libexec/sarus-starter").read_bytes() != b"older"
    return result


def test_a_new_version_keeps_the_set_user_id_bit(build_dir, prefix):
    result = install(build_dir, prefix)
    status = (prefix / "libexec/sarus-starter").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (0o4755, 0, 0)
    assert f"Kept owner and mode of {prefix}/libexec/sarus-starter: 0:0 4755" in result.stdout


def test_a_new_version_keeps_the_group_that_may_start_containers(build_dir, prefix, user):
    os.chown(prefix / "libexec/sarus-starter", 0, user.gid)
    install(build_dir, prefix, mode=0o4750)
    status = (prefix / "libexec/sarus-starter").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (0o4750, 0, user.gid)


def test_a_new_version_gives_no_privileges_that_were_not_there(build_dir, prefix):
    install(build_dir, prefix, mode=0o755)
    assert stat.S_IMODE((prefix / "libexec/sarus-starter").stat().st_mode) == 0o755


def test_a_starter_of_another_user_does_not_become_roots(build_dir, prefix, user):
    """The bit of a file that root did not make privileged means nothing."""
    os.chown(prefix / "libexec/sarus-starter", user.uid, user.gid)
    install(build_dir, prefix)
    status = (prefix / "libexec/sarus-starter").stat()
    assert status.st_mode & stat.S_ISUID == 0


def test_settings_that_the_site_has_changed_stay(source_dir, build_dir, prefix):
    (prefix / "etc/policy.json").write_text('{"default": [{"type": "reject"}]}')
    (prefix / "etc/podman_hpc/01-gpu.conf").write_text("mine")
    result = install(build_dir, prefix)
    assert (prefix / "etc/policy.json").read_text() == '{"default": [{"type": "reject"}]}'
    assert (prefix / "etc/podman_hpc/01-gpu.conf").read_text() == "mine"
    assert (prefix / "etc/policy.json.new").read_bytes() == (source_dir / "etc/policy.json").read_bytes()
    assert f"Kept {prefix}/etc/policy.json. Compare it with this version's {prefix}/etc/policy.json.new" in result.stdout
    assert [path.name for path in prefix.glob("etc/**/*.new")] == ["policy.json.new", "01-gpu.conf.new"]
    assert (prefix / "etc/sarus.json").exists()


# An installation that has lost the bit, for instance because it was copied

@pytest.fixture(scope="module")
def lost(make_setuid_prefix, engines):
    """An engine whose starter was set-user-ID root."""
    prefix = make_setuid_prefix("lost")
    (prefix / "libexec/sarus-starter").chmod(0o755)
    return engines("rootless", "crun").variant(prefix=prefix)


@pytest.fixture
def image(lost, load_image, plain_busybox):
    return load_image(lost, "busybox", plain_busybox)


def test_run_warns_of_lost_privileges_in_one_line(lost, image):
    result = lost.run(image, "true")
    [line] = [line for line in result.stderr.splitlines() if "set-user-ID" in line]
    assert f"{lost.prefix}/libexec/sarus-starter has lost its set-user-ID bit, so the container starts without privileges" in line
    assert line.endswith(f"{lost.prefix}/configure_installation.sh")


@pytest.mark.parametrize("variable", ["SLURM_PROCID", "PMI_RANK"])
def test_only_the_first_task_warns_of_lost_privileges(lost, image, variable):
    assert "set-user-ID" not in lost.run(image, "true", env={variable: "3"}).stderr
    assert "set-user-ID" in lost.run(image, "true", env={variable: "0"}).stderr


def test_an_installation_without_privileges_does_not_miss_them(lost, image):
    """Also one of root's for all users, and one that had privileges before."""
    subprocess.run([f"{lost.prefix}/configure_installation.sh", "--rootless"], check=True, capture_output=True)
    assert lost.run(image, "true").stderr == ""
