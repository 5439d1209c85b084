"""Every message that the reference documents, or that its tests compare: command, stream, exit status and all lines.

Messages that another test compares already are in the table ELSEWHERE, with that test.
"""

import concurrent.futures
import os
import pathlib
import re
import time

import pytest
from helpers import installation

HELP = "See 'sarus help {}'".format
GENERAL_HELP = "See 'sarus help'"
KEY_IS_EMPTY = "Failed to parse key-value pair '=value': key is empty"
NO_REPETITIONS = "Device access must be entered as a combination of 'rwm' characters, with no repetitions"
TAG = "A tag has 1 to 128 letters, digits and the characters '_', '.' and '-', and begins with none of the last two"
GET_MORE = "'sarus images' lists the available images, 'sarus pull' gets more"

# (arguments, lines on standard error); the exit status is 1, and nothing is on standard output. {image} is an image that exists.
USAGE = [
    ("---run", ["'---run' is not a Sarus command", GENERAL_HELP]),
    ("frobnicate", ["'frobnicate' is not a Sarus command", GENERAL_HELP]),
    ("help frobnicate", ["'frobnicate' is not a Sarus command", GENERAL_HELP]),
    ("--invalid-option", ["unrecognised option '--invalid-option'", GENERAL_HELP]),
    ("run --invalid-option image", ["unrecognised option '--invalid-option'", HELP("run")]),
    ("pull --invalid-option image", ["unrecognised option '--invalid-option'", HELP("pull")]),
    ("load --invalid-option file image", ["unrecognised option '--invalid-option'", HELP("load")]),
    ("images --invalid-option", ["unrecognised option '--invalid-option'", HELP("images")]),
    ("rmi --invalid-option image", ["unrecognised option '--invalid-option'", HELP("rmi")]),
    ("hooks --invalid-option", ["unrecognised option '--invalid-option'", HELP("hooks")]),
    ("ssh-keygen --invalid-option", ["unrecognised option '--invalid-option'", HELP("ssh-keygen")]),
    ("run --workdir=/a --workdir=/b image", ["option '--workdir' cannot be specified more than once", HELP("run")]),
    ("--v images", ["option '--v' is ambiguous and matches '--verbose', and '--version'", GENERAL_HELP]),
    ("--debug=yes images", ["option '--debug' does not take any arguments", GENERAL_HELP]),
    ("run --entrypoint= image", ["the argument for option '--entrypoint' should follow immediately after the equal sign", HELP("run")]),
    ("run --workd -t image", ["the required argument for option '--workdir' is missing", HELP("run")]),
    ("version --debug", ["Command 'version' doesn't support options", HELP("version")]),
    ("help --debug", ["Command 'help' doesn't support options", HELP("help")]),
    *[(command, [f"Too few arguments for command '{command.split()[0]}'", HELP(command.split()[0])])
      for command in ("run", "pull", "load", "rmi", "kill")],
    *[(command, [f"Too many arguments for command '{command.split()[0]}'", HELP(command.split()[0])])
      for command in ("load file image extra", "kill name extra", "hooks extra", "ssh-keygen extra",
                      "help run extra", "version extra")],
    ("pull image --foo", ["Too many arguments for command 'pull'", HELP("pull"), "unrecognised option '--foo'"]),
]

REFERENCES = [
    *[(f"{command.format(reference)}", [f"Invalid image reference '{reference}'", *why, HELP(command.split()[0])])
      for reference, why in (("///", []), ("UPPER/CASE/", ["Upper-case letters are not allowed in the name of an image"]), ("image:", [TAG]),
                             ("image@sha256:1", ["A digest is sha256: and 64 hexadecimal digits"])) for command in ("run {} true", "pull {}", "rmi {}", "load file {}")],
    *[(f"{command}", ["Invalid image reference 'a..b'", "An image reference cannot contain '..'", HELP(command.split()[0])])
      for command in ("run a..b true", "pull a..b", "rmi a..b", "load file a..b")],
    ("load file image@sha256:" + "0" * 64, ["Destination image reference must not contain a digest when loading the image from a file", HELP("load")]),
    ("run quay.io/no/such:tag true", ["Image quay.io/no/such:tag is not available", GET_MORE]),
    ("run nosuch true", ["Image docker.io/library/nosuch:latest is not available. Attempting to look for equivalent image in index.docker.io server "
                         "repositories", "Image index.docker.io/library/nosuch:latest is not available", GET_MORE]),
    ("rmi nosuch", ["Cannot find image 'docker.io/library/nosuch:latest'"]),
    ("rmi quay.io/no/such", ["Cannot find image 'quay.io/no/such:latest'"]),
    ("pull --temp-dir=/invalid-dir quay.io/a/b", ['Invalid temporary directory "/invalid-dir"']),
    ("pull --login --password-stdin quay.io/a/b", ["The options '--password-stdin' and '--login' cannot be used together", HELP("pull")]),
    ("pull --password-stdin quay.io/a/b", ["Invalid username: empty value provided", HELP("pull")]),
]

RUN = [
    (["--annotation", ""], ["Invalid annotation requested from CLI: empty option value"]),
    (["--annotation==value"], [f"Error parsing annotation from CLI '=value': {KEY_IS_EMPTY}"]),
    (["--env", ""], ["Invalid environment variable requested from CLI: empty option value"]),
    (["--env==value"], [f"Error parsing environment variable requested from CLI '=value': {KEY_IS_EMPTY}"]),
    (["--mpi-type", ""], ["Empty value provided for --mpi-type option"]),
    (["--pid=X"], ["Incorrect value provided for --pid option: 'X'. Supported values: 'host', 'private'.", HELP("run")]),
    (["--ssh", "--pid=host"],
     ["The use of '--ssh' is incompatible with '--pid=host'. The SSH hook requires the use of a private PID namespace"]),
    (["--workdir=invalid"], ["The working directory 'invalid' is invalid, it needs to be an absolute path.", HELP("run")]),
]


def mount(request, why, *detail):
    return [f"--mount={request}"], [f"Invalid mount request '{request}': {why}", *detail]


def unparsable(request, why):
    return [f"--mount={request}"], [f"Error parsing '{request}'. {why}"]


def device(request, why):
    return [f"--device={request}"], [f"Invalid device request '{request}': {why}"]


BIND = "type=bind,src=/tmp,dst=/mnt"
MOUNTS_AND_DEVICES = [
    (["--mount", ""], ["Invalid mount request: no values provided"]),
    mount("xyz", "'type' must be specified"),
    mount("src=/tmp,dst=/mnt", "'type' must be specified"),
    mount("type=nfs,dst=/mnt", "'nfs' is not a valid mount type"),
    mount(f"{BIND},bind-propagation=slave", "'bind-propagation' is not a valid bind mount option",
          "If a path contains a comma, put quotes around its key and value: '\"source=/a,b\"'"),
    mount("type=bind,dst=/mnt", "no source specified"),
    mount("type=bind,src=/tmp", "no destination specified"),
    mount(f"{BIND},source=/tmp", "'source' and 'src' cannot be used together"),
    mount(f"{BIND},destination=/x", "'destination' and 'dst' cannot be used together"),
    mount(f"{BIND},target=/x", "'dst' and 'target' cannot be used together"),
    mount("type=bind,src=,dst=/mnt", "the value of 'src' is empty"),
    mount("type=bind,src=/tmp,dst=", "the value of 'dst' is empty"),
    mount("type=bind,src=tmp,dst=/mnt", "source must be an absolute path", "'tmp' does not begin with '/'"),
    mount("type=bind,src=/tmp,dst=mnt", "destination must be an absolute path", "'mnt' does not begin with '/'"),
    unparsable(f"{BIND},", "Expected a non-empty key"),
    unparsable(f"{BIND},=x", "Expected a non-empty key"),
    unparsable(f"{BIND},dst=/x", "Found duplicate key 'dst'"),
    unparsable(f"{BIND},readonly=a=b", "The value of key 'readonly' must not contain '='"),
    (["--mount=type=bind,source=/invalid-s87dfs9,destination=/dst"],
     ["Failed to bind mount /invalid-s87dfs9 on container's /dst: Failed to find real path for mount source: No such file or directory"]),
    (["--device", ""], ["Invalid device request: no values provided"]),
    device(":rw", "detected empty host device path"),
    device("/dev/fuse::rw", "detected empty container device path"),
    (["--device=dev/fuse"], ["Invalid device request 'dev/fuse': host device path 'dev/fuse' must be absolute",
                             "A device is a path, or a CDI device: vendor.com/class=name"]),
    device("/dev/fuse:dev/cont_fuse:rw", "container device path 'dev/cont_fuse' must be absolute"),
    device("/dev/non-existing-device", 'Failed to check if file "/dev/non-existing-device" is a device file. Stat failed: No such file or directory'),
    device("/home", 'Source path "/home" is not a device file'),
    device("/dev/null:/dev/x:rw:x", "too many tokens provided. The format of the option value must be at most '<host device>:<container "
           "device>:<access>'"),
    device("/dev/null:/dev/x:", f"Input string for device access is empty. {NO_REPETITIONS}"),
    device("/dev/null:rwmm", f"Input string for device access 'rwmm' is longer than 3 characters. {NO_REPETITIONS}"),
    device("/dev/null:rrw", f"Input string for device access 'rrw' has repeated characters. {NO_REPETITIONS}"),
    device("/dev/null:ra", f"Input string for device access 'ra' contains an invalid character. {NO_REPETITIONS}"),
]

# Documented text: the test that compares it. These need more than a command line: a registry, a configuration, a hook, a container.
ELSEWHERE = {
    "Error trace (most nested error last):": "test_cli.py::test_trace_of_an_error_is_printed_on_demand",
    'exec: "no-such-command": executable file not found in $PATH': "test_hooks.py::test_missing_command_behind_hooks_is_named_in_the_same_words",
    "Failed to check the SSH keys. Hint: try to generate the SSH keys with 'sarus ssh-keygen'.": "test_ssh.py::test_keys_are_checked_before_the_start",
    "Skipping device request ": "test_configuration_effects.py::test_device_of_the_site_is_not_mounted_for_the_user_again",
    "Still attempting to acquire lock on file": "test_configuration_effects.py::test_repository_metadata_lock_timings",
    "Failed to acquire lock on file": "test_configuration_effects.py::test_repository_metadata_lock_timings",
    "destination cannot be a subdirectory of '/etc'": "test_configuration_effects.py::test_user_mounts",
    "is not allowed as mount destination": "test_configuration_effects.py::test_user_mounts",
    "ID          PID         STATUS      BUNDLE      CREATED     OWNER": "test_hooks.py::test_ps_without_containers_prints_the_titles",
    "NAME         PATH            STAGES": "test_hooks.py::test_hooks_lists_what_is_configured",
    "050-mpi0-hook   ^mpi0$ (default)": "test_hooks.py::test_mpi_hooks_are_listed_with_their_types",
    "# image            : ": "test_images.py::test_pull_prints_what_is_documented",
    "# cache directory  : ": "test_images.py::test_pull_prints_what_is_documented",
    "# temp directory   : ": "test_images.py::test_pull_prints_what_is_documented",
    "# images directory : ": "test_images.py::test_pull_prints_what_is_documented",
    "# image digest     : ": "test_images.py::test_pull_prints_what_is_documented",
    "> unpacking OCI image": "test_images.py::test_pull_prints_what_is_documented",
    "> making squashfs image: ": "test_images.py::test_pull_prints_what_is_documented",
    "is already available and up to date": "test_images.py::test_second_pull_finds_the_image_up_to_date",
    "Failed to pull image '": "test_images.py::test_wrong_password_is_refused",
    "Error reading manifest from registry.": "test_images.py::test_wrong_password_is_refused",
    "The image may be private or not present in the remote registry.": "test_images.py::test_wrong_password_is_refused",
    "Did you perform a login with the proper credentials?": "test_images.py::test_wrong_password_is_refused",
    "See 'sarus help pull' (--login option)": "test_images.py::test_wrong_password_is_refused",
    "Unable to retrieve auth token: invalid username or password provided.": "test_images.py::test_registry_with_tokens_refuses_a_wrong_password",
    "removed image ": "test_images.py::test_pulled_image_is_listed_run_and_removed",
}


@pytest.fixture
def image(any_engine, load_image, plain_busybox):
    return load_image(any_engine, "busybox", plain_busybox)


@pytest.fixture(params=["setuid", "rootless"])
def caller(request, engines):
    """Both ways in which an unprivileged user runs containers, on a node where nothing else is worth a message."""
    engine = engines(request.param, "crun")
    return engine.with_fuse() if engine.rootless else engine


@pytest.fixture
def callers_image(caller, load_image, plain_busybox):
    image = load_image(caller, "busybox", plain_busybox)
    caller.output(image, "true")  # the first start on a node may have an image to unpack
    return image


@pytest.mark.parametrize("command, lines", USAGE + REFERENCES, ids=[command for command, _ in USAGE + REFERENCES])
def test_mistakes_on_the_command_line(any_engine, command, lines):
    result = any_engine.sarus(*command.split())
    assert (result.returncode, result.stdout, result.stderr.splitlines()) == (1, "", lines)


@pytest.mark.parametrize("options, lines", RUN + MOUNTS_AND_DEVICES, ids=[" ".join(options) for options, _ in RUN + MOUNTS_AND_DEVICES])
def test_mistakes_in_options_of_run(caller, callers_image, options, lines):
    result = caller.run(callers_image, "true", options=options, check=False)
    assert (result.returncode, result.stdout, result.stderr.splitlines()) == (1, "", lines)


@pytest.mark.parametrize("answers, options, prompts", [
    ("\n\n", ["--login"], "username: password: \n"),
    ("x\n", ["--login", "--username", ""], None),
])
def test_no_user_name(any_engine, answers, options, prompts):
    result = any_engine.sarus("pull", *options, "quay.io/a/b", input=answers)
    assert (result.returncode, result.stderr.splitlines()) == (1, ["Invalid username: empty value provided", HELP("pull")])
    assert result.stdout == (prompts or "")


def test_nothing_to_run(caller, callers_image):
    result = caller.sarus("run", callers_image)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [f"No command to run in a container of image {callers_image}:latest",
                                          "Neither the command line nor the image names a command or an entrypoint"]


def log_line(level, message, subsystem="Runtime"):
    return re.compile(rf"\[\d+\.\d+\] \[{re.escape(os.uname().nodename)}-\d+\] \[{subsystem}\] \[{level}\] {re.escape(message)}\n")


@pytest.mark.asroot
def test_destination_on_another_mount(caller, callers_image, workspace):
    """What a mount has brought into the container is not changed there; an unpacked image could lie on the same device."""
    options = [f"--mount=type=bind,src={workspace},dst=/mnt", "--mount=type=bind,src=/tmp,dst=/mnt/not-there/x"]
    result = caller.run(callers_image, "true", options=options, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert re.fullmatch(r"Failed to bind mount /tmp on container's /mnt/not-there/x: (Failed to .*: )?"
                        r"Mount destination \(\S*/mnt\) is not on a device allowed for mounts\n", result.stderr)
    assert not (workspace / "not-there").exists()


@pytest.mark.parametrize("value", ["x", "3x", "-1", "99999999999999999999"])
def test_descriptor_of_the_process_manager_that_is_no_number(caller, callers_image, value):
    result = caller.sarus("run", callers_image, "true", env={"PMI_FD": value})
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"Invalid value of the environment variable PMI_FD: expected the number of a file descriptor, found '{value}'\n"


def test_descriptor_of_the_process_manager_that_is_not_open(caller, callers_image):
    result = caller.run(callers_image, "sh", "-c", "echo ${PMI_FD-unset}", env={"PMI_FD": "77"})
    assert result.stdout == "unset\n"
    assert log_line("WARN", "PMI_FD=77 is not an open file descriptor: not passed to the container").fullmatch(result.stderr)


def test_variable_of_the_caller_that_is_not_set(any_engine, image):
    result = any_engine.sarus("--verbose", "run", "-e", "NOT_SET", image, "true")
    assert (result.returncode, result.stderr) == (0, "")
    assert log_line("INFO", "Skipping the environment variable 'NOT_SET': it is not set", "CLI").search(result.stdout)


def test_end_of_a_missing_command(caller, callers_image):
    result = caller.sarus("run", callers_image, "no-such-command")
    assert (result.returncode, result.stdout) == (1, "")
    assert 'exec: "no-such-command": executable file not found in $PATH' in result.stderr.splitlines()[-1]


WRITABLE = 'Path "{path}" cannot be group- or world-writable, so that no other user can change it'


@pytest.mark.parametrize("name, mode, message", [
    ("etc/sarus.json", None, 'Path "{path}" must be owned by root (found uid {uid}, gid {gid}), so that nobody else can change it'),
    ("etc/sarus.schema.json", 0o664, WRITABLE), ("bin/sarus", 0o757, WRITABLE), ("etc/hooks.d", 0o775, WRITABLE),
    ("etc/seccomp/default.json", 0o666, WRITABLE),
], ids=["owner", "schema", "program", "folder of hooks", "seccomp profile"])
def test_security_checks(setuid_engine, checked_prefix, image, name, mode, message):
    """No mode: the file belongs to the user."""
    path = checked_prefix / name
    before = path.stat()
    path.chmod(mode) if mode else os.chown(path, setuid_engine.user.uid, setuid_engine.user.gid)
    try:
        result = setuid_engine.variant(prefix=checked_prefix).sarus("run", image, "true")
    finally:
        os.chown(path, before.st_uid, before.st_gid)
        path.chmod(before.st_mode & 0o7777)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [message.format(path=path, uid=setuid_engine.user.uid, gid=setuid_engine.user.gid)]


@pytest.fixture(scope="module")
def checked_prefix(make_setuid_prefix):
    prefix = make_setuid_prefix("messages-checked", securityChecks=True)
    installation.set_configuration(prefix, seccompProfile=f"{prefix}/etc/seccomp/default.json")
    (prefix / "etc/hooks.d/fine.json").write_text('{"version": "1.0.0", "hook": {"path": "/bin/true"}, "when": {"always": false}, "stages": ["prestart"]}')
    return prefix


@pytest.mark.parametrize("text, test", ELSEWHERE.items(), ids=[f"{test}-{text[:30]}" for text, test in ELSEWHERE.items()])
def test_other_messages_are_compared_elsewhere(text, test):
    file, name = test.split("::")
    source = (pathlib.Path(__file__).parent / file).read_text()
    assert re.search(rf"^def {name}\(", source, re.M), f"there is no {test}"
    assert text.replace("'", "\\'") in source or text in source, f"{file} does not have the text {text!r}"


def test_a_starter_for_one_group(engines, make_setuid_prefix, load_image, plain_busybox, user, other_user):
    """Mode 4750: members start containers, others learn which group it is."""
    engine = engines("setuid", "crun")
    engine = engine.variant(prefix=make_setuid_prefix("one-group"))
    image = load_image(engine, "busybox", plain_busybox)
    starter = engine.prefix / "libexec" / "sarus-starter"
    group = next(group for group in os.getgrouplist(user.name, user.gid) if group != user.gid)
    os.chown(starter, 0, group)
    starter.chmod(0o4750)
    assert engine.output(image, "id", "-u") == str(user.uid)
    result = engine.variant(user=other_user).sarus("ps")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [f"Failed to execute {starter}: Permission denied",
                                          f"Only members of the group {group} may start containers with this installation (see the command `id`)"]


def test_tasks_of_a_step_say_the_same_once(any_engine):
    """A hundred tasks with one mistake need one line on each node. Who has said it may say it again."""
    step = {"SLURM_JOB_ID": str(time.monotonic_ns()), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "8"}

    def said(rank, *options, image="nobody/has:this", **changes):
        result = any_engine.sarus(*options, "run", image, "true", env={**step, "SLURM_PROCID": str(rank), **changes})
        assert (result.returncode, result.stdout) == (1, "")
        return "is not available" in result.stderr

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        speakers = [rank for rank, speaks in enumerate(pool.map(said, range(8))) if speaks]
    assert len(speakers) == 1
    assert [said(rank) for rank in range(8)] == [rank in speakers for rank in range(8)]
    silent = (speakers[0] + 1) % 8
    assert said(silent, image="nobody/has:that"), "another message"
    assert said(silent, "--verbose")
    assert said(silent, SLURM_STEP_ID="1")
    assert said(silent, SLURM_STEP_ID="")
    assert said(silent, SLURM_STEP_NUM_TASKS="1")
