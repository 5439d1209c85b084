"""What a user, or another one, prepares below HOOK_BASE_DIR may not steer root, nor make a task wait for ever or go on too early."""

import os
import socket
import subprocess
import sys

import pytest
from helpers.sync_hook import STEP, SyncHook, results
from helpers.system import eventually

USER = 61234
SQUAT = """
import os, socket, sys, time
os.setuid(61235)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind("\\0" + sys.argv[1])
listener.listen(8)
print("ready", flush=True)
time.sleep(600)
"""
SQUAT_WITHOUT_QUEUE = """
import os, socket, sys, time
os.setuid(61235)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind("\\0" + sys.argv[1])
clients = []
if sys.argv[2] == "full":
    listener.listen(0)
    try:
        while True:
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            client.setblocking(False)
            client.connect("\\0" + sys.argv[1])
            clients.append(client)
    except BlockingIOError:
        pass
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def hook(build_dir, open_directory):
    made = SyncHook(build_dir / "slurm_global_sync_hook", open_directory)
    yield made
    made.end()


@pytest.fixture
def users_hook(build_dir, open_directory):
    """Root's hook for a container of a user."""
    made = SyncHook(build_dir / "slurm_global_sync_hook", open_directory, uid=USER)
    yield made
    made.end()


@pytest.mark.parametrize("place", [".", STEP, f"{STEP}/arrival", f"{STEP}/departure"], ids=["top", "step", "arrival", "departure"])
def test_fifo_in_place_of_a_directory_is_an_error(hook, place):
    path = hook.steps / place
    path.parent.mkdir(parents=True)
    hook.steps.parent.chmod(0o700)
    if hook.steps.exists():
        hook.steps.chmod(0o700)
    os.mkfifo(path)
    (status, message), = results([hook.start(0, 1, timeout=5)])
    assert status == 1 and str(hook.steps) in message


@pytest.mark.parametrize("place", ["arrival/slurm-procid-0", "arrival/slurm-procid-1", "departure/slurm-procid-0", "failed"])
def test_fifo_in_place_of_a_file_is_never_waited_for(hook, place):
    for name in ("arrival", "departure"):
        (hook.steps / STEP / name).mkdir(parents=True)
    hook.steps.chmod(0o700)
    os.mkfifo(hook.steps / STEP / place)
    assert all(status in (0, 1) for status, _ in results([hook.start(rank, 2, node=rank, timeout=5) for rank in range(2)]))


def test_directory_that_others_may_write_is_refused(hook):
    hook.steps.mkdir(parents=True)
    hook.steps.chmod(0o770)
    (status, message), = results([hook.start(0, 1)])
    assert status == 1 and "must belong to the user, and nobody else may write to it" in message


@pytest.mark.asroot
@pytest.mark.parametrize("place", ["", STEP + "/arrival"], ids=["top", "arrival"])
def test_directory_of_another_user_is_refused(users_hook, place):
    path = users_hook.steps / place
    path.mkdir(parents=True)
    for directory in (users_hook.steps.parent, users_hook.steps, *path.parents[:1]):
        os.chown(directory, USER, -1)
        directory.chmod(0o700)
    os.chown(path, 61235, -1)
    path.chmod(0o755)
    (status, message), = results([users_hook.start(0, 1)])
    assert status == 1 and str(path) in message


@pytest.mark.asroot
@pytest.mark.parametrize("link", [".oci-hooks", ".oci-hooks/slurm-global-sync", f".oci-hooks/slurm-global-sync/{STEP}"], ids=["hooks", "steps", "step"])
def test_symbolic_link_leads_root_nowhere(users_hook, link):
    """Only the user's rights count, so it leads the user where he can go anyway."""
    secret = users_hook.directory / "of-root"
    secret.mkdir(mode=0o700)
    (secret / "slurm-global-sync").mkdir()
    (secret / "arrival").mkdir()
    path = users_hook.base / "user" / link
    path.parent.mkdir(parents=True, exist_ok=True)
    for directory in (path.parent, path.parent.parent):
        if directory != users_hook.base:
            os.chown(directory, USER, -1)
            directory.chmod(0o700)
    path.symlink_to(secret)
    (status, message), = results([users_hook.start(0, 1)])
    assert status == 1 and ("Permission denied" in message or "must belong to the user" in message)
    assert sorted(secret.iterdir()) == [secret / "arrival", secret / "slurm-global-sync"]
    assert list((secret / "slurm-global-sync").iterdir()) == []


@pytest.mark.asroot
def test_files_belong_to_the_user(users_hook):
    task = users_hook.start(0, 2)
    file = users_hook.steps / STEP / "arrival/slurm-procid-0"
    assert eventually(file.exists)
    assert {path.stat().st_uid for path in (file, *list(file.parents)[:4])} == {USER}
    task.kill()


@pytest.mark.asroot
def test_other_user_on_the_address_of_the_node_changes_nothing(hook):
    address = f"sarus-slurm-sync-{os.getuid()}-{STEP}-node-0"
    with subprocess.Popen([sys.executable, "-c", SQUAT, address], stdout=subprocess.PIPE, text=True) as squatter:
        assert squatter.stdout.readline() == "ready\n"
        first = hook.start(0, 3)
        second = hook.start(1, 3)
        assert eventually(lambda: (hook.steps / STEP / "arrival/slurm-procid-1").exists())
        assert first.poll() is None and second.poll() is None
        assert results([first, second, hook.start(2, 3, node=1)]) == [(0, "")] * 3
        squatter.kill()


@pytest.mark.asroot
@pytest.mark.parametrize("queue", ["full", "never opened"])
def test_other_user_who_takes_no_connection_stops_nobody(hook, queue):
    """A blocking connect would wait as long as he likes, whatever the timeout is."""
    address = f"sarus-slurm-sync-{os.getuid()}-{STEP}-node-0"
    command = [sys.executable, "-c", SQUAT_WITHOUT_QUEUE, address, queue]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as squatter:
        assert squatter.stdout.readline() == "ready\n"
        try:
            assert results([hook.start(rank, 2) for rank in range(2)], timeout=120) == [(0, "")] * 2
        finally:
            squatter.kill()


@pytest.mark.parametrize("message", [b"", b"x" * 4000, b"0", b"-1", b"9" * 20], ids=["empty", "long", "rank", "negative", "large"])
def test_own_process_that_speaks_nonsense_stops_nobody(hook, message):
    """The user's, hence he harms only himself; but no task crashes or waits for ever."""
    task = hook.start(1, 2, timeout=10)
    assert eventually((hook.steps / STEP / "arrival/slurm-procid-1").exists)
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.connect(f"\0sarus-slurm-sync-{os.getuid()}-{STEP}-node-0")
    client.send(message)
    (status, text), = results([task])
    client.close()
    assert status == 1 and "rank 0" in text
