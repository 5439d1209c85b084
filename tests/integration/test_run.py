"""sarus run: what a container is, for each way of holding privileges and both OCI runtimes."""

import contextlib
import grp
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import stat
import struct
import subprocess
import tempfile

import pytest
from helpers import system
from helpers.images import Layer


def status_fields(engine, image, options=()):
    text = engine.output(image, "cat", "/proc/self/status", options=options)
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def variables(text):
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


@pytest.fixture
def special(engine, load_image, images):
    """special(name, config=None, extra=None): the reference of an image of this test's own."""

    def make(name, config=None, extra=None, layers=()):
        return load_image(engine, name, images.busybox(config, extra, layers))

    return make


# Identity and privileges


def test_process_has_the_callers_ids(engine, busybox):
    assert engine.output(busybox, "id", "-u") == str(engine.user.uid)
    assert engine.output(busybox, "id", "-g") == str(engine.user.gid)


def test_all_four_ids_are_the_callers(engine, busybox):
    fields = status_fields(engine, busybox)
    assert fields["Uid"].split() == [str(engine.user.uid)] * 4
    assert fields["Gid"].split() == [str(engine.user.gid)] * 4


def test_caller_has_a_name_in_the_container(engine, busybox):
    assert engine.output(busybox, "id", "-un") == engine.user.name


def test_supplementary_groups_are_kept(engine, busybox):
    expected = set(engine.user.groups) | {engine.user.gid}
    found = {int(gid) for gid in status_fields(engine, busybox)["Groups"].split()} | {engine.user.gid}
    if engine.rootless:
        # A user namespace cannot name groups that it does not map; the access that they give is tested below.
        assert found <= expected | {65534}
    else:
        assert found == expected


@pytest.mark.asroot
def test_supplementary_groups_give_access(engine, busybox, workspace):
    if engine.mode == "root":
        return  # root reads everything
    secret = workspace / "group-secret"
    secret.write_text("for members")
    os.chown(secret, 0, max(engine.user.groups))
    secret.chmod(0o640)
    options = [f"--mount=type=bind,source={workspace},destination={workspace}"]
    assert engine.output(busybox, "cat", secret, options=options) == "for members"


def test_no_capability_in_any_set(engine, busybox):
    fields = status_fields(engine, busybox)
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(fields[name], 16) == 0, name


def test_no_new_privileges_is_set(engine, busybox):
    assert status_fields(engine, busybox)["NoNewPrivs"] == "1"


def test_set_user_id_program_of_the_image_gives_nothing(engine, special):
    def add_setuid(layer):
        layer.directory("opt/setuid").file("opt/setuid/busybox", pathlib.Path("/bin/busybox").read_bytes(), mode=0o6755)

    image = special("setuid-program", extra=add_setuid)
    fields = dict(line.split(":\t", 1) for line in engine.output(image, "/opt/setuid/busybox", "cat", "/proc/self/status").splitlines()
                  if ":\t" in line)
    assert fields["Uid"].split() == [str(engine.user.uid)] * 4


@pytest.mark.parametrize("options", [[], ["--pid=private", "--read-only", "--init", "--device=/dev/zero:/dev/another-zero"]], ids=["plain", "all"])
def test_every_filesystem_is_nosuid(engine, busybox, workspace, options):
    mount = f"--mount=type=bind,source={workspace},destination=/mnt"
    lines = engine.output(busybox, "cat", "/proc/self/mountinfo", options=[mount, *options]).splitlines()
    points = {line.split()[4]: line.split()[5].split(",") for line in lines}
    assert {"/", "/mnt", "/dev", "/proc", "/sys"} <= points.keys()
    if engine.rootless:  # no id of the host's means anything in the user namespace
        assert all("nosuid" in points[point] for point in ("/", "/mnt", "/dev"))
        return
    hidden = {"/proc/scsi", "/sys/firmware"} if "runc" in engine.runtime else set()  # by runc's own empty file system
    assert [point for point, flags in points.items() if "nosuid" not in flags and not (point in hidden and "ro" in flags)] == []
    assert all({"nosuid", "nodev", "noexec"} <= set(points[point]) for point in ("/proc", "/sys"))
    assert all("ro" in points[point] for point in ("/proc/sys", "/proc/irq", "/sys/firmware"))


def test_keeps_the_callers_umask(engine, busybox):
    argv, identity = engine.command("run", busybox, "sh", "-c", "umask")
    result = subprocess.run(argv, umask=0o027, env=engine.user.environment(), cwd=engine.user.home, capture_output=True, text=True, **identity)
    assert result.stdout.strip() == "0027", result.stderr


def test_keeps_the_callers_cpus_and_limits(engine, busybox):
    cpu = min(os.sched_getaffinity(0))

    def restrict():
        os.sched_setaffinity(0, {cpu})
        resource.setrlimit(resource.RLIMIT_NOFILE, (777, 1234))
        resource.setrlimit(resource.RLIMIT_CORE, (4096, 8192))

    argv, identity = engine.command("run", busybox, "sh", "-c", "grep Cpus_allowed_list /proc/self/status; ulimit -Sn; ulimit -Hn; ulimit -Sc")
    result = subprocess.run(argv, preexec_fn=restrict, env=engine.user.environment(), cwd=engine.user.home, capture_output=True, text=True, **identity)
    assert result.stdout.split()[1:] == [str(cpu), "777", "1234", "8"], result.stderr


LIMITS = {"FSIZE": ("Max file size", 8192, 256 << 20), "AS": ("Max address space", 900 << 20, 4 << 30), "DATA": ("Max data size", 100 << 20, 2 << 30),
          "CPU": ("Max cpu time", 7, 3000), "NOFILE": ("Max open files", 777, 1234), "CORE": ("Max core file size", 4096, 8192)}


def test_limits_that_the_start_needs_raised_are_given_back(engine, busybox):
    """Soft and hard ones, as the caller had them."""
    def restrict():
        for name, (_, soft, hard) in LIMITS.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (soft, hard))

    argv, identity = engine.command("run", busybox, "cat", "/proc/self/limits")
    result = subprocess.run(argv, preexec_fn=restrict, env=engine.user.environment(), cwd=engine.user.home, capture_output=True, text=True,
                            timeout=300, **identity)
    assert result.returncode == 0, result.stderr
    found = {line[:26].strip(): line[26:].split()[:2] for line in result.stdout.splitlines()}
    assert {title: found[title] for title, _, _ in LIMITS.values()} == {title: [str(soft), str(hard)] for title, soft, hard in LIMITS.values()}


# The root filesystem


def test_files_written_in_the_container_are_gone_with_it(engine, busybox):
    assert engine.output(busybox, "sh", "-c", "echo x > /tmp/file && cat /tmp/file") == "x"
    assert engine.run(busybox, "test", "-e", "/tmp/file", check=False).returncode == 1


def test_user_can_write_to_the_root_filesystem(engine, busybox):
    if engine.rootless or engine.mode == "root":
        assert engine.output(busybox, "sh", "-c", "echo x > /opt/file && cat /opt/file") == "x"
    else:
        # The image was imported by the user, so its directories are the user's.
        assert engine.output(busybox, "sh", "-c", "echo x > /opt/file && cat /opt/file && stat -c %u /opt/file") == f"x\n{engine.user.uid}"


@pytest.mark.parametrize("name", ["hosts", "resolv.conf"])
def test_network_files_are_the_nodes(engine, busybox, name):
    assert engine.output(busybox, "cat", f"/etc/{name}") == pathlib.Path(f"/etc/{name}").read_text().rstrip("\n")


NO_FILE = {"absent": "rm -f {0}", "dangling": "ln -sfn /run/nowhere/file {0}", "unreadable": "echo secret > {0}; chmod 600 {0}"}


@pytest.mark.asroot
@pytest.mark.parametrize("kind", NO_FILE)
def test_a_node_without_network_files_for_its_users_runs_containers(user_engine, load_image, images, kind):
    """The image's files stay; what only root may read does not reach the user."""
    image = load_image(user_engine, "own-hosts", images.busybox(extra=lambda layer: layer.file("etc/hosts", "image's\n")))
    remove = "; ".join(NO_FILE[kind].format(f"/etc/{name}") for name in ("hosts", "resolv.conf"))
    # Above the real /etc, or not at all: nothing of it may change.
    node = "set -e; mount -t tmpfs tmpfs /mnt; mkdir /mnt/upper /mnt/work; chmod 755 /mnt/upper; " \
           "mount -t overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work overlay /etc; " \
           f"test $(stat -f -c %T /etc) = overlayfs; umount -l /mnt; {remove}; " \
           "rm -f /etc/localtime /etc/machine-id /etc/hostname /etc/timezone /etc/nsswitch.conf"
    engine = user_engine.variant(sandbox=(*user_engine.sandbox, "--node", node))
    result = engine.run(image, "sh", "-c", "cat /etc/hosts; test -e /etc/resolv.conf || echo none")
    assert result.stdout == "image's\nnone\n"
    warnings = result.stderr.splitlines()
    assert len(warnings) == (2 if kind == "unreadable" else 0), result.stderr
    assert all("Permission denied. The container has the image's file, if any" in line for line in warnings), result.stderr


def time_zone(hours):
    """A file of /usr/share/zoneinfo (RFC 8536)."""
    block = struct.pack(">5s15x6I", b"TZif2", 0, 0, 0, 0, 1, 4) + struct.pack(">iBB", hours * 3600, 0, 0) + b"XYZ\0"
    return block + block + f"\nXYZ{-hours}\n".encode()


@pytest.mark.asroot
def test_clocks_show_the_time_zone_of_the_node_or_of_the_variable(user_engine, load_image, images, workspace):
    (workspace / "zone").write_bytes(time_zone(9))
    (workspace / "zone").chmod(0o644)
    node = "set -e; mount -t tmpfs tmpfs /mnt; mkdir /mnt/upper /mnt/work; chmod 755 /mnt/upper; " \
           "mount -t overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work overlay /etc; umount -l /mnt; " \
           f"rm -f /etc/localtime; cp {workspace}/zone /etc/localtime"
    engine = user_engine.variant(sandbox=(*user_engine.sandbox, "--node", node))
    images_of = {"link": lambda layer: layer.symlink("etc/localtime", "/usr/share/zoneinfo/UTC"), "none": lambda layer: layer.directory("opt")}
    for name, extra in images_of.items():
        image = load_image(user_engine, f"zone-{name}", images.busybox(extra=extra))
        assert engine.output(image, "date", "+%z") == "+0900", name
        assert engine.output(image, "date", "+%z", env={"TZ": "ABC-5"}) == "+0500", name
    image = load_image(user_engine, "zone-directory", images.busybox(extra=lambda layer: layer.directory("etc/localtime")))
    assert engine.output(image, "echo", "started") == "started"


def test_directories_of_volumes_exist_and_belong_to_the_user(user_engine, load_image, images):
    """The image may name anything: the container starts."""
    config = {"Volumes": {"/data/deep": {}, "relative": {}, "/dev/ptmx": {}, "/proc/x": {}, "/etc/passwd/x": {}, "/..": {}, "/there": {}, "": {}}}
    image = load_image(user_engine, "volumes", images.busybox(config, extra=lambda layer: layer.directory("there").file("there/file", "of the image\n")))
    script = "touch /data/deep/file /relative/file && cat /there/file && stat -c %u:%a /data/deep"
    assert user_engine.output(image, "sh", "-c", script).splitlines() == ["of the image", f"{user_engine.user.uid}:755"]


@pytest.mark.asroot  # its users live where the passwd file says
def test_an_empty_environment_is_as_good_as_an_ordinary_one(user_engine, registry, load_image, images):
    """Of `env -i` and `srun --export=NONE`, with an image that sets no PATH."""
    plain = images.busybox({"Env": []})
    image, pulled = load_image(user_engine, "no-variables", plain), registry.push(plain, "no-variables")
    script = "echo $HOME $USER; echo :$PATH: | grep -o :/usr/sbin:; id -un; ls -d $HOME; busybox true && echo done"
    for arguments in (["pull", pulled], ["images"], ["inspect", image], ["run", "--home", image, "sh", "-c", script], ["run", pulled, "sh", "-c", script], ["ps"],
                      ["hooks"], ["df"], ["prune", "--force"], ["rmi", pulled]):
        argv, identity = user_engine.launched_by(["env", "-i"], *arguments)
        bare = subprocess.run(argv, env=user_engine.user.environment(), cwd=user_engine.user.home, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300, **identity)
        usual = user_engine.sarus(*arguments, env={"TERM": None, "LANG": None, "LOGNAME": None})
        if arguments[0] in ("run", "images", "inspect", "ps", "hooks", "df"):
            assert (bare.stdout, bare.returncode) == (usual.stdout, 0), (arguments, bare.stderr)
        assert bare.returncode == 0, (arguments, bare.stderr)


def test_locales_that_the_image_lacks_are_not_set(user_engine, load_image, images):
    def archive():
        names = b"de_DE.utf8\0fr_FR\0"
        return struct.pack("<7I", 0xDE020109, 0, 0, 0, 0, 28, len(names)) + names

    image = load_image(user_engine, "locales", images.busybox(extra=lambda layer: layer.directory("usr").directory("usr/lib").directory("usr/lib/locale")
                       .directory("usr/lib/locale/it_IT.utf8").file("usr/lib/locale/it_IT.utf8/LC_CTYPE", "").file("usr/lib/locale/locale-archive", archive())))
    show = ["sh", "-c", "echo $LANG:$LC_ALL"]
    for name, known in (("de_DE.UTF-8", True), ("fr_FR", True), ("it_IT.UTF-8", True), ("C.UTF-8", True), ("POSIX", True), ("en_US.UTF-8", False),
                        ("de_DE", False), ("../../../etc", False)):
        assert user_engine.output(image, *show, env={"LANG": name, "LC_ALL": None}) == f"{name if known else ''}:", name
    chosen = {"LANG": "nl_NL", "LC_ALL": "nl_BE"}
    assert user_engine.output(image, *show, options=["--env=LANG", "--env=LC_ALL=mine"], env=chosen) == "nl_NL:mine"
    with user_engine.standing(image, "--name=locales", env={"LANG": "nl_NL"}):
        assert user_engine.sarus("exec", "--env=LC_ALL", "locales", *show, env=chosen).stdout == ":nl_BE\n"


INSIDE = "echo $container $SARUS_CONTAINER; cat /run/.containerenv"


def test_programs_find_out_that_they_are_in_a_container(user_engine, load_image, images):
    """As in other containers, whatever the image and the caller's environment say; the caller's options win."""
    image = load_image(user_engine, "nested", images.busybox({"Env": ["container=oci"]}))
    full = image if ":" in image else f"{image}:latest"
    expected = f'sarus {full}\nengine="sarus"\nname="inside"\nimage="{full}"\nrootless={int(user_engine.mode == "rootless")}'
    assert user_engine.output(image, "sh", "-c", INSIDE, options=["--name=inside"], env={"container": "podman", "SARUS_CONTAINER": "x"}) == expected
    assert user_engine.output(image, "sh", "-c", "echo $container $SARUS_CONTAINER", options=["-e", "container=mine", "--env=SARUS_CONTAINER="]) == "mine"


def test_the_file_of_containers_leads_nowhere(user_engine, load_image, images):
    """Neither a link of the image nor a directory of the host gets it; on a file system of the container's own it appears."""
    outside = pathlib.Path(tempfile.mkdtemp(dir=user_engine.user.home))
    (outside / "file").write_text("mine")
    os.chown(outside, user_engine.user.uid, user_engine.user.gid)
    os.chown(outside / "file", user_engine.user.uid, user_engine.user.gid)
    mount = f"--volume={outside}:/elsewhere"
    for name, extra, seen in [("link", lambda layer: layer.directory("run").symlink("run/.containerenv", "/elsewhere/file"), "sarus"),
                              ("directory", lambda layer: layer.directory("run").directory("run/.containerenv"), "none"),
                              ("elsewhere", lambda layer: layer.symlink("run", "/elsewhere"), "none")]:
        image = load_image(user_engine, f"containerenv-{name}", images.busybox(extra=extra))
        script = "grep -q ^engine= /run/.containerenv 2>/dev/null && echo sarus || echo none"
        assert user_engine.output(image, "sh", "-c", script, options=[mount]) == seen, name
        assert user_engine.output(image, "sh", "-c", script, options=[f"--volume={outside}:/run"]) == "none"
        assert user_engine.output(image, "sh", "-c", script, options=["--tmpfs=/run"]) == "sarus"
    assert ([path.name for path in outside.iterdir()], (outside / "file").read_text()) == (["file"], "mine")
    shutil.rmtree(outside)


def test_name_service_switch_uses_files(engine, busybox):
    text = engine.output(busybox, "cat", "/etc/nsswitch.conf")
    assert re.search(r"^passwd:\s+files$", text, re.M) and re.search(r"^hosts:\s+files dns$", text, re.M)


def test_passwd_and_group_come_from_the_installations_caches(engine, busybox):
    assert f"{engine.user.name}:" in engine.output(busybox, "cat", "/etc/passwd")
    assert pathlib.Path(engine.prefix / "etc" / "group").read_text().splitlines()[0] in engine.output(busybox, "cat", "/etc/group").splitlines()


@pytest.mark.asroot
@pytest.mark.parametrize("name", ["DOMAIN\\user", "user@example.org", "First.Last", "two words"])
def test_accounts_that_the_caches_lack_come_from_the_name_services(user_engine, load_image, plain_busybox, name):
    """With any name, for the user's groups, too. The variable USER names nobody."""
    image = load_image(user_engine, "busybox", plain_busybox)
    user = user_engine.user.name
    groups = [grp.getgrgid(gid).gr_name for gid in user_engine.user.groups]
    script = f"s/^{user}:/{name}-{user}:/p\n" + "".join(f"s/^{group}:\\(.*\\){user}$/{name}-{group}:\\1{name}-{user}/p\n" for group in groups if group != user)
    (user_engine.user.home / "names").write_text(script.replace("DOMAIN\\", "DOMAIN\\\\"))
    node = "set -e; mount -t tmpfs tmpfs /mnt; mkdir /mnt/upper /mnt/work; chmod 755 /mnt/upper; " \
           "mount -t overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work overlay /etc; " \
           f"for file in passwd group; do sed -n -f {user_engine.user.home}/names /etc/$file > /mnt/new; cat /etc/$file >> /mnt/new; cat /mnt/new > /etc/$file; done; " \
           "echo root:x:0:0::/root:/bin/sh > /mnt/passwd; printf 'root:x:0:\\ntty:x:5:\\n' > /mnt/group; " \
           f"for file in passwd group; do mount --bind /mnt/$file {user_engine.prefix}/etc/$file; done; umount -l /mnt"
    engine = user_engine.variant(sandbox=(*user_engine.sandbox, "--node", node))
    result = engine.run(image, "sh", "-c", "id -un; cat /etc/passwd; cat /etc/group",
                        env={"USER": "somebody", "SARUS_REPOSITORY_DIR": f"{engine.user.home}/.sarus"})  # the usual place has the name
    lines = result.stdout.splitlines()
    assert (lines[0], result.stderr) == (f"{name}-{user}", ""), result.stdout
    assert [line for line in lines[1:] if line.startswith(f"{name}-{user}:")][0].split(":")[2:4] == [str(engine.user.uid), str(engine.user.gid)]
    assert {line.split(":")[0] for line in lines[1:]} == {"root", "tty", f"{name}-{user}", *(f"{name}-{group}" for group in groups)}


@pytest.mark.asroot
def test_an_account_that_nobody_knows_has_its_number_as_name(user_engine, load_image, plain_busybox):
    """Or cannot be asked for: a container starts all the same."""
    image = load_image(user_engine, "busybox", plain_busybox)
    node = "set -e; mount -t tmpfs tmpfs /mnt; chmod 755 /mnt; echo root:x:0:0::/root:/bin/sh > /mnt/passwd; " \
           f"mount --bind /mnt/passwd {user_engine.prefix}/etc/passwd; mount --bind /bin/false /usr/bin/getent; umount -l /mnt"
    engine = user_engine.variant(sandbox=(*user_engine.sandbox, "--node", node))
    assert engine.output(image, "id", "-un", env={"USER": "root"}) == f"user{engine.user.uid}"


@pytest.mark.parametrize("device", ["null", "zero", "full", "random", "urandom", "tty"])
def test_default_devices(engine, busybox, device):
    assert engine.output(busybox, "sh", "-c", f"test -c /dev/{device} && echo yes") == "yes"


def test_dev_null_works(engine, busybox):
    assert engine.output(busybox, "sh", "-c", "echo gone > /dev/null && wc -c < /dev/null") == "0"


def test_shared_memory_is_the_nodes(engine, busybox):
    with open("/dev/shm/" + engine.user.name, "w") as shared:
        shared.write("shared")
    try:
        assert engine.output(busybox, "cat", f"/dev/shm/{engine.user.name}") == "shared"
    finally:
        os.unlink("/dev/shm/" + engine.user.name)


def mount_at(engine, busybox, place):
    """Type and options of the topmost mount there."""
    lines = [line.split() for line in engine.output(busybox, "cat", "/proc/self/mountinfo").splitlines() if f" {place} " in line]
    return lines[-1][lines[-1].index("-") + 1], set(lines[-1][5].split(","))


def test_shared_memory_and_message_queues_start_no_programs(engine, busybox):
    assert {"nosuid", "nodev", "noexec", "rw"} <= mount_at(engine, busybox, "/dev/shm")[1]
    if os.path.ismount("/dev/mqueue") or engine.mode != "rootless":
        kind, options = mount_at(engine, busybox, "/dev/mqueue")
        assert kind == "mqueue" and {"nosuid", "nodev", "noexec"} <= options


@pytest.mark.parametrize("place", ["/dev/shm", "/dev/mqueue", "/dev/shm/own"])
def test_a_mount_on_what_is_the_nodes_is_visible(engine, busybox, workspace, place):
    (workspace / "mark").write_text("mine\n")
    try:
        assert engine.output(busybox, "cat", f"{place}/mark", options=[f"--mount=type=bind,source={workspace},destination={place}"]) == "mine"
    finally:
        if place == "/dev/shm/own" and os.path.isdir(place):  # the user has made it: it is the node's directory
            os.rmdir(place)


def test_shared_memory_may_be_named_as_a_mount(engine, busybox):
    mark = pathlib.Path("/dev/shm") / f"named-{engine.user.name}"
    mark.write_text("shared\n")
    try:
        for mount in ("/dev/shm:/dev/shm", "/dev/shm:/dev//shm/:ro"):
            assert engine.output(busybox, "cat", mark, options=["-v", mount]) == "shared"
    finally:
        mark.unlink()


def test_a_mount_that_hides_another_is_named(engine, busybox, workspace):
    for name in ("one", "two"):
        (workspace / name / "inner").mkdir(parents=True, exist_ok=True)
        (workspace / name / "mark").write_text(name)
        engine.user.own(workspace / name)
    inner, outer = (f"type=bind,source={workspace}/{name},destination={place}" for name, place in (("one", "/mnt/inner"), ("two", "/mnt")))
    hidden = engine.run(busybox, "ls", "/mnt/inner", options=[f"--mount={inner}", f"--mount={outer}"])
    assert hidden.stdout == "" and f"The mount request '{outer}' hides '{inner}', which precedes it" in hidden.stderr
    both = engine.run(busybox, "cat", "/mnt/inner/mark", "/mnt/mark", options=[f"--mount={outer}", f"--mount={inner}"])
    assert (both.stdout, both.stderr) == ("onetwo", "")


def test_host_files_are_not_visible(engine, busybox):
    assert engine.run(busybox, "test", "-e", engine.prefix, check=False).returncode == 1


# Command line of the container


def test_default_command(engine, special):
    assert engine.output(special("default-command", {"Cmd": ["echo", "default", "command"]})) == "default command"


def test_command_replaces_the_default_command(engine, special):
    assert engine.output(special("default-command", {"Cmd": ["echo", "default", "command"]}), "echo", "mine") == "mine"


def test_command_is_appended_to_the_entrypoint(engine, special):
    image = special("entrypoint", {"Entrypoint": ["echo", "entry"], "Cmd": ["default"]})
    assert engine.output(image) == "entry default"
    assert engine.output(image, "mine") == "entry mine"


def test_entrypoint_option_drops_the_default_command(engine, special):
    image = special("entrypoint", {"Entrypoint": ["echo", "entry"], "Cmd": ["default"]})
    assert engine.output(image, options=["--entrypoint=echo other"]) == "other"
    assert engine.output(image, "echo", "none", options=["--entrypoint", ""]) == "none"


def test_no_command_at_all_is_an_error(engine, busybox):
    result = engine.run(busybox, check=False)
    assert result.returncode == 1 and len(result.stderr.strip().splitlines()) <= 3 and "command" in result.stderr


def test_options_after_the_image_belong_to_the_container(engine, busybox):
    assert engine.output(busybox, "echo", "--tty", "--", "-x") == "--tty -- -x"


def test_arguments_arrive_unchanged(engine, busybox):
    arguments = ["", " ", "a b", "$HOME", "'", '"', "\\", "*", "line\nbreak", "ü", "a" * 100000]
    script = 'for argument in "$@"; do printf "%s\\0" "$argument"; done'
    result = engine.run(busybox, "sh", "-c", script, "sh", *arguments)
    assert result.stdout.split("\0")[:-1] == arguments


# Working directory


def test_working_directory_is_the_root_by_default(engine, busybox):
    assert engine.output(busybox, "pwd") == "/"


def test_working_directory_of_the_image(engine, special):
    assert engine.output(special("workdir", {"WorkingDir": "/var/tmp"}), "pwd") == "/var/tmp"


def test_workdir_option_wins(engine, special):
    assert engine.output(special("workdir", {"WorkingDir": "/var/tmp"}), "pwd", options=["--workdir", "/tmp"]) == "/tmp"
    assert engine.output(special("workdir", {"WorkingDir": "/var/tmp"}), "pwd", options=["-w/tmp"]) == "/tmp"


def test_missing_working_directory_is_created(engine, busybox):
    assert engine.output(busybox, "pwd", options=["--workdir=/made/for/me"]) == "/made/for/me"


def test_working_directory_that_is_closed_to_the_user(setuid_engine, root_engine, images):
    """Images that were made by root for root start in /root; nothing in an image of root's belongs to the user."""
    image = images.busybox({"WorkingDir": "/closed/inner"}, lambda layer: (layer.directory("closed", 0o700), layer.directory("closed/inner")))
    assert root_engine.sarus("load", "--centralized-repository", images.archive(image, "closed"), "closed").returncode == 0
    options = ["--centralized-repository"]
    reference = "load/library/closed"
    result = setuid_engine.run(reference, "pwd", options=options)
    assert result.stdout == "/\n" and "may not enter /closed/inner, the working directory of the image" in result.stderr
    for workdir in ("/closed", "/closed/inner"):
        chosen = setuid_engine.run(reference, "pwd", options=[*options, "--workdir", workdir], check=False)
        assert chosen.returncode == 1 and chosen.stdout == ""
        assert f"Failed to enter the working directory {workdir}: Permission denied" in chosen.stderr
    try:
        with setuid_engine.standing(reference, *options, "--name=closed-workdir"):
            result = setuid_engine.sarus("exec", "closed-workdir", "pwd")
            assert (result.stdout, result.stderr) == ("/\n", "")
    finally:
        root_engine.sarus("rmi", "--centralized-repository", reference)


def test_a_removed_working_directory_stops_only_who_asks_for_it(user_engine, load_image, plain_busybox):
    image = load_image(user_engine, "busybox", plain_busybox)

    def run(*arguments):
        launcher = ["sh", "-c", 'd=$(mktemp -d) && cd "$d" && rmdir "$d" && exec "$@"', "sh"]
        process = user_engine.start_by(launcher, "run", *arguments)
        return *process.communicate(timeout=300), process.returncode

    assert run(f"-v{user_engine.user.home}:/here", image, "pwd") == ("/\n", "", 0)
    for option in ("--cwd", "-v.:/here"):
        _, errors, status = run(option, image, "pwd")
        assert status == 1 and "does not exist any more" in errors.splitlines()[0]


def test_working_directory_on_a_mount(engine, busybox, workspace):
    (workspace / "here" / "below").mkdir(parents=True, exist_ok=True)
    mount = f"--mount=type=bind,source={workspace}/here,destination=/there"
    for options in ([], ["--init"]):
        result = engine.run(busybox, "sh", "-c", "pwd; read name </proc/$$/comm; echo $name", options=[mount, "--workdir=/there/below", *options])
        assert result.stdout.split() == ["/there/below", "sh"]
    (workspace / "here" / "below" / "own").write_text("#!/bin/sh\npwd\n")
    (workspace / "here" / "below" / "own").chmod(0o755)
    assert engine.output(busybox, "./own", options=[mount, "-w/there/below"]) == "/there/below"
    missing = engine.run(busybox, "./other", options=[mount, "-w/there/below"], check=False)
    assert missing.returncode == 1 and 'exec: "./other": no such file or directory' in missing.stderr


# Environment


def test_environment_precedence(engine, special):
    image = special("environment", {"Env": ["PATH=/bin", "BOTH=image", "IMAGE=image", "OPTION=image"]})
    text = engine.output(image, "env", options=["-e", "OPTION=option"], env={"BOTH": "host", "HOST": "host", "OPTION": "host"})
    found = variables(text)
    assert (found["BOTH"], found["IMAGE"], found["HOST"], found["OPTION"]) == ("image", "image", "host", "option")
    assert found["PATH"] == "/bin"


def test_env_option_without_value_takes_the_hosts(engine, special):
    image = special("environment", {"Env": ["PATH=/bin", "BOTH=image", "IMAGE=image", "OPTION=image"]})
    found = variables(engine.output(image, "env", options=["--env=BOTH", "--env", "ABSENT"], env={"BOTH": "host"}))
    assert found["BOTH"] == "host" and "ABSENT" not in found


def test_unsecure_variables_of_the_host_do_not_reach_the_container(engine, busybox):
    unsecure = {"LD_LIBRARY_PATH": "/host", "LD_PRELOAD": "", "TMPDIR": "/host", "GCONV_PATH": "/host", "MALLOC_TRACE": "/host/trace"}
    found = variables(engine.output(busybox, "env", env=unsecure))
    assert not found.keys() & unsecure.keys()


def test_image_and_option_may_set_unsecure_variables(engine, special):
    image = special("ld-library-path", {"Env": ["PATH=/bin", "LD_LIBRARY_PATH=/image"]})
    assert variables(engine.output(image, "env"))["LD_LIBRARY_PATH"] == "/image"
    assert variables(engine.output(image, "env", options=["-eLD_LIBRARY_PATH=/mine"]))["LD_LIBRARY_PATH"] == "/mine"


def test_large_environment(engine, busybox):
    big = {f"BIG{number}": "x" * 100000 for number in range(15)}
    assert engine.output(busybox, "sh", "-c", "echo ${#BIG0} ${#BIG14}", env=big) == "100000 100000"


# Mounts


@pytest.fixture
def shared(engine, workspace):
    directory = workspace / f"shared-{engine.mode}-{engine.runtime}"
    directory.mkdir(exist_ok=True)
    os.chown(directory, engine.user.uid, engine.user.gid)
    (directory / "file").write_text("content")
    return directory


def test_bind_mount_shows_the_source_and_writes_go_through(engine, busybox, shared):
    option = f"--mount=type=bind,source={shared},destination=/mnt/made"
    assert engine.output(busybox, "sh", "-c", "cat /mnt/made/file; echo new > /mnt/made/new", options=[option]) == "content"
    assert (shared / "new").read_text() == "new\n"
    assert (shared / "new").stat().st_uid == engine.user.uid


@pytest.mark.parametrize("source", ["source", "src"])
@pytest.mark.parametrize("destination", ["destination", "dst", "target"])
def test_mount_key_aliases(user_engine, load_image, plain_busybox, workspace, source, destination):
    image = load_image(user_engine, "busybox", plain_busybox)
    assert user_engine.output(image, "test", "-d", "/mnt/x", options=["--mount", f"type=bind,{source}={workspace},{destination}=/mnt/x"]) == ""


def test_readonly_bind_mount(engine, busybox, shared):
    result = engine.run(busybox, "touch", "/mnt/new", options=[f"--mount=type=bind,src={shared},dst=/mnt,readonly"], check=False)
    assert result.returncode == 1 and "Read-only file system" in result.stderr


def test_file_can_be_mounted_on_a_file(engine, images, load_image, shared):
    image = load_image(engine, "with-file", images.busybox(extra=lambda layer: layer.file("settings/file", "of the image")))
    assert engine.output(image, "cat", "/settings/file", options=[f"--mount=type=bind,src={shared}/file,dst=/settings/file"]) == "content"


def test_users_cannot_mount_over_what_the_installation_protects(user_engine, load_image, plain_busybox, workspace):
    """The template brings the documented lists, with the prefix of the installation."""
    image = load_image(user_engine, "busybox", plain_busybox)
    for destination in ("/etc/os-release", "/var/lib/x", user_engine.prefix, user_engine.prefix / "etc", "/opt"):
        result = user_engine.run(image, "true", options=[f"--mount=type=bind,src={workspace},dst={destination}"], check=False)
        assert (result.returncode, result.stdout) == (1, "")
        assert re.search(r"^Invalid mount request '.*': (destination cannot be a subdirectory of|'/opt' is not allowed as mount destination)", result.stderr)
    assert user_engine.output(image, "ls", "/opt/x", options=[f"--mount=type=bind,src={workspace},dst=/opt/x"]) != ""


@pytest.mark.parametrize("device", ["null", "zero", "full", "random", "urandom", "tty"])
def test_usual_device_can_be_mounted_over_a_file(user_engine, load_image, plain_busybox, device):
    image = load_image(user_engine, "busybox", plain_busybox)
    script = {"null": "cat /masked; echo x > /masked", "full": "echo x > /masked", "tty": ": < /masked"}.get(
        device, "head -c 3 /masked | wc -c")
    result = user_engine.run(image, "sh", "-c", script, options=[f"--mount=type=bind,src=/dev/{device},dst=/masked"], check=False)
    expected = {"null": "", "full": "No space left on device", "tty": "No such device or address"}.get(device, "3")
    assert expected in result.stdout + result.stderr and "ermi" not in result.stderr, result.stderr
    assert device != "null" or (result.returncode, result.stdout) == (0, "")


def test_other_devices_do_not_come_in_by_mounts(engine, busybox):
    result = engine.run(busybox, "sh", "-c", "cat /device", options=["--mount=type=bind,src=/dev/kmsg,dst=/device"], check=False)
    assert result.returncode == 1 and "Permission denied" in result.stderr


def test_later_mounts_are_visible_over_earlier_ones(engine, busybox, shared, workspace):
    (workspace / "images").mkdir(exist_ok=True)
    options = [f"--mount=type=bind,src={workspace},dst=/mnt", f"--mount=type=bind,src={shared},dst=/mnt/images"]
    assert engine.output(busybox, "cat", "/mnt/images/file", options=options) == "content"


@pytest.mark.parametrize("name", ["a b", "a:b", "a,b", "lr=0.1,batch=32", 'q"x', '"quoted"', "DOMAIN\\user", "end\\", "a\\:b", "x,", "new\nline",
                                  "dollar$HOME", "caf\udce9", "100%41"], ids=ascii)
def test_a_directory_of_any_name_can_be_mounted_in_every_way(any_engine, load_image, plain_busybox, name):
    image = load_image(any_engine, "busybox", plain_busybox)
    place = pathlib.Path(tempfile.mkdtemp(dir=any_engine.user.home))
    directory = place / name
    directory.mkdir()
    (directory / "f").write_text("seen\n")
    (place / "definition.toml").write_text(f'image = "{image}"\nmounts = ["$DIRECTORY:/definition:ro", "$DIRECTORY"]\n')
    for path in (place, directory, directory / "f"):
        os.chown(path, any_engine.user.uid, any_engine.user.gid)
    volume = re.sub(r"([\\:,])", r"\\\1", str(directory))
    quoted = str(directory).replace('"', '""')
    result = any_engine.sarus(
        "run", f"--edf={place}/definition.toml", "--cwd", f"--volume={volume}:/volume", f"--volume={volume},{volume}:/list:ro",
        f'--mount=type=bind,"source={quoted}",destination=/mount', f'--mount=type=bind,source=/tmp,"destination=/place/{name.replace(chr(34), chr(34) * 2)}"',
        f"--home={volume}:/home/{volume.rsplit('/', 1)[1]}", "--", "sh", "-c", 'cat f "$HOME/f" /volume/f /list/f /mount/f /definition/f; printf "%s\\n" /place/*',
        cwd=directory, env={"DIRECTORY": str(directory)}, errors="surrogateescape")
    shutil.rmtree(place)
    assert (result.returncode, result.stdout, result.stderr) == (0, 6 * "seen\n" + f"/place/{name}\n", "")


def test_missing_mount_source(engine, busybox):
    result = engine.run(busybox, "true", options=["--mount=type=bind,source=/invalid-s87dfs9,destination=/dst"], check=False)
    assert result.returncode == 1
    assert "Failed to bind mount /invalid-s87dfs9 on container's /dst: Failed to find real path for mount source: " \
           "No such file or directory" in result.stderr


def test_a_closed_mount_source_says_how_to_see_why(engine, busybox, tmp_path):
    closed = tmp_path / "closed"
    (closed / "in side").mkdir(parents=True)
    closed.chmod(0)
    try:
        result = engine.run(busybox, "true", options=["-v", f"{closed}/in side:/dst"], check=False)
    finally:
        closed.chmod(0o755)
    if engine.user.uid == 0:
        assert result.returncode == 0, result.stderr
        return
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (f"You have no access on this node: see the permissions along the path with: namei -l '{closed}/in side'")


@pytest.mark.asroot
def test_source_that_only_root_can_reach_is_refused(user_engine, load_image, plain_busybox, closed):
    image = load_image(user_engine, "busybox", plain_busybox)
    result = user_engine.run(image, "ls", "/mnt", options=[f"--mount=type=bind,src={closed}/exists,dst=/mnt"], check=False)
    assert result.returncode == 1 and "Permission denied" in result.stderr


BIND = "type=bind,src=/tmp,dst=/mnt"


@pytest.mark.parametrize("request_text, message", [
    ("", "Invalid mount request: no values provided"),
    ("xyz", "Invalid mount request 'xyz': 'type' must be specified"),
    ("type=volume,destination=/mnt", "Invalid mount request 'type=volume,destination=/mnt': 'volume' is not a valid mount type"),
    (f"{BIND},bind-propagation=slave", f"Invalid mount request '{BIND},bind-propagation=slave': 'bind-propagation' is not a valid bind mount option"),
    ("type=bind,dst=/mnt", "Invalid mount request 'type=bind,dst=/mnt': no source specified"),
    ("type=bind,src=/tmp", "Invalid mount request 'type=bind,src=/tmp': no destination specified"),
    (f"{BIND},source=/tmp", f"Invalid mount request '{BIND},source=/tmp': 'source' and 'src' cannot be used together"),
    (f"{BIND},target=/x", f"Invalid mount request '{BIND},target=/x': 'dst' and 'target' cannot be used together"),
    ("type=bind,src=,dst=/mnt", "Invalid mount request 'type=bind,src=,dst=/mnt': the value of 'src' is empty"),
    ("type=bind,src=tmp,dst=/mnt", "Invalid mount request 'type=bind,src=tmp,dst=/mnt': source must be an absolute path"),
    ("type=bind,src=/tmp,dst=mnt", "Invalid mount request 'type=bind,src=/tmp,dst=mnt': destination must be an absolute path"),
    (f"{BIND},", f"Error parsing '{BIND},'. Expected a non-empty key"),
    (f"{BIND},dst=/x", f"Error parsing '{BIND},dst=/x'. Found duplicate key 'dst'"),
    (f"{BIND},readonly=a=b", f"Error parsing '{BIND},readonly=a=b'. The value of key 'readonly' must not contain '='"),
])
def test_malformed_mount_requests(setuid_engine, load_image, plain_busybox, request_text, message):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    result = setuid_engine.run(image, "true", options=["--mount", request_text], check=False)
    assert (result.returncode, result.stderr.splitlines()[0]) == (1, message)


def test_mount_destinations_of_the_sites_lists_are_refused(make_setuid_prefix, setuid_engine, load_image, plain_busybox):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    rules = {"notAllowedPrefixesOfPath": ["/etc"], "notAllowedPaths": ["/opt"]}
    engine = setuid_engine.variant(prefix=make_setuid_prefix("user-mounts", userMounts=rules))
    for destination, message in {"/etc/x": "destination cannot be a subdirectory of '/etc'",
                                 "//etc/./x": "destination cannot be a subdirectory of '/etc'",
                                 "/opt": "'/opt' is not allowed as mount destination"}.items():
        result = engine.run(image, "true", options=[f"--mount=type=bind,src=/tmp,dst={destination}"], check=False)
        assert result.returncode == 1 and message in result.stderr.splitlines()[0], result.stderr
    assert engine.run(image, "true", options=["--mount=type=bind,src=/tmp,dst=/etcetera", "--mount=type=bind,src=/tmp,dst=/opt/x"]).returncode == 0


# Processes, signals and exit statuses


@pytest.mark.parametrize("status", [0, 1, 7, 125, 126, 127, 255])
def test_exit_status_is_the_commands(engine, busybox, status):
    assert engine.run(busybox, "sh", "-c", f"exit {status}", check=False).returncode == status


def test_exit_status_of_a_killed_command(engine, busybox):
    assert engine.run(busybox, "sh", "-c", "kill -KILL $$", check=False).returncode == 137


def refused(engine, image, command):
    """What is said of a command that cannot be started."""
    engine.run(image, "true")  # the first start on a node may have an image to unpack
    result = engine.run(image, command, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    return result.stderr.splitlines()


def test_missing_command(engine, busybox):
    assert refused(engine, busybox, "no-such-command") == ['exec: "no-such-command": executable file not found in $PATH']
    assert refused(engine, busybox, "/no/such") == ['exec: "/no/such": no such file or directory']


def test_command_that_is_not_executable(engine, special):
    image = special("not-executable", extra=lambda layer: layer.file("opt/data", "text", mode=0o644).file("bin/data", "text", mode=0o644))
    assert refused(engine, image, "/opt/data") == ['exec: "/opt/data": permission denied']
    assert refused(engine, image, "data") == ['exec: "data": permission denied']
    assert refused(engine, image, "/opt") == ['exec: "/opt": permission denied']


def test_program_for_other_processors(engine, special):
    program = bytearray(pathlib.Path("/bin/busybox").read_bytes()[:8192])
    program[18:20] = (0x1234).to_bytes(2, "little")  # e_machine: of no processor that there is, and of no emulator
    image = special("foreign-program", extra=lambda layer: layer.file("opt/foreign", bytes(program), mode=0o755))
    platform = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}[os.uname().machine]
    assert refused(engine, image, "/opt/foreign") == [
        'exec: "/opt/foreign": Exec format error',
        f'The program "/opt/foreign" is for other processors (number 4660 of ELF), and this node has {os.uname().machine}',
        f"Get the image for this node: sarus pull --platform {platform}"]


@pytest.mark.parametrize("text", ["", "echo not a script\n"], ids=["empty", "without-interpreter"])
def test_file_that_is_no_program(engine, special, text):
    """It is not given to a shell of the image, with any OCI runtime."""
    image = special(f"no-program-{len(text)}", extra=lambda layer: layer.file("opt/text", text, mode=0o755))
    assert refused(engine, image, "/opt/text") == ['exec: "/opt/text": Exec format error']


def test_host_process_namespace_by_default(engine, busybox):
    # pid_for_children names the namespace by inode: equal means shared. A rootless container sees /proc of the node.
    assert engine.output(busybox, "readlink", "/proc/self/ns/pid") == os.readlink("/proc/self/ns/pid")
    assert engine.output(busybox, "readlink", "/proc/self/ns/pid", options=["--pid=host"]) == os.readlink("/proc/self/ns/pid")


def test_private_process_namespace(engine, busybox):
    assert engine.output(busybox, "sh", "-c", "echo $$", options=["--pid=private"]) == "1"


@pytest.mark.parametrize("hard, status, said", [(resource.RLIM_INFINITY, 0, "64\n"), (64 << 10, 1, "The limit RLIMIT_STACK of 65536 bytes is too low")])
def test_small_stack_is_raised_for_the_engine_alone_or_named(engine, busybox, hard, status, said):
    argv, identity = engine.launched_by(["prlimit", f"--stack={64 << 10}:{hard if hard >= 0 else 'unlimited'}"], "run", busybox, "sh", "-c", "ulimit -Ss")
    result = subprocess.run(argv, env=engine.user.environment(), cwd=engine.user.home, capture_output=True, text=True, timeout=300, **identity)
    assert result.returncode == status, result.stderr
    assert said in result.stdout + result.stderr


def test_limit_of_file_sizes_that_is_too_low_is_named(user_engine, plain_busybox, images, load_image):
    image = load_image(user_engine, "busybox", plain_busybox)
    for arguments in (["run", image, "true"], ["load", images.archive(plain_busybox, "busybox"), "limited"]):
        argv, identity = user_engine.launched_by(["prlimit", "--fsize=0:0"], *arguments)
        result = subprocess.run(argv, env=user_engine.user.environment(), cwd=user_engine.user.home, capture_output=True, text=True, timeout=300,
                                **identity)
        assert result.returncode == 1
        assert "ulimit -f" in result.stderr or "file too large" in result.stderr.lower(), result.stderr


def test_image_is_loaded_whatever_the_umask(user_engine, plain_busybox, images):
    argv, identity = user_engine.command("load", images.archive(plain_busybox, "busybox"), "umasked")
    repository = user_engine.user.home / ".sarus"
    if repository.exists():
        repository.rename(repository.with_name("aside"))
    try:
        result = subprocess.run(argv, umask=0o777, env=user_engine.user.environment(), cwd=user_engine.user.home, capture_output=True, text=True,
                                timeout=300, **identity)
        assert result.returncode == 0, result.stderr
        user_engine.run("load/library/umasked", "true")
    finally:
        shutil.rmtree(repository, ignore_errors=True)
        if (kept := repository.with_name("aside")).exists():
            kept.rename(repository)


@pytest.mark.parametrize("command, hint", [(["ls /"], "leave out the quotes"), (["--mount=type=bind,source=/etc,destination=/x", "ls"], "before the image")])
def test_command_that_is_none_gets_a_hint(engine, busybox, command, hint):
    result = engine.run(busybox, *command, check=False)
    first, second = result.stderr.splitlines()
    assert result.returncode == 1
    assert first.startswith(f'exec: "{command[0]}": ') and hint in second


def test_interpreter_which_the_image_lacks_is_named(engine, busybox):
    shared = engine.user.home / "interpreters"
    shared.mkdir(exist_ok=True)
    program = pathlib.Path("/bin/ls").read_bytes()
    linker = re.search(rb"/lib[^\0]*/ld-[^\0]*", program)[0]
    script = b"#! /usr/bin/python9 -u\nprint()\n"
    for name, content, interpreter in (("script", script, b"/usr/bin/python9"), ("dynamic", program.replace(linker, linker[:-1] + b"x"), linker[:-1] + b"x")):
        (shared / name).write_bytes(content)
        (shared / name).chmod(0o755)
        result = engine.run(busybox, f"/mnt/{name}", check=False, options=[f"--mount=type=bind,source={shared},destination=/mnt"])
        assert result.returncode == 1
        assert f'exec: "/mnt/{name}": no such file or directory\n' in result.stderr
        assert f"not its interpreter {interpreter.decode()}, which the image lacks" in result.stderr


def test_init_reaps_and_passes_on_the_status(engine, busybox):
    assert engine.output(busybox, "readlink", "/proc/1/exe", options=["--init", "--pid=private"]) == "/dev/init"
    assert engine.run(busybox, "sh", "-c", "exit 9", options=["--init"], check=False).returncode == 9
    assert variables(engine.output(busybox, "env", options=["--init"]))["TINI_SUBREAPER"] == "1"


def wait_for_line(process, text):
    line = process.stdout.readline()
    assert text in line, line + process.stderr.read()


@pytest.mark.parametrize("number, options", [
    (signal.SIGTERM, ()), (signal.SIGTERM, ("--init",)), (signal.SIGINT, ()), (signal.SIGHUP, ()), (signal.SIGUSR1, ()),
])
def test_signals_reach_the_command(engine, busybox, number, options):
    script = f"trap 'echo caught; exit 5' {number.name.removeprefix('SIG')}; echo ready; while :; do sleep 0.05; done"
    process = engine.start("run", *options, busybox, "sh", "-c", script)
    wait_for_line(process, "ready")
    process.send_signal(number)
    output, _ = process.communicate(timeout=300)
    assert output == "caught\n" and process.returncode == 5


@pytest.mark.parametrize("launcher, numbers", [
    (["nohup"], [signal.SIGHUP]),
    (["env", "--ignore-signal=INT,QUIT"], [signal.SIGINT, signal.SIGQUIT]),  # `COMMAND &` in a script
    (["env", "--ignore-signal=USR1,USR2,TERM"], [signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM]),
    (["env", "--ignore-signal=TSTP"], [signal.SIGTSTP]),
])
@pytest.mark.parametrize("options", [(), ("--init",)])
def test_what_the_caller_ignores_ends_no_command(engine, busybox, launcher, numbers, options):
    process = engine.start_by(launcher, "run", *options, busybox, "sh", "-c", system.UNTIL_SIGPWR)
    wait_for_line(process, "ready")
    output, errors = system.finish_with_sigpwr(process, numbers)
    assert (process.returncode, output) == (5, "caught\n"), errors


@pytest.mark.parametrize("options", [(), ("--init",)])
def test_the_command_ignores_what_users_send_and_its_caller_ignores(engine, busybox, options):
    """But nothing else: the engine itself must not depend on what its caller ignores."""
    for names in (["HUP"], ["HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "TSTP"]):
        process = engine.start_by(["env", f"--ignore-signal={','.join([*names, 'CHLD', 'ALRM', 'PIPE', 'XCPU', 'RTMIN'])}"],
                                  "run", *options, busybox, "grep", "SigIgn", "/proc/self/status")
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert int(output.split()[1], 16) == system.signal_set(signal.Signals[f"SIG{name}"] for name in names)


def test_sigterm_ends_a_command_soon(engine, busybox):
    process = engine.start("run", busybox, "sh", "-c", "echo ready; exec sleep 300")
    wait_for_line(process, "ready")
    process.terminate()
    assert process.wait(300) == 128 + signal.SIGTERM
    process.communicate()


def test_killing_sarus_kills_the_container_and_leaves_nothing(engine, busybox):
    process = engine.start("run", busybox, "sh", "-c", "echo ready; exec sleep 300")
    wait_for_line(process, "ready")
    process.kill()
    process.communicate()
    # What must be gone is checked by the fixture leaves_nothing_behind; for root, look for the command itself too.
    assert system.eventually(lambda: not any(command == "sleep 300" for _, _, command in system.processes() if _ == engine.user.uid))


def test_the_user_may_signal_the_running_starter(user_engine, load_image, plain_busybox):
    image = load_image(user_engine, "busybox", plain_busybox)
    process = user_engine.start("run", image, "sh", "-c", "echo ready; exec sleep 300")
    wait_for_line(process, "ready")
    subprocess.run(["kill", "-TERM", str(process.pid)], check=True, user=user_engine.user.uid, group=user_engine.user.gid)
    assert process.wait(300) == 143
    process.communicate()


# Standard streams, descriptors and terminals


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_standard_streams_keep_their_owner_and_group(engine, busybox, workspace, stream):
    """OCI runtimes give them to the container's user, with root's rights."""
    path = workspace / f"stream-{engine.mode}-{engine.runtime}"
    path.write_text("content")
    if engine.mode == "rootless":  # the best that he could do is to lose the group of a project
        os.chown(path, engine.user.uid, max(engine.user.groups))
    before = path.stat()
    null = os.stat("/dev/null")
    with open(path, "rb" if stream == "stdin" else "ab") as file:
        assert engine.run(busybox, "true", **{stream: file}, check=False).returncode == 0
    after = path.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
    assert (os.stat("/dev/null").st_uid, os.stat("/dev/null").st_gid) == (null.st_uid, null.st_gid)


@pytest.mark.parametrize("stdin", ["own", "file", pytest.param("foreign", marks=pytest.mark.asroot)])
def test_own_pipes_need_no_filter(engine, busybox, stdin):
    """Slurm gives such streams to its tasks. The filter keeps the owners of all others, and makes each system call slower."""
    argv, identity = engine.command("run", busybox, "grep", "^Seccomp:", "/proc/self/status")
    pipes = [os.pipe() for _ in range(3)]
    for reader, _ in pipes[1 if stdin == "foreign" else 0:]:
        os.fchown(reader, engine.user.uid, engine.user.gid)
    if stdin == "foreign":
        os.fchown(pipes[0][0], engine.user.uid + 1, engine.user.gid)
    with open("/etc/hosts") as file:
        result = subprocess.run(argv, stdin=file if stdin == "file" else pipes[0][0], stdout=pipes[1][1], stderr=pipes[2][1],
                                env=engine.user.environment(), cwd=engine.user.home, timeout=300, **identity)
        owners = [os.fstat(descriptor).st_uid for descriptor in (file.fileno(), pipes[0][0])]
    for descriptor in (pipes[0][0], *(writer for _, writer in pipes)):
        os.close(descriptor)
    out, err = (open(reader).read() for reader, _ in pipes[1:])
    assert (result.returncode, out) == (0, f"Seccomp:\t{0 if stdin == 'own' else 2}\n"), err
    assert owners == [os.stat("/etc/passwd").st_uid, engine.user.uid + (stdin == "foreign")]


def test_standard_input_is_passed(engine, busybox):
    data = "".join(f"line {number}\n" for number in range(20000))
    assert engine.run(busybox, "cat", input=data).stdout == data


def test_standard_error_is_separate(engine, busybox):
    result = engine.run(busybox, "sh", "-c", "echo out; echo err >&2")
    assert (result.stdout, result.stderr) == ("out\n", "err\n")


def test_binary_output_is_unchanged(engine, busybox):
    data = bytes(range(256)) * 1000
    assert engine.run(busybox, "cat", input=data, text=False).stdout == data


def test_closed_standard_streams(engine, busybox):
    argv, identity = engine.command("run", busybox, "true")
    result = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *argv], env=engine.user.environment(), cwd=engine.user.home,
                            timeout=300, **identity)
    assert result.returncode == 0


def test_standard_streams_on_the_users_own_fuse_mount(engine, busybox):
    """Without allow_other, root may not even look at them (sshfs, rclone): each works, or the start fails with a reason."""
    engine = engine.with_fuse()
    directory = engine.user.home / f"streams-{engine.mode}-{engine.runtime}"
    script = f"""mkdir {directory} && cd {directory} && mkdir lower upper work mounted && echo data > lower/in || exit 9
fuse-overlayfs -o lowerdir=lower,upperdir=upper,workdir=work mounted || exit 8
cd mounted
"$@" echo out > out || echo "stdout: $?"
"$@" sh -c 'echo err >&2' 2> err || echo "stderr: $?"
echo first > log; "$@" echo second >> log || echo "append: $?"
"$@" cat < in > both 2>> log || echo "all: $?"
"$@" true < . || echo "directory: $?"
cat out err log both
cd; fusermount3 -u {directory}/mounted; rm -r {directory}"""
    argv, identity = engine.launched_by(["sh", "-c", script, "sh"], "run", busybox)
    result = subprocess.run(argv, env=engine.user.environment(), cwd=engine.user.home, capture_output=True, text=True, timeout=120,
                            stdin=subprocess.DEVNULL, **identity)
    assert (result.returncode, result.stdout) == (0, "out\nerr\nfirst\nsecond\ndata\n"), result.stderr


@pytest.mark.asroot
def test_output_that_the_users_fuse_mount_does_not_take_is_an_error(setuid_engine, load_image, plain_busybox):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    engine = setuid_engine.variant(sandbox=("--fuse", "--node", "mount -t tmpfs -o size=1m,mode=1777 tmpfs /mnt"))
    script = """cd /mnt && mkdir lower upper work mounted && fuse-overlayfs -o lowerdir=lower,upperdir=upper,workdir=work,writeback=0 mounted || exit 9
cd mounted; "$@" > out; echo $?; cd; fusermount3 -u /mnt/mounted"""
    argv, identity = engine.launched_by(["sh", "-c", script, "sh"], "run", image, "sh", "-c", "head -c 2000000 /dev/zero; exit 0")
    result = subprocess.run(argv, env=engine.user.environment(), cwd=engine.user.home, capture_output=True, text=True, timeout=300, **identity)
    assert (result.returncode, result.stdout) == (0, "1\n") and "Failed to write the container's output: No space left on device" in result.stderr, result


def test_only_standard_descriptors_reach_the_container(engine, busybox):
    argv, identity = engine.command("run", busybox, "sh", "-c", "sleep 10 & until grep -q ^sleep /proc/$!/cmdline; do :; done; ls /proc/$!/fd; kill $!")
    with open("/etc/passwd") as first, open("/etc/group") as second:
        os.set_inheritable(first.fileno(), True)
        result = subprocess.run(argv, env=engine.user.environment(), cwd=engine.user.home, capture_output=True, text=True, timeout=300,
                                stdin=subprocess.DEVNULL, pass_fds=[first.fileno(), second.fileno()], **identity)
    numbers = {int(number) for number in result.stdout.split()}
    assert numbers == {0, 1, 2}, result.stdout + result.stderr


def test_a_callers_descriptor_stays_open_until_the_name_is_taken(engine, busybox):
    """Who waits for its end finds the name taken: steps that share a container take turns with it. Here another container has the name."""
    name = f"taken-{os.getpid()}"
    reader, writer = os.pipe()
    with engine.standing(busybox, "--name", name):
        second = engine.start("run", "--name", name, busybox, "true", pass_fds=[writer])
        os.close(writer)
        assert os.read(reader, 1) == b""
        assert select.select([second.stderr], [], [], 0)[0], "it ended before"
        assert "exists already" in second.stderr.readline()
        second.communicate(timeout=300)
    os.close(reader)


def test_pmi_descriptor_is_preserved_and_renumbered(engine, busybox):
    argv, identity = engine.command("run", busybox, "sh", "-c", "echo $PMI_FD; cat <&3")
    read, write = os.pipe()
    os.write(write, b"from pmi")
    os.close(write)
    result = subprocess.run(argv, env=engine.user.environment(PMI_FD=str(read)), cwd=engine.user.home, capture_output=True, text=True, timeout=300,
                            stdin=subprocess.DEVNULL, pass_fds=[read], **identity)
    os.close(read)
    assert result.stdout == "3\nfrom pmi", result.stderr


def run_on_terminal(engine, *arguments, typed=b"", redirection=""):
    """Runs `sarus ARGUMENTS` on a terminal of its own; returns (exit status, what appeared). `redirection` is the shell's."""
    argv, identity = engine.command(*arguments)
    # script(1) makes the terminal the controlling one, as a login does.
    quoted = " ".join("'" + argument.replace("'", "'\\''") + "'" for argument in argv)
    result = subprocess.run(["script", "--quiet", "--return", "--command", quoted + redirection, "/dev/null"], input=typed,
                            capture_output=True, timeout=300, env=engine.user.environment(), cwd=engine.user.home, **identity)
    return result.returncode, result.stdout.decode().replace("\r\n", "\n")


def test_tty_option_gives_a_terminal(engine, busybox):
    status, text = run_on_terminal(engine, "run", "-t", busybox, "sh", "-c", "tty; test -t 0 && test -t 1 && echo both; exit 3")
    assert "/dev/pts/" in text or "/dev/console" in text
    assert "both" in text and status == 3


@pytest.mark.parametrize("subcommand", ["run", "exec"])
def test_streams_beside_a_terminal_keep_their_owner_and_the_terminal_is_the_users(engine, busybox, workspace, subcommand):
    name = f"streams-{os.getpid()}"
    standing = engine.standing(busybox, f"--name={name}") if subcommand == "exec" else contextlib.nullcontext()
    arguments = ["run", "--tty", busybox] if subcommand == "run" else ["exec", "--tty", name]
    with standing:
        for stream in ("0<", "1>>", "2>>"):
            path = workspace / f"beside-{engine.mode}-{engine.runtime}-{subcommand}"
            path.write_text("content\n")
            path.chmod(0o666)
            if engine.rootless:
                os.chown(path, engine.user.uid, max(engine.user.groups))
            before = path.stat()
            status, text = run_on_terminal(engine, *arguments, "sh", "-c", "stat -c owner:%u $(tty)", redirection=f" {stream}{path}")
            after = path.stat()
            if stream != "0<":  # crun wants a terminal there
                assert status == 0, text
                assert f"owner:{engine.user.uid}" in text + path.read_text()
            assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode), stream


def test_without_tty_option_streams_are_what_they_are_outside(engine, busybox):
    result = engine.run(busybox, "sh", "-c", "test -t 0 || echo none")
    assert result.stdout == "none\n"


# Sharing and concurrency


def test_containers_of_one_image_share_one_loop_device(setuid_engine, load_image, plain_busybox, home_base):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    processes = [setuid_engine.start("run", image, "sh", "-c", "echo ready; exec sleep 300") for _ in range(3)]
    for process in processes:
        wait_for_line(process, "ready")
    devices = [name for name, file in system.loop_devices().items() if file.startswith(str(home_base))]
    for process in processes:
        process.terminate()
    for process in processes:
        process.communicate()
    assert len(devices) == 1


def test_many_containers_start_at_once(user_engine, load_image, plain_busybox):
    image = load_image(user_engine, "busybox", plain_busybox)
    processes = [user_engine.start("run", image, "echo", str(number)) for number in range(24)]
    results = [process.communicate(timeout=300) + (process.returncode,) for process in processes]
    assert [(output.strip(), status) for output, _, status in results] == [(str(number), 0) for number in range(24)], results


def test_image_replaced_while_a_container_runs(user_engine, images, plain_busybox):
    image = user_engine.load(images.archive(plain_busybox, "replaced"), "replaced")
    process = user_engine.start("run", image, "sh", "-c", "echo ready; read line; cat /etc/os-release")
    wait_for_line(process, "ready")
    newer = images.busybox(extra=lambda layer: layer.file("etc/newer", "yes"))
    user_engine.load(images.archive(newer, "replaced"), "replaced")
    output, errors = process.communicate("go on\n", timeout=300)
    assert "Sarus demo image" in output, errors
    assert user_engine.output(image, "cat", "/etc/newer") == "yes"


# Hostile images: links where the engine writes or mounts


@pytest.fixture
def target(workspace, engine):
    """A place on the node which a hostile image points at; any change to it is an escape."""
    directory = workspace / f"target-{engine.mode}-{engine.runtime}"
    if not directory.exists():
        directory.mkdir()
        for name in ("hosts", "resolv.conf", "localtime", "passwd", "group", "nsswitch.conf"):
            (directory / name).write_text("untouched")
    yield directory
    for path in directory.iterdir():
        assert path.name in ("hosts", "resolv.conf", "localtime", "passwd", "group", "nsswitch.conf") and path.read_text() == "untouched", path


@pytest.mark.parametrize("form", ["absolute", "relative"])
@pytest.mark.parametrize("name", ["etc", "dev", "proc", "sys"])
def test_directory_of_the_image_is_a_link_out_of_it(engine, load_image, images, target, name, form):
    """Either the container works with what lies inside of its root, or it is refused in one line; the node stays untouched."""
    destination = str(target) if form == "absolute" else "../../../../../../.." + str(target)
    layer = Layer().symlink(name, destination)
    image = load_image(engine, f"link-{name}-{form}-{engine.mode}-{engine.runtime}", images.busybox(layers=[layer.bytes()]))
    result = engine.run(image, "true", check=False)
    if result.returncode != 0:
        assert result.stderr.strip()


@pytest.mark.parametrize("name", ["hosts", "resolv.conf", "localtime", "passwd", "group", "nsswitch.conf"])
def test_file_in_etc_is_a_link_out_of_the_image(engine, load_image, images, target, name):
    layer = Layer().symlink(f"etc/{name}", str(target / name))
    image = load_image(engine, f"etc-{name}-link-{engine.mode}-{engine.runtime}", images.busybox(layers=[layer.bytes()]))
    result = engine.run(image, "cat", f"/etc/{name}", check=False)
    assert "untouched" not in result.stdout


def test_mount_destination_through_a_link_stays_inside(engine, special, shared, target):
    image = special(f"mount-link-{engine.mode}-{engine.runtime}", extra=lambda layer: layer.symlink("out", str(target)))
    engine.run(image, "true", options=[f"--mount=type=bind,src={shared},dst=/out/made"], check=False)
    assert not (target / "made").exists()


# Bad input: one clear line, non-zero exit


@pytest.mark.parametrize("arguments, message", [
    (["run", "no-such-image", "true"], "Image docker.io/library/no-such-image:latest is not available"),
    (["run", "a..b", "true"], "Invalid image reference 'a..b'"),
    (["run", "///", "true"], "Invalid image reference '///'"),
    (["run", "--invalid-option", "x"], "unrecognised option '--invalid-option'"),
    (["run"], "Too few arguments for command 'run'"),
    (["run", "--workdir=invalid", "x"], "The working directory 'invalid' is invalid, it needs to be an absolute path."),
    (["run", "--network=none", "--ssh", "x"], "The option '--ssh' needs the network of the node: it cannot be used with '--network=none'"),
    (["run", "--ipc=invalid", "x"], "Incorrect value provided for --ipc option: 'invalid'. Supported values: 'host', 'private'."),
    (["run", "--pid=invalid", "x"], "Incorrect value provided for --pid option: 'invalid'. Supported values: 'host', 'private'."),
    (["run", "-e", "=value", "x"], "Failed to parse key-value pair '=value': key is empty"),
    (["run", "--workdir=/a", "--workdir=/b", "x"], "option '--workdir' cannot be specified more than once"),
])
def test_usage_errors(setuid_engine, arguments, message):
    result = setuid_engine.sarus(*arguments)
    assert result.returncode == 1 and message in result.stderr


ACCESS = "Device access must be entered as a combination of 'rwm' characters, with no repetitions"


@pytest.mark.parametrize("request_text, message", [
    ("", "Invalid device request: no values provided"),
    (":rw", "Invalid device request ':rw': detected empty host device path"),
    ("/dev/fuse::rw", "Invalid device request '/dev/fuse::rw': detected empty container device path"),
    ("dev/fuse", "Invalid device request 'dev/fuse': host device path 'dev/fuse' must be absolute"),
    ("/dev/fuse:dev/cont_fuse:rw", "Invalid device request '/dev/fuse:dev/cont_fuse:rw': container device path 'dev/cont_fuse' must be absolute"),
    ("/dev/non-existing-device", "Invalid device request '/dev/non-existing-device': Failed to check if file \"/dev/non-existing-device\" is a "
                                 "device file. Stat failed: No such file or directory"),
    ("/home", "Invalid device request '/home': Source path \"/home\" is not a device file"),
    ("/dev/null:/dev/x:rw:x", "Invalid device request '/dev/null:/dev/x:rw:x': too many tokens provided. The format of the option value must be at "
                              "most '<host device>:<container device>:<access>'"),
    ("/dev/null:/dev/x:", f"Invalid device request '/dev/null:/dev/x:': Input string for device access is empty. {ACCESS}"),
    ("/dev/null:rwmm", f"Invalid device request '/dev/null:rwmm': Input string for device access 'rwmm' is longer than 3 characters. {ACCESS}"),
    ("/dev/null:rrw", f"Invalid device request '/dev/null:rrw': Input string for device access 'rrw' has repeated characters. {ACCESS}"),
    ("/dev/null:ra", f"Invalid device request '/dev/null:ra': Input string for device access 'ra' contains an invalid character. {ACCESS}"),
])
def test_malformed_device_requests(setuid_engine, load_image, plain_busybox, request_text, message):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    result = setuid_engine.run(image, "true", options=["--device", request_text], check=False)
    assert (result.returncode, result.stderr.splitlines()[0]) == (1, message)


def test_device_appears_in_the_container(setuid_engine, load_image, plain_busybox):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    assert setuid_engine.output(image, "sh", "-c", "test -c /dev/my-null && echo x > /dev/my-null && echo written",
                                options=["--device=/dev/null:/dev/my-null:rw"]) == "written"


def test_image_of_another_user_is_not_readable(setuid_engine, load_image, plain_busybox, other_user):
    image = load_image(setuid_engine, "private", plain_busybox)
    result = setuid_engine.variant(user=other_user).run(image, "true", check=False)
    assert result.returncode == 1 and "Image load/library/private:latest is not available" in result.stderr


def test_corrupt_image_is_an_error(user_engine, images, plain_busybox):
    image = user_engine.load(images.archive(plain_busybox, "corrupt"), "corrupt")
    path = user_engine.user.home / ".sarus/images/load/library/corrupt/latest.squashfs"
    path.unlink()  # other images may share the file
    path.write_bytes(b"\0" * 8192)
    path.chmod(0o644)
    result = user_engine.run(image, "true", check=False)
    assert result.returncode == 1 and len(result.stderr.strip().splitlines()) <= 3
    path.write_bytes(b"")
    assert user_engine.run(image, "true", check=False).returncode == 1


def test_image_file_is_private_to_its_owner(setuid_engine, load_image, plain_busybox):
    load_image(setuid_engine, "busybox", plain_busybox)
    mode = (setuid_engine.user.home / ".sarus/images/load/library/busybox/latest.squashfs").stat()
    assert mode.st_uid == setuid_engine.user.uid and not mode.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
