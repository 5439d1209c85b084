"""mkhomedir_hook with real containers, and with images made to have root write elsewhere."""

import json
import os
import shutil
import socket
import subprocess

import pytest
from helpers import hook_bundle
from helpers.hook_bundle import Bundle
from test_hook_podman import podman, probed  # noqa: F401 (a fixture)
from test_hooks import hooks, hooks_engine, image  # noqa: F401 (fixtures)

pytestmark = pytest.mark.asroot

USER = 61234
HOME = "/home/of/me"


def fill(root, uid=USER, home="/old"):
    """An image with a skeleton and accounts, between which are lines that are none."""
    hook_bundle.install_probe(root)
    (root / "etc/passwd").write_text(f"root:x:0:0::/root:/bin/sh\n\n+::::::\nme:x:{uid}:1::{home}:/bin/sh\n")
    (root / "etc/skel/sub").mkdir(parents=True)
    (root / "etc/skel/.profile").write_text("of the skeleton\n")
    (root / "etc/skel/sub/file").write_text("below it\n")
    (root / "etc/skel/link").symlink_to("/etc/shadow")


@pytest.fixture(params=["crun", "runc"])
def bundle(request, open_directory):
    made = Bundle(open_directory, request.param)
    fill(hook_bundle.make_root(made.root))
    made.outside = open_directory / "outside"
    made.outside.mkdir()
    (made.outside / "file").write_text("untouched\n")
    return made


def run(bundle, hook, stage="createRuntime", home=HOME, **more):
    return bundle.run(["/bin/probe", f"{HOME}/.profile", f"{HOME}/sub/file"], [(stage, hook, {})], [f"HOME={home}"] if home else [], user=USER, **more)


@pytest.fixture
def hook(build_dir):
    return build_dir / "mkhomedir_hook"


def alone(bundle, hook):
    """Without an OCI runtime: runc itself waits for a FIFO in the place of passwd."""
    (bundle.directory / "config.json").write_text(json.dumps({
        "root": {"path": "rootfs"}, "process": {"env": [f"HOME={HOME}"], "user": {"uid": USER, "gid": USER}}}))
    state = json.dumps({"ociVersion": "1.0.2", "id": "alone", "pid": 0, "status": "creating", "bundle": str(bundle.directory)})
    result = subprocess.run([str(hook)], input=state, env={}, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr


def is_untouched(bundle):
    return sorted(path.name for path in bundle.outside.iterdir()) == ["file"] and (bundle.outside / "file").read_text() == "untouched\n"


@pytest.mark.parametrize("stage", ["prestart", "createRuntime", "createContainer"])
def test_home_is_made_from_the_skeleton_and_entered_in_passwd(bundle, hook, stage):
    result = run(bundle, hook, stage, readonly=stage == "createContainer")
    assert result.returncode == 0, result.stderr + bundle.log.read_text()
    expected = "r" if stage == "createContainer" else "rw"
    assert result.stdout.splitlines() == [f"{expected} of the skeleton", f"{expected} below it"]
    home = bundle.root / HOME.lstrip("/")
    assert [(path.stat().st_uid, path.stat().st_mode & 0o777) for path in (home.parent, home, home / "sub", home / ".profile")] == [
        (0, 0o755), (USER, 0o700), (USER, 0o700), (USER, 0o600)]
    assert os.readlink(home / "link") == "/etc/shadow"
    assert (bundle.root / "etc/passwd").read_text() == f"root:x:0:0::/root:/bin/sh\n\n+::::::\nme:x:{USER}:1::{HOME}:/bin/sh\n"


def test_without_the_variable_the_home_is_that_of_passwd(bundle, hook):
    before = (bundle.root / "etc/passwd").read_text()
    assert run(bundle, hook, home="").returncode == 0
    assert (bundle.root / "old/.profile").exists() and (bundle.root / "etc/passwd").read_text() == before


def test_existing_home_stays_as_it_is(bundle, hook):
    home = bundle.root / HOME.lstrip("/")
    home.mkdir(parents=True)
    assert run(bundle, hook).returncode == 0
    assert list(home.iterdir()) == [] and home.stat().st_uid == 0


@pytest.mark.parametrize("place", ["home", "home/of", "home/of/me", "etc/skel", "etc/passwd"])
@pytest.mark.parametrize("upwards", [False, True])
def test_links_of_the_image_lead_nowhere_else(bundle, hook, place, upwards):
    target = bundle.root / place
    if target.is_dir():
        shutil.rmtree(target)
    target.unlink(missing_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(("/.." * 20 if upwards else "") + str(bundle.outside / "file" if place == "etc/passwd" else bundle.outside))
    run(bundle, hook)
    assert is_untouched(bundle)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.mknod(path, 0o20666, os.makedev(1, 5)), os.mkdir,
                                  lambda path: socket.socket(socket.AF_UNIX).bind(os.path.relpath(path))], ids=["fifo", "device", "directory", "socket"])
@pytest.mark.parametrize("place", ["etc/passwd", "etc/skel/.profile"])
def test_what_is_no_file_is_not_opened(bundle, hook, make, place):
    (bundle.root / place).unlink()
    make(bundle.root / place)
    alone(bundle, hook)
    assert (bundle.root / HOME.lstrip("/") / "sub/file").exists()


def test_files_of_the_image_that_the_user_cannot_read_are_not_copied(bundle, hook):
    (bundle.root / "etc/skel/.profile").chmod(0o600)
    (bundle.root / "etc/skel/sub").chmod(0o700)
    assert run(bundle, hook).stdout.splitlines() == ["missing", "missing"]


@pytest.mark.parametrize("home", ["relative", "/a:/bin/sh", "/a\nevil:x:0:0::/:/bin/sh"])
def test_home_that_would_change_other_fields_or_lines_is_refused(bundle, hook, home):
    before = (bundle.root / "etc/passwd").read_text()
    assert run(bundle, hook, home=home).returncode != 0
    assert (bundle.root / "etc/passwd").read_text() == before


def test_nothing_is_made_on_a_mount_of_the_host(bundle, hook):
    mounts = [{"destination": "/home", "type": "bind", "source": str(bundle.outside), "options": ["rbind", "rw"]}]
    assert run(bundle, hook, "createContainer", mounts=mounts).returncode == 0
    assert is_untouched(bundle)


def test_huge_skeleton_is_cut(bundle, hook):
    for number in range(1500):
        (bundle.root / f"etc/skel/{number}").write_text("")
    with open(bundle.root / "etc/skel/huge", "wb") as file:
        file.truncate(1 << 34)
    assert run(bundle, hook).returncode == 0
    assert len(list((bundle.root / HOME.lstrip("/")).iterdir())) <= 1000 and "Only a part" in bundle.log.read_text() + "Only a part" * (bundle.runtime == "runc")


@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.parametrize("options", [[], ["--userns=keep-id"], ["--user=5:5"]])
def test_podmans_user_gets_a_home(podman, build_dir, runtime, options):  # noqa: F811
    if options == ["--userns=keep-id"] and podman.user.uid == 0:
        options = []  # only for rootless containers
    podman.runtime = runtime
    fill(podman.root, {"--user=5:5": 5, "--userns=keep-id": podman.user.uid}.get((options or [""])[0], 0))
    podman.add("mkhomedir", build_dir / "mkhomedir_hook", stages=["createRuntime"])
    assert probed(podman, f"{HOME}/.profile", f"{HOME}/sub/file", options=[f"--env=HOME={HOME}", *options]) == ["rw of the skeleton", "rw below it"]


def test_the_engines_passwd_gets_the_home_that_the_engine_makes(hooks, image):  # noqa: F811
    hooks.add("50-mkhomedir", hooks.engine.prefix / "bin/mkhomedir_hook", ["createRuntime"])
    script = "echo text >$HOME/file && cat $HOME/file && stat -c %u $HOME && grep -c :$HOME: /etc/passwd"
    output = hooks.engine.output(image, "sh", "-c", script, options=["--env=HOME=/homes/me", "--workdir=/"])
    assert output.splitlines() == ["text", str(hooks.engine.user.uid), "1"]
