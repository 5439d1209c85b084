"""Containers that accept SSH connections, and an OpenSSH client for them."""

import contextlib
import json
import pathlib
import shutil
import signal
import subprocess

from . import images, system

PROFILE = """PATH="/usr/local/bin:/usr/bin:/bin:/usr/games"
export PATH
if [ -d /etc/profile.d ]; then
  for i in /etc/profile.d/*.sh; do
    if [ -r $i ]; then
      . $i
    fi
  done
  unset i
fi
"""
SHELLS = {"bash": "/bin/bash", "dash": "/bin/dash", "zsh": "/usr/bin/zsh"}


def add_program(layer, path, added):
    """A program of this machine with the libraries that it is linked with."""
    output = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    for file in [path, *(word for word in output.split() if word.startswith("/"))]:
        if file not in added:
            added.add(file)
            layer.file(file.lstrip("/"), pathlib.Path(file).read_bytes(), 0o755)


def image(extra_programs=(), profile=PROFILE):
    """Busybox with some shells, env, and Debian's SFTP server; without `profile`, also without /etc/profile.d."""
    layer = images.Layer()
    added = set()
    for path in (*SHELLS.values(), "/usr/bin/env", "/usr/lib/openssh/sftp-server", *extra_programs):
        add_program(layer, path, added)
    if profile is not None:
        layer.file("etc/profile", profile)
        layer.directory("etc/profile.d")
    return images.Image([images.busybox_layer(), layer.bytes()], {"Env": [images.PATH_VARIABLE]})


class Client:
    """An OpenSSH client with a key of its own."""

    def __init__(self, user, directory):
        self.user, self.directory = user, pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        user.own(self.directory)
        self.key = self.directory / "id_ed25519"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)], check=True, **user.identity())

    @property
    def public_key(self):
        return f"{self.key}.pub"

    def options(self, port):
        pairs = {"StrictHostKeyChecking": "no", "UserKnownHostsFile": "/dev/null", "ControlMaster": "no", "BatchMode": "yes", "LogLevel": "ERROR",
                 "IdentitiesOnly": "yes", "ConnectTimeout": "300", "Port": port, "GlobalKnownHostsFile": "/dev/null"}
        return ["-F", "/dev/null", "-i", str(self.key), *(f"-o{name}={value}" for name, value in pairs.items())]

    def start(self, port, *arguments, program="ssh", **keywords):
        argv = [program, *self.options(port), *map(str, arguments)]
        return subprocess.Popen(argv, env=self.user.environment(), cwd="/", text=True, **self.user.identity(),
                                **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **keywords})

    def run(self, port, *command, check=True, options=(), program="ssh", timeout=300, **keywords):
        target = [] if program != "ssh" else [f"{self.user.name}@127.0.0.1"]
        process = self.start(port, *options, *target, *command, program=program,
                             stdin=subprocess.PIPE if "input" in keywords else subprocess.DEVNULL)
        try:
            out, err = process.communicate(keywords.get("input"), timeout=timeout)
        finally:
            process.kill()
        if check:
            assert process.returncode == 0, (process.returncode, out, err)
        return subprocess.CompletedProcess(command, process.returncode, out, err)


def listens(port):
    suffix = f":{port:04X}"
    return any(line.split()[1].endswith(suffix) and line.split()[3] == "0A"
               for table in ("/proc/net/tcp", "/proc/net/tcp6") for line in pathlib.Path(table).read_text().splitlines()[1:])


@contextlib.contextmanager
def container(engine, image_name, client=None, command="trap 'exit 0' TERM; echo started; sleep 1000 & wait", options=(), port=None, env=None, shell="/bin/sh"):
    """A container with SSH whose command has begun; gives (port, Popen)."""
    port = port or system.free_port()
    annotations = [f"com.hooks.ssh.port={port}", *([f"com.hooks.ssh.authorize_ssh_key={client.public_key}"] if client else [])]
    process = engine.start("run", "--ssh", *(f"--annotation={annotation}" for annotation in annotations), *options, image_name, shell, "-c", command,
                           stdin=subprocess.DEVNULL, env=env)
    try:
        line = process.stdout.readline()
        if line != "started\n":
            raise AssertionError(f"the container did not start: {line}{process.communicate(timeout=300)}")
        yield port, process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGHUP)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
            process.kill()
            process.wait(20)
        process.stdout.close()
        process.stderr.close()


def enable_hook(engine, name):
    """As the template says; returns the file."""
    file = engine.prefix / f"etc/hooks.d/{name}.json"
    base = json.loads((engine.prefix / "etc/sarus.json").read_text())["localRepositoryBaseDir"]
    template = (engine.prefix / f"etc/templates/hooks.d/{name}.json.in").read_text()
    file.write_text(template.replace("@INSTALL_PATH@", str(engine.prefix)).replace("@HOOK_BASE_DIR@", base))
    if engine.rootless:
        engine.user.own(file)
    return file


def make_keys(engine):
    """Enables the hook, too."""
    enable_hook(engine, "07-ssh-hook")
    result = engine.sarus("ssh-keygen")
    assert result.returncode == 0, result.stderr
    return keys(engine)


def with_keys(engine):
    """The life of a fixture that is an engine with the hook and the user's keys."""
    make_keys(engine)
    yield engine
    remove_keys(engine)


def home_inside(engine):
    """The user's home directory in containers."""
    lines = [line.split(":") for line in (engine.prefix / "etc/passwd").read_text().splitlines()]
    return next(fields[5] for fields in lines if fields[2:3] == [str(engine.user.uid)])


def keys(engine):
    return engine.user.home / ".oci-hooks" / "ssh" / "keys"


def remove_keys(engine):
    shutil.rmtree(engine.user.home / ".oci-hooks", ignore_errors=True)
