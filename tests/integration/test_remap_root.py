"""`sarus run --remap-root`: root inside of a container, who is nobody but the user on the node."""

import dataclasses
import hashlib
import io
import itertools
import json
import os
import pathlib
import pwd
import re
import subprocess
import tarfile

import pytest
from helpers import installation, system
from helpers.compiler import compile_c
from helpers.images import Image, Layer

NUMBERS = itertools.count()


@pytest.fixture(params=["setuid-crun-single", "setuid-runc-subordinate", "rootless-crun-subordinate", "root-crun-single",
                        pytest.param("rootless-runc-single", marks=pytest.mark.asroot)])
def engine(request, engines):
    """Each way of running containers, for accounts with subordinate ids, which useradd(8) gives, and without. Root has none."""
    mode, runtime, ids = request.param.split("-")
    found = engines(mode, runtime)
    return dataclasses.replace(found, wrapper=system.WITHOUT_SUBORDINATE_IDS) if ids == "single" and mode != "root" else found


@pytest.fixture
def name(engine):
    """A name that no other test has. What is called like it is removed in the end."""
    chosen = f"root-{os.getpid()}-{next(NUMBERS)}"
    yield chosen
    engine.sarus("rm", "--force", chosen)


@pytest.fixture
def inside(engine, busybox):
    """inside(script, *options) -> the result of a shell of root."""

    def run(script, *options, **keywords):
        return engine.sarus("run", "--remap-root", *options, busybox, "sh", "-c", script, **keywords)

    return run


def fine(result):
    said = [line for line in result.stderr.splitlines() if "FUSE cannot be used" not in line]  # the image is unpacked, once
    assert (result.returncode, said) == (0, []), result
    return result.stdout


def names(engine, *options):
    return {container["name"]: container["status"] for container in json.loads(fine(engine.sarus("ps", "--json", *options)))}


def test_the_caller_is_root_with_a_home(engine, inside):
    said = fine(inside("id -u; id -g; echo $HOME $USER $LOGNAME; touch /root/file /etc/file /usr/file; stat -c %u:%g /etc/file /bin/busybox"))
    assert said.splitlines() == ["0", "0", "/root root root", "0:0", "0:0"]


def test_who_is_who_comes_from_the_image(engine, inside):
    assert "root" in fine(inside("cat /etc/passwd 2>/dev/null || echo root"))
    assert engine.mode == "root" or engine.user.name not in fine(inside("cat /etc/passwd /etc/group 2>/dev/null; true"))


def test_an_account_that_the_passwd_cache_lacks_has_its_subordinate_ids(make_setuid_prefix, user, load_image, plain_busybox):
    """It was made after the cache."""
    prefix = make_setuid_prefix("new-account")
    (prefix / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    engine = installation.Engine(prefix, user, "setuid", "crun")
    image = load_image(engine, "new-account", plain_busybox)
    assert fine(engine.sarus("run", "--remap-root", image, "sh", "-c", "touch /file && chown 7:8 /file && stat -c %u:%g /file")) == "7:8\n"


def test_variables_of_the_command_line_win(inside):
    assert fine(inside("echo $HOME $USER", "--env", "HOME=/tmp", "--env", "USER=me")) == "/tmp me\n"


def test_files_get_any_owner_as_far_as_package_managers_can_see(inside):
    said = inside("touch /f && chown 7:8 /f && chgrp 9 /f && chown -h 1:1 /f && mknod /null c 1 3 && mkfifo /fifo && test -p /fifo && echo fine")
    assert fine(said) == "fine\n"


def test_a_device_is_never_made(inside):
    assert fine(inside("mknod /d c 1 5 2>/dev/null; head -c 1 /d 2>/dev/null | wc -c")) == "0\n"


@pytest.fixture(scope="module")
def packages(workspace):
    """An image with the node's dpkg and apt, and a repository with a package that needs root in every way that packages do."""
    root = workspace / "packages"
    package = root / "tool"
    (package / "DEBIAN").mkdir(parents=True)
    (package / "DEBIAN/control").write_text("Package: tool\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: tool\n")
    script = package / "DEBIAN/postinst"
    script.write_text("""#!/bin/sh
set -e
echo 'tool:x:990:990::/srv/tool:/bin/sh' >> /etc/passwd
echo 'tool:x:990:' >> /etc/group
chown -R tool:tool /srv/tool
chgrp 8 /usr/bin/tool && chmod 2755 /usr/bin/tool
chroot --userspec=990:990 / true
mknod /srv/tool/null c 1 3
echo configured
""")
    script.chmod(0o755)
    (package / "usr/bin").mkdir(parents=True)
    (package / "usr/bin/tool").write_text("#!/bin/sh\necho the tool\n")
    (package / "usr/bin/tool").chmod(0o755)
    (package / "srv/tool").mkdir(parents=True)
    repository = root / "repository"
    repository.mkdir()
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", str(package), str(repository / "tool.deb")], check=True, capture_output=True)
    content = (repository / "tool.deb").read_bytes()
    control = (package / "DEBIAN/control").read_text()
    (repository / "Packages").write_text(f"{control}Filename: ./tool.deb\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n\n")

    programs = ["apt", "dpkg", "dash", "coreutils", "tar", "grep", "sed", "gzip", "findutils", "diffutils", "libc-bin", "base-passwd"]
    files = set()
    for name in programs:
        listed = subprocess.run(["dpkg-query", "-L", name], check=True, capture_output=True, text=True).stdout.split("\n")
        files |= {path for path in listed if path.startswith(("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/share/dpkg", "/etc/apt"))}
    files = {path for path in files if os.path.isfile(path)}
    libraries = subprocess.run(["ldd", *sorted(files)], check=False, capture_output=True, text=True).stdout
    files |= {word for word in libraries.split() if word.startswith("/") and not word.endswith(":")}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in ("bin", "sbin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(link)
        for path in sorted(files | {"/usr/bin/sh"}):
            real = pathlib.Path(os.path.realpath(os.path.dirname(path))) / os.path.basename(path)
            tar.add(real, arcname=str(real)[1:])
            if real.is_symlink():
                tar.add(real.resolve(), arcname=str(real.resolve())[1:])
    layer = Layer()
    for path in ("var/lib/dpkg/status", "var/lib/dpkg/available", "etc/shells"):
        layer.file(path, "")
    layer.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n_apt:x:42:65534::/nonexistent:/bin/false\n")
    layer.file("etc/group", "root:x:0:\nmail:x:8:\nnogroup:x:65534:\n")
    layer.file("etc/apt/sources.list", "deb [trusted=yes] file:/repository ./\n").directory("root").directory("tmp", mode=0o1777)
    for path in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/cache/apt/archives/partial",
                 "var/lib/apt/lists/partial", "var/log/apt", "etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/trusted.gpg.d"):
        layer.directory(path)
    return Image([archive.getvalue(), layer.bytes()], {"Cmd": ["sh"]}), repository


def test_a_package_is_installed_and_used_later(engine, packages, load_image, name):
    image, repository = packages
    reference = load_image(engine, "packages", image)
    place = engine.user.home / "repository"
    if not place.exists():
        place.mkdir()
        for file in repository.iterdir():
            (place / file.name).write_bytes(file.read_bytes())
    installed = engine.sarus("run", "--name", name, "--keep", "--remap-root", "--mount", f"type=bind,src={place},dst=/repository,ro", reference,
                             "sh", "-c", "apt-get update && apt-get install -y tool")
    assert installed.returncode == 0 and "configured" in installed.stdout, installed.stdout + installed.stderr
    assert fine(engine.sarus("run", "--name", name, reference, "sh", "-c", "tool; dpkg --status tool | grep ^Status")) == "the tool\nStatus: install ok installed\n"


def test_a_program_of_32_bits_is_served_alike(engine, inside, images, load_image, tmp_path):
    """Its calls have other numbers."""
    source = tmp_path / "chown.c"
    source.write_text("""
int main(void) {
    long result; /* setuid32(7) */
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(213L), "b"(7L) : "memory");
    return result == 0 ? 0 : 1;
}
""")
    program = tmp_path / "thirty-two"
    subprocess.run(["cc", "-static", "-O1", "-o", str(program), str(source)], check=True)
    reference = load_image(engine, "thirty-two", images.busybox(extra=lambda layer: layer.file("thirty-two", program.read_bytes(), mode=0o755)))
    result = engine.sarus("run", "--remap-root", reference, "/thirty-two")
    assert result.returncode in (0, 128 + 11), result  # a kernel without such programs ends them


def test_a_program_may_become_somebody_else_at_once(engine, images, load_image, tmp_path):
    """Before anybody has looked at it."""
    program = compile_c(tmp_path / "become", "#include <unistd.h>\nint main(void) { return setgid(7) || setuid(7) || usleep(100000); }", ["-static"])
    reference = load_image(engine, "become", images.busybox(extra=lambda layer: layer.file("become", program.read_bytes(), mode=0o755)))
    for _ in range(5):
        fine(engine.sarus("run", "--remap-root", reference, "/become"))


def test_files_of_the_user_stay_the_users(engine, inside):
    directory = engine.user.home / f"remap-{next(NUMBERS)}"
    directory.mkdir()
    engine.user.own(directory)
    fine(inside(f"echo text > {directory}/file; chown 0:0 {directory}/file; stat -c %u {directory}", "--mount", f"type=bind,src={directory},dst={directory}"))
    assert (directory / "file").stat().st_uid == engine.user.uid


def test_nothing_of_the_node_opens_to_root_inside(engine, inside):
    """Not by capabilities, mounts, modules, nor what belongs to root or another user there."""
    script = """
    cat /proc/1/environ /proc/1/root/etc/shadow >/dev/null 2>&1 && echo init
    mount -t tmpfs none /mnt 2>/dev/null && echo mount
    mount --bind / /mnt 2>/dev/null && echo bind
    hostname other 2>/dev/null && test "$(hostname)" = other && echo hostname
    kill -0 1 2>/dev/null && echo kill
    (echo 1 > /proc/sys/kernel/printk) 2>/dev/null && echo sysctl
    for file in /host/*; do cat $file >/dev/null 2>&1 && echo $file; done
    (: > /host/public) 2>/dev/null && echo written
    grep NoNewPrivs /proc/self/status
    """
    directory = engine.user.home / f"foreign-{next(NUMBERS)}"
    directory.mkdir()
    (directory / "public").write_text("public")
    (directory / "secret").write_text("secret")
    (directory / "secret").chmod(0o600)
    (directory / "public").chmod(0o644)
    if os.geteuid() == 0:
        other = pwd.getpwnam("nobody")
        for file in ("secret", "public"):
            os.chown(directory / file, other.pw_uid, other.pw_gid)
    said = fine(inside(script, "--mount", f"type=bind,src={directory},dst=/host"))
    if engine.mode != "root":
        assert said.split()[-2:] == ["NoNewPrivs:", "1"] and "/host/public" in said
        assert not {"init", "mount", "bind", "hostname", "kill", "sysctl"} & set(said.split())
    if os.geteuid() == 0 and engine.mode != "root":
        assert "/host/secret" not in said and (directory / "public").read_text() == "public"


def test_such_a_container_is_listed_entered_and_ended(engine, busybox, name):
    with engine.standing(busybox, "--name", name, "--remap-root") as process:
        assert names(engine)[name] == "running"
        assert fine(engine.sarus("exec", name, "sh", "-c", "id -u; echo $HOME; chown 5:5 /etc && echo fine")) == "0\n/root\nfine\n"
        assert f"Container:      {name}\n" in fine(engine.sarus("inspect", name))
        assert name in fine(engine.sarus("ps", "--quiet")).split()
        fine(engine.sarus("kill", "--signal", "KILL", name))
        assert process.wait(timeout=300) == 128 + 9
    assert name not in names(engine)


def test_what_root_installs_is_kept_for_the_user(engine, busybox, name):
    script = "echo 'echo installed' > /usr/bin/tool; chmod 755 /usr/bin/tool; chown 3:3 /usr/bin/tool"
    fine(engine.sarus("run", "--name", name, "--keep", "--remap-root", busybox, "sh", "-c", script))
    assert names(engine, "--all")[name] == "stopped"
    assert fine(engine.sarus("run", "--name", name, busybox, "sh", "-c", "tool; id -u")) == f"installed\n{engine.user.uid}\n"
    assert fine(engine.sarus("run", "--name", name, "--remap-root", busybox, "sh", "-c", "tool; id -u; echo again > /usr/bin/other")) == "installed\n0\n"
    assert f"Container:      {name}\n" in fine(engine.sarus("inspect", name))
    assert fine(engine.sarus("rm", name)) == f"{name}\n"
    assert name not in names(engine, "--all")


def test_users_that_packages_add_stay(engine, busybox, name):
    run = ("run", "--name", name)
    fine(engine.sarus(*run, "--keep", "--remap-root", busybox, "sh", "-c", "echo 'tool:x:990:990::/:/bin/sh' >> /etc/passwd"))
    assert "tool:" in fine(engine.sarus(*run, busybox, "cat", "/etc/passwd"))
    assert fine(engine.sarus(*run, busybox, "id", "-un")).strip() == engine.user.name
    assert "tool:" in fine(engine.sarus(*run, "--remap-root", busybox, "cat", "/etc/passwd"))


def test_such_a_container_is_saved_with_all_that_root_sees(request, engine, busybox, name):
    script = ("echo secret > /srv; chmod 600 /srv; chown 3:4 /srv; mkdir /closed; echo deep > /closed/file; chmod 0 /closed; "
              "echo 'tool:x:990:990::/:/bin/sh' >> /etc/passwd")
    fine(engine.sarus("run", "--name", name, "--keep", "--remap-root", busybox, "sh", "-c", script))
    file = engine.user.home / f"{name}.squashfs"
    saved = engine.sarus("save", name, file)
    assert (saved.returncode, saved.stderr) == (0, ""), saved
    said = fine(engine.sarus("run", "--remap-root", file, "sh", "-c", "cat /srv /closed/file; grep tool /etc/passwd"))
    assert said == "secret\ndeep\ntool:x:990:990::/:/bin/sh\n"
    listed = subprocess.run(["unsquashfs", "-lln", file, "srv"], check=True, capture_output=True, text=True).stdout
    owner = "3/4" if "subordinate" in request.node.callspec.id else "0/0"  # a single id: it only looks changed
    assert re.search(rf"{owner} .* squashfs-root/srv$", listed, re.MULTILINE), listed
    file.unlink()


def test_a_container_that_began_without_root_says_so(engine, busybox, name):
    fine(engine.sarus("run", "--name", name, "--keep", busybox, "true"))
    result = engine.sarus("run", "--name", name, "--remap-root", busybox, "true")
    assert result.returncode != 0 and f"'sarus rm {name}' removes it" in result.stderr and "without --remap-root" in result.stderr


def test_a_dry_run_shows_it(engine, busybox):
    said = fine(engine.sarus("run", "--dry-run", "--remap-root", busybox, "id"))
    assert "root" in said
