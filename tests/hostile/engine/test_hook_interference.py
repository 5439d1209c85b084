"""What a user may do to the hooks that the starter runs itself."""

import pathlib
import signal
import subprocess
import sys

import pytest
from helpers import hook_bundle, installation, system

pytestmark = pytest.mark.asroot
SERVER = pathlib.Path(__file__).parents[2] / "integration/programs/silent_fuse.py"
LIMIT = 120  # seconds


@pytest.fixture
def silent_directory(workspace):
    """A mount of a file server that never answers what is in its directory."""
    directory, ready = workspace / "silent", workspace / "ready"
    directory.mkdir()
    server = subprocess.Popen([sys.executable, "-B", SERVER, directory, ready, "ROOT"])
    assert system.eventually(ready.exists)
    yield directory
    server.send_signal(signal.SIGKILL)
    server.wait()
    subprocess.run(["umount", "--lazy", directory], check=True)


@pytest.mark.thorough
def test_a_file_server_that_never_answers_does_not_keep_a_start(make_setuid_prefix, setuid_engine, images, load_image, user, silent_directory):
    """The hook looks at the image with the user's rights, and a link leads it there. Its process cannot even be killed."""
    engine = setuid_engine.variant(prefix=make_setuid_prefix("silent-hook"))
    hooks = engine.prefix / "etc/hooks.d"
    installation.set_configuration(engine.prefix, hooksDir=str(hooks))
    (hooks / "10-glibc.json").write_text('{"version": "1.0.0", "when": {"always": true}, "stages": ["createContainer"], "hook": {"path": "%s", "env": ["%s"]}}'
                                         % (engine.prefix / "bin/glibc_hook", f"GLIBC_LIBS={hook_bundle.LIBC}:{hook_bundle.LINKER}"))

    def add(layer):
        layer.directory("lib64").directory("mnt").directory("mnt/silent").symlink("etc/ld.so.conf", "/mnt/silent/ld.so.conf")
        for file in (hook_bundle.LIBC, hook_bundle.LINKER):
            layer.file(f"lib64/{pathlib.Path(file).name}", pathlib.Path(file).read_bytes(), mode=0o755)

    image = load_image(engine, "silent", images.busybox(extra=add))
    before = system.processes_of(user)
    result = engine.run(image, "true", options=[f"--mount=type=bind,source={silent_directory},destination=/mnt/silent"], check=False, timeout=LIMIT + 600)
    assert result.returncode == 1, result.stderr
    assert f"The hook which failed is '10-glibc' ({engine.prefix}/bin/glibc_hook, createContainer)\n" in result.stderr
    assert f"It did not end within {LIMIT} s: a file system that is mounted in the container" in result.stderr
    assert system.processes_of(user) <= before and engine.sarus("ps").stdout.count("\n") <= 1
