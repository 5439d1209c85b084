"""What keys of sarus.json do to containers and images, through the installed programs: one test for each key which no other file looks at."""

import fcntl
import json
import os
import re
import stat
import struct
import subprocess

import pytest
import test_kills
from helpers import installation, system

pytestmark = pytest.mark.asroot


@pytest.fixture(scope="module")
def prefixes(make_setuid_prefix, make_rootless_prefix):
    return {"setuid": make_setuid_prefix("configured"), "rootless": make_rootless_prefix("configured")}


@pytest.fixture(params=["setuid", "rootless"])
def mode(request):
    return request.param


@pytest.fixture
def site_engine(mode, engines, prefixes):
    """An engine whose installation belongs to these tests."""
    return engines(mode, "crun").variant(prefix=prefixes[mode])


@pytest.fixture
def configured(site_engine):
    """configured(**keys of sarus.json) -> the engine with this configuration, until the end of the test."""
    path = site_engine.prefix / "etc" / "sarus.json"
    before = path.read_text()

    def change(**keys):
        installation.set_configuration(site_engine.prefix, **keys)
        return site_engine

    yield change
    path.write_text(before)


@pytest.fixture
def image(site_engine, load_image, plain_busybox):
    return load_image(site_engine, "busybox", plain_busybox)


def variables(engine, image, **keywords):
    return dict(line.split("=", 1) for line in engine.output(image, "env", **keywords).splitlines() if "=" in line)


@pytest.mark.parametrize("key, host, expected", [
    ({"set": {"SITE": "site", "BOTH": "site"}}, {"BOTH": "host"}, {"SITE": "site", "BOTH": "site"}),
    ({"prepend": {"LIST": "/first:/second", "NEW": "alone"}}, {"LIST": "/host"}, {"LIST": "/first:/second:/host", "NEW": "alone"}),
    ({"append": {"LIST": "/last", "NEW": "alone"}}, {"LIST": "/host"}, {"LIST": "/host:/last", "NEW": "alone"}),
    ({"unset": ["SECRET", "ABSENT"]}, {"SECRET": "host", "KEPT": "host"}, {"SECRET": None, "KEPT": "host"}),
    ({"set": {"LIST": "set", "GONE": "set"}, "prepend": {"LIST": "a"}, "append": {"LIST": "z"}, "unset": ["GONE"]}, {"LIST": "host"},
     {"LIST": "a:set:z", "GONE": None}),
], ids=["set", "prepend", "append", "unset", "in this order"])
def test_environment(configured, image, key, host, expected):
    found = variables(configured(environment=key), image, env=host)
    assert {name: found.get(name) for name in expected} == expected


def test_environment_gives_way_to_the_command_line(configured, image):
    engine = configured(environment={"set": {"BOTH": "site"}, "unset": ["GONE"]})
    found = variables(engine, image, options=["-eBOTH=option", "-eGONE=option"])
    assert (found["BOTH"], found["GONE"]) == ("option", "option")


@pytest.fixture
def site_files(opt, mode):
    """A folder which in set-user-ID mode only root can reach."""
    directory = opt / f"site-files-{mode}"
    (directory / "inside").mkdir(parents=True)
    (directory / "inside" / "file").write_text("of the site")
    (directory / "inside").chmod(0o777)
    directory.chmod(0o700 if mode == "setuid" else 0o755)
    yield directory / "inside"
    for path in (directory / "inside" / "new", directory / "inside" / "file"):
        path.unlink(missing_ok=True)
    (directory / "inside").rmdir()
    directory.rmdir()


def test_site_mounts(configured, image, site_files):
    """Reached with the rights of the site, which the rules for users do not bind, and below what users mount."""
    engine = configured(siteMounts=[{"type": "bind", "source": str(site_files), "destination": "/etc/site/writable"},
                                    {"type": "bind", "source": str(site_files), "destination": "/etc/site/fixed", "flags": {"readonly": ""}}],
                        userMounts={"notAllowedPrefixesOfPath": ["/etc"]})
    script = "cat /etc/site/fixed/file; echo; echo x > /etc/site/writable/new && echo written; echo x > /etc/site/fixed/new || echo refused"
    result = engine.run(image, "sh", "-c", script)
    assert result.stdout.split("\n") == ["of the site", "written", "refused", ""] and "Read-only file system" in result.stderr
    assert (site_files / "new").read_text() == "x\n"


def test_site_mount_lies_below_those_of_the_user(configured, image, site_files, workspace):
    other = workspace / "of-the-user"
    other.mkdir(exist_ok=True)
    (other / "file").write_text("of the user")
    engine = configured(siteMounts=[{"type": "bind", "source": str(site_files), "destination": "/site"}])
    assert engine.output(image, "cat", "/site/file", options=[f"--mount=type=bind,src={other},dst=/site"]) == "of the user"


def test_site_mount_without_a_source_names_it(configured, image):
    engine = configured(siteMounts=[{"type": "bind", "source": "/no/such/source", "destination": "/site"}])
    result = engine.run(image, "true", check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines()[0] == ("Failed to bind mount /no/such/source on container's /site: "
                                             "Failed to find real path for mount source: No such file or directory")


def test_site_devices(configured, image, mode, workspace):
    """With the access that the site gives, which only the set-user-ID starter can enforce."""
    node = workspace / f"site-device-{mode}"
    os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(10, 237))  # /dev/loop-control
    node.chmod(0o666)
    engine = configured(siteDevices=[{"source": str(node), "destination": "/dev/site", "access": "r"}, {"source": "/dev/null", "destination": "/dev/hole"}])
    script = "echo gone > /dev/hole && echo hole; (: < /dev/site) && echo read; (: >> /dev/site) && echo written"
    result = engine.run(image, "sh", "-c", script, check=False)
    assert result.stdout.split() == (["hole", "read"] if mode == "setuid" else ["hole", "read", "written"])
    assert ("/dev/site: Operation not permitted" in result.stderr) == (mode == "setuid")


def test_device_of_the_site_is_not_mounted_for_the_user_again(configured, image):
    engine = configured(siteDevices=[{"source": "/dev/null", "destination": "/dev/site"}])
    result = engine.run(image, "sh", "-c", "test -c /dev/site && echo site; test -e /dev/mine || echo no more", options=["--device=/dev/null:/dev/mine:rw"])
    assert result.stdout == "site\nno more\n"
    assert re.fullmatch(r"\[[\d.]+\] \[\S+-\d+\] \[Runtime\] \[WARN\] Skipping device request '/dev/null:/dev/mine:rw': the device /dev/null is "
                        r"already in every container by the site's configuration\n", result.stderr)


@pytest.mark.parametrize("value", ["tmpfs", "ramfs"])
def test_ram_filesystem_type(configured, image, mode, value):
    """Without privileges it is always tmpfs: the kernel's overlay keeps attributes there which ramfs has not."""
    engine = configured(ramFilesystemType=value)
    lines = engine.output(image, "cat", "/proc/self/mountinfo").splitlines()
    types = {line.split()[4]: line.split(" - ")[1].split()[0] for line in lines}
    assert types["/dev"] == (value if mode == "setuid" else "tmpfs")
    assert engine.output(image, "sh", "-c", "echo kept > /tmp/file && cat /tmp/file") == "kept"


@pytest.fixture
def precreate_hooks(configured, opt, mode):
    """precreate_hooks({name: (script, conditions)}) -> the folder for hooksDir."""
    owner = configured().user if mode == "rootless" else None
    directory = (owner.home if owner else opt) / "precreate-hooks"

    def make(hooks):
        directory.mkdir()
        for name, (script, when) in hooks.items():
            program = directory / name
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
            (directory / f"{name}.json").write_text(json.dumps({
                "version": "1.0.0", "hook": {"path": str(program), "env": ["PATH=/usr/bin:/bin"]}, "when": when, "stages": ["precreate"]}))
        for path in (directory, *directory.iterdir()) if owner else ():
            os.chown(path, owner.uid, owner.gid)
        return str(directory)

    yield make
    subprocess.run(["rm", "-rf", str(directory)], check=True)


@pytest.fixture
def printed_configuration(configured, precreate_hooks, workspace, mode):
    """printed_configuration(**keys) -> (engine, file): a hook writes there what the OCI runtime gets for a container."""
    record = workspace / f"config-{mode}.json"
    record.write_text("")
    record.chmod(0o666)
    directory = precreate_hooks({"print": (f"exec tee {record}", {"always": True})})
    return lambda **keys: (configured(hooksDir=directory, **keys), record)


def test_rootfs_folder(printed_configuration, image):
    engine, record = printed_configuration(rootfsFolder="of-the-container")
    assert engine.output(image, "echo", "runs") == "runs"
    assert os.path.basename(json.loads(record.read_text())["root"]["path"]) == "of-the-container"


def test_bundle_directory(printed_configuration, image, mode, opt):
    """Without privileges the bundle is in a folder of the user's instead."""
    other = opt / f"other-bundle-{mode}"
    other.mkdir(exist_ok=True)
    engine, record = printed_configuration(OCIBundleDir=str(other))
    engine.run(image, "true", options=["--annotation=site.test=1"])
    annotations = json.loads(record.read_text())["annotations"]
    assert annotations["com.hooks.logging.stderrfd"].startswith(f"{other}/") == (mode == "setuid")
    assert list(other.iterdir()) == []


def test_prefix_dir(configured, image, opt, mode):
    """Where the files are which become those of the container."""
    other = opt / f"other-prefix-{mode}"
    other.mkdir()
    subprocess.run(["cp", "-a", str(configured().prefix / "etc"), str(other / "etc")], check=True)
    user = configured().user
    (other / "etc/passwd").write_text(f"{user.name}:x:{user.uid}:{user.gid}:of another prefix:/:/bin/sh\n")
    engine = configured(prefixDir=str(other))
    assert engine.output(image, "cat", "/etc/passwd").endswith(f":{user.gid}:of another prefix:/:/bin/sh")


def superblock(path):
    """(bytes of a block, number of the compressor) of a squashfs file."""
    with open(path, "rb") as file:
        head = file.read(22)
    return struct.unpack_from("<I", head, 12)[0], struct.unpack_from("<H", head, 20)[0]


@pytest.mark.parametrize("options, expected", [("-comp gzip -b 65536", (65536, 1)), ("-comp zstd -b 1M", (1 << 20, 6)), ("-b 262144 -comp lz4", (262144, 5))])
def test_mksquashfs_options(configured, images, plain_busybox, options, expected):
    engine = configured(mksquashfsOptions=options)
    reference = engine.load(images.archive(plain_busybox, "squashed"), "squashed")
    try:
        assert superblock(engine.user.home / ".sarus/images/load/library/squashed/latest.squashfs") == expected
    finally:
        engine.sarus("rmi", reference)


@pytest.mark.parametrize("mode", ["setuid"], indirect=True)
@pytest.mark.parametrize("value, by_kernel", [("kernel", True), ("fuse", False), ("kernel-for-root-owned", False)])
def test_image_mount(configured, image, home_base, value, by_kernel):
    """Who reads the file system of an image which is a user's: the kernel, from a loop device, or a process of the user's."""
    engine = configured(imageMount=value).variant(sandbox=("--fuse",))
    process = engine.start("run", image, "sh", "-c", "echo ready; read line")
    try:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        devices = [name for name, file in system.loop_devices().items() if file.startswith(str(home_base))]
        servers = [name for name in test_kills.children(process.pid) if name == "sarus-squashfs"]
        assert (len(devices), len(servers)) == ((1, 0) if by_kernel else (0, 1))
    finally:
        process.communicate("\n", timeout=300)
    assert process.returncode == 0


def test_default_mpi_type(configured, precreate_hooks, image):
    """Of two hooks for two types, `--mpi` alone chooses the one of the default type."""
    directory = precreate_hooks({name: (f"exec sed 's/CHOSEN=none/CHOSEN={name}/'", {"annotations": {
        "^com.hooks.mpi.enabled$": "^true$", "^com.hooks.mpi.type$": f"^{name}$"}}) for name in ("mpi0", "mpi1")})
    engine = configured(hooksDir=directory, defaultMPIType="mpi1")
    for options, chosen in (["--mpi"], "mpi1"), (["--mpi-type=mpi0"], "mpi0"), ([], "none"):
        assert variables(engine, image, options=[*options, "-eCHOSEN=none"])["CHOSEN"] == chosen, options
    configured(defaultMPIType=None)
    assert variables(engine, image, options=["--mpi", "-eCHOSEN=none"])["CHOSEN"] == "none"


@pytest.mark.parametrize("rules, refused", [
    (None, {}),
    ({}, {}),
    ({"notAllowedPrefixesOfPath": ["/etc"]}, {"/etc/made": "destination cannot be a subdirectory of '/etc'"}),
    ({"notAllowedPaths": ["/opt"]}, {"/opt": "'/opt' is not allowed as mount destination"}),
], ids=["absent", "empty", "prefixes alone", "paths alone"])
def test_user_mounts(configured, image, workspace, rules, refused):
    (workspace / "images").mkdir(exist_ok=True)
    engine = configured(userMounts=rules)
    for destination in ("/etc/made", "/etcetera", "/opt", "/opt/below"):
        request = f"type=bind,src={workspace},dst={destination}"
        result = engine.run(image, "test", "-d", f"{destination}/images", options=[f"--mount={request}"], check=False)
        if destination in refused:
            assert result.returncode == 1 and result.stderr.splitlines()[0] == f"Invalid mount request '{request}': {refused[destination]}"
            assert "userMounts in the site's sarus.json reserves this place: choose another destination" in result.stderr
        else:
            assert (result.returncode, result.stderr) == (0, ""), destination


@pytest.mark.parametrize("directory, message", [("/proc/sys", "destination cannot be a subdirectory of '/proc'"),
                                                ("/dev", "'/dev' is not allowed as mount destination")])
def test_user_mounts_never_hide_what_is_the_engines(configured, image, workspace, directory, message):
    request = f"type=bind,src={workspace},dst={directory}"
    result = configured(userMounts=None).run(image, "true", options=[f"--mount={request}"], check=False)
    assert (result.returncode, result.stderr.splitlines()[0]) == (1, f"Invalid mount request '{request}': {message}")
    assert "userMounts" not in result.stderr


def test_repository_metadata_lock_timings(configured, image):
    engine = configured(repositoryMetadataLockTimings={"timeoutMs": 500, "warningMs": 200})
    index = engine.user.home / ".sarus" / "metadata.json"
    with open(index, "rb") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        result = engine.sarus("rmi", image)
        assert engine.sarus("images").returncode == 0
        assert engine.output(image, "echo", "no lock") == "no lock"
    assert (result.returncode, result.stdout) == (1, "")
    *warnings, error, hint = result.stderr.splitlines()
    assert [re.sub(r"^\[[\d.]+\] \[\S+-\d+\] ", "", line) for line in warnings] == [
        f'[Flock] [WARN] Still attempting to acquire lock on file "{index}" after {elapsed} ms (will timeout after 500 milliseconds)...'
        for elapsed in (200, 400)]
    assert error == f'Failed to acquire lock on file "{index}" (expired timeout of 500 milliseconds)'
    assert hint.startswith("Another command is using the repository")


@pytest.fixture(scope="module")
def signer(workspace):
    """(environment of skopeo, fingerprint, public key file) of a key pair without a passphrase."""
    home = workspace / "gnupg"
    home.mkdir(mode=0o700)
    environment = {"GNUPGHOME": str(home), "PATH": system.PATH, "HOME": str(home)}

    def gpg(*arguments):
        return subprocess.run([system.program("gpg"), "--batch", "--passphrase", "", *arguments], env=environment, check=True, capture_output=True).stdout

    gpg("--quick-gen-key", "tester@sarus.test", "rsa2048", "sign", "never")
    fingerprint = re.search(r"^fpr:+([0-9A-F]+):", gpg("--list-keys", "--with-colons").decode(), re.M)[1]
    public = workspace / "signer.gpg"
    public.write_bytes(gpg("--export", fingerprint))
    yield environment, fingerprint, public
    subprocess.run([system.program("gpgconf"), "--kill", "all"], env=environment, check=False, capture_output=True)


@pytest.mark.parametrize("mode", ["setuid"], indirect=True)
def test_containers_registries_directory(configured, registry, images, signer, workspace):
    """It says where the signatures are which the policy asks for."""
    environment, fingerprint, public = signer
    registries = workspace / "registries.d"
    registries.mkdir()
    signatures = workspace / "signatures"
    (registries / "test.yaml").write_text(f"docker:\n  {registry.host}:\n    lookaside: file://{signatures}\n")
    policy = workspace / "signed.json"
    policy.write_text(json.dumps({"default": [{"type": "reject"}], "transports": {"docker": {registry.host: [
        {"type": "signedBy", "keyType": "GPGKeys", "keyPath": str(public)}]}}}))
    references = {name: registry.push(images.busybox(extra=lambda layer, text=name: layer.file("name", text)), f"library/{name}:1")
                  for name in ("signed", "unsigned")}
    subprocess.run([system.program("skopeo"), "--insecure-policy", "--registries.d", str(registries), "copy", "--quiet", "--src-tls-verify=false",
                    "--dest-tls-verify=false", "--sign-by", fingerprint, f"docker://{references['signed']}", f"docker://{references['signed']}"],
                   env=environment, check=True, capture_output=True)
    subprocess.run(["chmod", "-R", "a+rX", str(signatures)], check=True)
    keys = {"containersPolicy": {"path": str(policy), "enforce": True}}

    unknown = configured(**keys).sarus("pull", references["signed"])
    assert unknown.returncode == 1 and "does not accept this image" in unknown.stderr
    engine = configured(**{**keys, "containersRegistries.dPath": str(registries)})
    signed = engine.sarus("pull", references["signed"])
    assert signed.returncode == 0, signed.stderr
    assert engine.output(references["signed"], "cat", "/name") == "signed"
    unsigned = engine.sarus("pull", references["unsigned"])
    assert unsigned.returncode == 1 and "does not accept this image" in unsigned.stderr
    engine.sarus("rmi", references["signed"])
