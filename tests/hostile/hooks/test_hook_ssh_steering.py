"""ssh_hook against users, images and annotations that try to steer it: it reads and writes with the user's rights, and never waits."""

import contextlib
import json
import os
import pathlib
import re
import subprocess

import pytest
from helpers import images, ssh, system


@pytest.fixture(params=["setuid-crun", "rootless-crun"])
def ssh_engine(request, engines):
    yield from ssh.with_keys(engines(*request.param.split("-")))


@pytest.fixture(scope="module")
def client(user, workspace):
    return ssh.Client(user, workspace / "ssh-client")


@pytest.fixture
def folder(ssh_engine, workspace):
    directory = workspace / "hostile"
    directory.mkdir(exist_ok=True)
    ssh_engine.user.own(directory)
    yield directory
    subprocess.run(["rm", "-r", directory], check=True)


@pytest.fixture
def busybox(ssh_engine, load_image, plain_busybox):
    return load_image(ssh_engine, "busybox", plain_busybox)


def run(engine, image, *annotations, options=()):
    words = [f"--annotation=com.hooks.ssh.{name}={value}" for name, value in (("port", system.free_port()), *annotations)]
    return engine.run(image, "true", options=["--ssh", *words, *options], check=False)


def write(folder, name, content):
    (folder / name).write_bytes(content)
    return folder / name


def fifo(folder):
    os.mkfifo(folder / "fifo", 0o666)
    return folder / "fifo"


PRIVATE = b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
KEY = b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0nUVgSY3Vg5pm7p4bZbg9xS7D5GkGEO8yN2UxTHHfr me\n"
NO_KEYS = {
    "private key": (lambda folder: write(folder, "key", PRIVATE), "does not contain public SSH keys alone"),
    "key with a command": (lambda folder: write(folder, "key", b'command="id" ' + KEY), "does not contain public SSH keys alone"),
    "key and text": (lambda folder: write(folder, "key", KEY + b"root:x:0:0\n"), "does not contain public SSH keys alone"),
    "key of another type": (lambda folder: write(folder, "key", KEY.replace(b"ssh-ed25519", b"ssh-rsa", 1)), "does not contain public SSH keys alone"),
    "empty": (lambda folder: write(folder, "key", b"# nothing\n"), "contains no public SSH key"),
    "huge": (lambda folder: write(folder, "key", KEY * 10000), "larger than"),
    "fifo": (fifo, "not a regular file"),
    "directory": (lambda folder: folder, "not a regular file"),
    "device": (lambda folder: "/dev/zero", "not a regular file"),
    "file of the kernel": (lambda folder: "/proc/kmsg", "(not a regular file|Permission denied)"),
    "file of root": (lambda folder: "/etc/shadow", "Permission denied"),
    "missing": (lambda folder: folder / "nothing", "No such file"),
    "relative": (lambda folder: "id.pub", "is not an absolute path"),
}


@pytest.mark.parametrize("name", NO_KEYS)
def test_what_is_no_file_of_public_keys_is_not_authorized(ssh_engine, busybox, folder, name):
    make, reason = NO_KEYS[name]
    result = run(ssh_engine, busybox, ("authorize_ssh_key", make(folder)))
    assert result.returncode == 1 and re.search(reason, result.stderr), result.stderr


@pytest.mark.parametrize("kind", ["fifo", "huge", "of root", "device"])
def test_keys_are_the_users_regular_files(ssh_engine, busybox, kind):
    file = ssh.keys(ssh_engine) / "id_dropbear"
    file.unlink()
    if kind == "fifo":
        os.mkfifo(file, 0o666)
    elif kind == "huge":
        file.write_bytes(bytes(1 << 20))
    else:
        file.symlink_to({"of root": "/etc/shadow", "device": "/dev/zero"}[kind])
    if kind == "huge":
        ssh_engine.user.own(file)
    assert run(ssh_engine, busybox).returncode == 1


@pytest.mark.asroot
@pytest.mark.parametrize("mode, reason", [(0o755, "The SSH key .*/dropbear_ecdsa_host_key belongs to another user"), (0o700, "Permission denied")])
def test_keys_of_another_user_are_refused(ssh_engine, busybox, other_user, mode, reason):
    """In a shared directory, whoever comes first could make a user's directory, and later log in with keys of his own."""
    folder = ssh.keys(ssh_engine)
    for path in (folder, *folder.iterdir()):
        other_user.own(path)
        path.chmod(mode)
    for result in (run(ssh_engine, busybox), ssh_engine.sarus("ssh-keygen")):
        assert result.returncode == 1 and re.search(reason, result.stderr), result.stderr
    assert ssh_engine.sarus("ssh-keygen", "--overwrite").returncode == 1
    assert {path.stat().st_uid for path in folder.iterdir()} == {other_user.uid}


@pytest.mark.parametrize("content", [b"alias ls=ls\n", b"12345678901234567890\n", b"12 13\n"])
def test_only_pid_files_are_overwritten(ssh_engine, busybox, folder, content):
    """An image can have annotations, and could have the user's files overwritten."""
    file = ssh_engine.user.own(folder) and write(folder, "file", content)
    ssh_engine.user.own(file)
    for name, path in (("pidfile_host", file), ("pidfile_container", "/etc/group"), ("pidfile_host", "/etc/passwd")):
        result = run(ssh_engine, busybox, (name, path))
        assert result.returncode == 0 and re.search("is not a pid file|Permission denied", result.stderr), result.stderr
    assert file.read_bytes() == content


@pytest.mark.asroot
def test_pid_files_of_others_are_out_of_reach(ssh_engine, busybox, other_user, folder):
    file = write(other_user.home, "pid", b"1\n")
    other_user.own(file)
    link = folder / "link"
    link.symlink_to(file)
    for path in (file, link, other_user.home / "new"):
        result = run(ssh_engine, busybox, ("pidfile_host", path))
        assert result.returncode == 0 and re.search("Permission denied|Too many levels", result.stderr), result.stderr
    assert file.read_bytes() == b"1\n" and not (other_user.home / "new").exists()


KERNEL_FILE = pathlib.Path("/proc/sys/fs/lease-break-time")


@pytest.mark.asroot
@pytest.mark.parametrize("annotation", ["pidfile_host", "pidfile_container"])
@pytest.mark.parametrize("mode", ["setuid-crun", "setuid-runc"])
def test_no_pid_is_written_into_the_kernels_settings(engines, load_image, plain_busybox, mode, annotation):
    """For them the effective user counts, not the file system's."""
    engine = engines(*mode.split("-"))
    ssh.make_keys(engine)
    before = KERNEL_FILE.read_text()
    try:
        result = run(engine, load_image(engine, "busybox", plain_busybox), (annotation, KERNEL_FILE))
        assert result.returncode == 0 and KERNEL_FILE.read_text() == before, result.stderr
        assert annotation == "pidfile_container" or "Permission denied" in result.stderr, result.stderr
    finally:
        KERNEL_FILE.write_text(before)
        ssh.remove_keys(engine)


@pytest.mark.asroot
def test_another_users_process_is_no_way_to_files(setuid_engine, load_image, plain_busybox, other_user, workspace):
    ssh.make_keys(setuid_engine)
    shared = workspace / "everybodys"
    shared.mkdir()
    shared.chmod(0o1777)
    sleeper = subprocess.Popen(["sleep", "1000"], **other_user.identity())
    try:
        path = f"/proc/{sleeper.pid}/root{shared}/pid"
        result = run(setuid_engine, load_image(setuid_engine, "busybox", plain_busybox), ("pidfile_host", path))
        assert result.returncode == 0 and "Permission denied" in result.stderr and not list(shared.iterdir()), result.stderr
    finally:
        sleeper.kill()
        sleeper.wait()
        subprocess.run(["rm", "-r", shared], check=True)
        ssh.remove_keys(setuid_engine)


@pytest.fixture
def held(folder):
    """held(engine): from now on the last hook before the command waits until the file "go" appears in the folder, and says so by "held"."""
    files = []

    def hold(engine):
        script = f"cat > /dev/null; touch {folder}/held; until [ -e {folder}/go ]; do sleep 0.1; done"
        file = engine.prefix / "etc/hooks.d/90-hold.json"
        file.write_text(json.dumps({"version": "1.0.0", "hook": {"path": "/bin/sh", "args": ["sh", "-c", script], "env": ["PATH=/usr/bin:/bin"]},
                                    "when": {"always": True}, "stages": ["createContainer"]}))
        if engine.rootless:
            engine.user.own(file)
        files.append(file)

    yield hold
    (folder / "go").touch()
    for file in files:
        file.unlink()


def is_connected(port):
    lines = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(fields[1].endswith(f":{port:04X}") and fields[3] == "01" for fields in lines)


ENGINES = ["setuid-crun", "setuid-runc", "rootless-crun", "rootless-runc"]


@pytest.mark.parametrize("ssh_engine", ENGINES, indirect=True)
def test_nobody_is_let_in_before_the_command_starts(ssh_engine, busybox, client, folder, held):
    """Until then, privileged processes work in the container. Whoever connects waits."""
    engine = ssh_engine
    held(engine)
    port = system.free_port()
    annotations = [f"--annotation=com.hooks.ssh.{name}" for name in (f"port={port}", f"authorize_ssh_key={client.public_key}")]
    container = engine.start("run", "--ssh", *annotations, busybox, "sh", "-c", "echo started; read line")
    login = None
    try:
        assert system.eventually((folder / "held").exists), container.poll()
        login = client.start(port, f"{engine.user.name}@127.0.0.1", "echo inside")
        assert system.eventually(lambda: is_connected(port))
        assert not [command for _, _, command in system.processes() if command.startswith("dropbear ") and f"-p {port}" in command]
        if not engine.rootless:
            own = system.namespaces([os.getpid()])
            inside = [pid for pid in system.descendants(container.pid) if any(name.startswith("mnt:") for name in system.namespaces([pid]) - own)]
            listed = subprocess.run(["ls", "-d", *(f"/proc/{pid}/root/." for pid in inside)], capture_output=True, text=True, **engine.user.identity())
            assert inside and listed.stdout == "", listed.stdout
        (folder / "go").touch()
        assert container.stdout.readline() == "started\n", container.communicate()
        assert login.communicate(timeout=300) == ("inside\n", "")
    finally:
        (folder / "go").touch()
        container.kill()
        container.communicate()
        if login is not None:
            login.kill()
            login.communicate()


def hostile_image(change):
    layer = images.Layer()
    change(layer)
    return images.Image([images.busybox_layer(), layer.bytes()], {"Env": [images.PATH_VARIABLE]})


OUTSIDE = "/dev/shm"
IMAGES = {
    "opt is a link to the node's memory": lambda layer: layer.symlink("opt", OUTSIDE),
    "the hook's folder is a link": lambda layer: layer.symlink("opt/oci-hooks", f"{OUTSIDE}/x"),
    "the program's folder is a file": lambda layer: layer.file("opt/oci-hooks/ssh/dropbear", "x"),
    "the profile's folder is a link": lambda layer: layer.symlink("etc/profile.d", OUTSIDE),
    "the run folder is a link": lambda layer: layer.symlink("var/run", OUTSIDE),
    "ssh is a link": lambda layer: layer.symlink("usr/bin/ssh", f"{OUTSIDE}/ssh"),
    "the profile is a link to itself": lambda layer: layer.symlink("etc/profile", "profile"),
    "the profile is huge": lambda layer: layer.file("etc/profile", "#" * (2 << 20)),
    "the home folders are a link": lambda layer: layer.symlink("home", OUTSIDE),
}


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_leads_the_hook_nowhere(ssh_engine, load_image, name):
    image = load_image(ssh_engine, f"hostile{list(IMAGES).index(name)}", hostile_image(IMAGES[name]))
    before = set(os.listdir(OUTSIDE))
    result = run(ssh_engine, image)
    assert result.returncode in (0, 1)
    own = pathlib.Path(ssh.home_inside(ssh_engine)).parts[2]
    new = {entry for entry in set(os.listdir(OUTSIDE)) - before if re.search(f"dropbear|ssh|oci-hooks|{own}", entry)}
    assert new <= ({own} if "home" in name else set()), result.stderr
    subprocess.run(["rm", "-rf", f"{OUTSIDE}/{own}"], check=True)


@contextlib.contextmanager
def overlay(engine, value):
    """The site has set OVERLAY_MOUNT_HOME_SSH."""
    file = engine.prefix / "etc/hooks.d/07-ssh-hook.json"
    before = file.read_text()
    file.write_text(before.replace('"SERVER_PORT', f'"OVERLAY_MOUNT_HOME_SSH={value}", "SERVER_PORT'))
    try:
        yield
    finally:
        file.write_text(before)


def test_keys_are_written_to_no_place_of_everybodys(ssh_engine, load_image):
    """An image whose user has /dev/shm, that of the node's containers, in the place of ~/.ssh."""
    home = ssh.home_inside(ssh_engine).lstrip("/")
    image = load_image(ssh_engine, "shared-ssh", hostile_image(lambda layer: layer.symlink(f"{home}/.ssh", OUTSIDE)))
    before = set(os.listdir(OUTSIDE))
    with overlay(ssh_engine, "False"):
        result = run(ssh_engine, image)
    assert result.returncode == 1 and f"Everybody may write to the container's /{home}/.ssh" in result.stderr
    assert not [name for name in set(os.listdir(OUTSIDE)) - before if name in ("id_dropbear", "authorized_keys", "dropbear_ecdsa_host_key")]


@pytest.mark.parametrize("value", ["True", "False"])
def test_the_author_of_an_image_is_not_let_in(ssh_engine, load_image, client, folder, value):
    """Whatever keys and files the image has in the user's home directory."""
    author = ssh.Client(ssh_engine.user, folder / "author")
    home = ssh.home_inside(ssh_engine).lstrip("/")

    def change(layer):
        ids = {"uid": ssh_engine.user.uid, "gid": ssh_engine.user.gid}
        layer.directory(f"{home}/.ssh", 0o700, **ids)
        layer.file(f"{home}/.ssh/authorized_keys", pathlib.Path(author.public_key).read_text(), 0o600, **ids)
        layer.symlink(f"{home}/.ssh/id_dropbear", "/etc/hostname", **ids)
        layer.file("opt/oci-hooks/ssh/dropbear/login-environment", "LD_PRELOAD=/evil.so\0")

    image = load_image(ssh_engine, f"let-in-{value.lower()}", hostile_image(change))
    with overlay(ssh_engine, value), ssh.container(ssh_engine, image, client) as (port, _):
        assert author.run(port, "true", check=False).returncode == 255
        assert client.run(port, "stat -c %F ~/.ssh/id_dropbear").stdout == "regular file\n"
        assert "evil" not in client.run(port, input="env\n", options=["-T"]).stdout


@pytest.mark.asroot
def test_another_user_is_not_let_in(ssh_engine, busybox, client, other_user, workspace):
    stranger = ssh.Client(other_user, workspace / f"stranger-{ssh_engine.mode}")
    with ssh.container(ssh_engine, busybox, client) as (port, _):
        for name in (ssh_engine.user.name, other_user.name, "root"):
            process = stranger.start(port, f"{name}@127.0.0.1", "id")
            assert process.communicate(timeout=300)[0] == "" and process.returncode == 255
        process = client.start(port, "-oPreferredAuthentications=password,keyboard-interactive", f"{client.user.name}@127.0.0.1", "id")
        assert process.communicate(timeout=300)[0] == "" and process.returncode == 255


def test_sessions_have_no_more_rights_than_the_container(ssh_engine, busybox, client):
    with ssh.container(ssh_engine, busybox, client) as (port, _):
        # With no_new_privs, the bounding set (CapBnd) gives nothing; an ordinary user cannot reduce it.
        status = "grep -E '^(Uid|Gid|Groups|Cap(Inh|Prm|Eff|Amb)|NoNewPrivs)' /proc/%s/status; cat /proc/%s/limits"
        assert client.run(port, status % ("self", "self")).stdout == client.run(port, status % (1, 1)).stdout
        assert client.run(port, "cat /proc/self/mountinfo").stdout == client.run(port, "cat /proc/1/mountinfo").stdout
        descriptors = client.run(port, "ls /proc/self/fd").stdout.split()
        assert set(descriptors) <= {"0", "1", "2", "3"}
