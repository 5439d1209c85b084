"""The command line: how it is parsed, what is said about mistakes, and with which exit status the program ends."""

import json
import re
import resource
import subprocess
import sys

import pytest
from helpers import installation

LOG_LINE = re.compile(r"\[\d+\.\d+\] \[[^\]]+-\d+\] \[[A-Za-z]+\] \[(DEBUG|INFO|WARN|ERROR)\] .+")

USAGES = {
    "exec": "sarus exec [OPTIONS] NAME COMMAND [ARG...]",
    "help": "sarus help [COMMAND]",
    "hooks": "sarus hooks [OPTIONS]",
    "images": "sarus images [OPTIONS]",
    "inspect": "sarus inspect [OPTIONS] NAME",
    "kill": "sarus kill [OPTIONS] NAME",
    "load": "sarus load [OPTIONS] FILE [NAME[:TAG]]",
    "pull": "sarus pull [OPTIONS] REPOSITORY[:TAG]",
    "ps": "sarus ps [OPTIONS]",
    "rmi": "sarus rmi REPOSITORY[:TAG]",
    "run": "sarus run [OPTIONS] REPOSITORY[:TAG] [COMMAND] [ARG...]",
    "ssh-keygen": "sarus ssh-keygen",
    "tag": "sarus tag [OPTIONS] SOURCE[:TAG] TARGET[:TAG]",
    "version": "sarus version",
}


@pytest.fixture
def succeed(any_engine):
    """succeed(*arguments) -> standard output; nothing may be on standard error."""

    def run(*arguments, **keywords):
        result = any_engine.sarus(*arguments, **keywords)
        assert (result.returncode, result.stderr) == (0, ""), arguments
        return result.stdout

    return run


@pytest.fixture
def fail(any_engine):
    """fail(*arguments) -> lines on standard error; the exit status has to be 1, and standard output empty."""

    def run(*arguments, **keywords):
        result = any_engine.sarus(*arguments, **keywords)
        assert (result.returncode, result.stdout) == (1, ""), arguments
        return result.stderr.splitlines()

    return run


@pytest.fixture
def loaded(any_engine, load_image, plain_busybox):
    """Busybox in the user's repository."""
    return load_image(any_engine, "busybox", plain_busybox)


# Unknown commands and options


@pytest.mark.parametrize("name", ["frobnicate", "---run", "-", "--", "", "RUN", "ru"])
def test_unknown_command_is_named(fail, name):
    assert fail(name)[:2] == [f"'{name}' is not a Sarus command", "See 'sarus help'"]


def test_what_may_have_been_meant_is_suggested_after_the_documented_lines(fail):
    assert fail("imagse") == ["'imagse' is not a Sarus command", "See 'sarus help'", "Did you mean 'images'?"]
    assert fail("run", "--wrokdir=/", "image") == ["unrecognised option '--wrokdir'", "See 'sarus help run'", "Did you mean '--workdir'?"]


def test_help_of_an_unknown_command_is_an_error(fail):
    assert fail("help", "frobnicate")[:2] == ["'frobnicate' is not a Sarus command", "See 'sarus help'"]


def test_unknown_global_option_refers_to_the_general_help(fail):
    assert fail("--invalid-option") == ["unrecognised option '--invalid-option'", "See 'sarus help'"]
    assert fail("--invalid-option", "images") == ["unrecognised option '--invalid-option'", "See 'sarus help'"]
    assert fail("-x", "images") == ["unrecognised option '-x'", "See 'sarus help'"]


@pytest.mark.parametrize("command, positionals", [("run", ["image"]), ("pull", ["image"]), ("load", ["file", "image"]), ("images", []),
                                                  ("rmi", ["image"]), ("hooks", []), ("ssh-keygen", [])])
def test_unknown_option_of_a_command_refers_to_its_help(fail, command, positionals):
    assert fail(command, "--invalid-option", *positionals)[:2] == ["unrecognised option '--invalid-option'", f"See 'sarus help {command}'"]
    assert fail(command, "--invalid-option=value", *positionals)[0] == "unrecognised option '--invalid-option'"
    assert fail(command, "-x", *positionals)[:2] == ["unrecognised option '-x'", f"See 'sarus help {command}'"]


@pytest.mark.parametrize("command", ["help", "version"])
def test_commands_without_options_say_so(fail, command):
    assert fail(command, "--debug") == [f"Command '{command}' doesn't support options", f"See 'sarus help {command}'"]


# The number of arguments


@pytest.mark.parametrize("command, arguments", [("run", []), ("run", ["--tty"]), ("pull", []), ("load", []), ("rmi", []),
                                                ("kill", [])])
def test_too_few_arguments(fail, command, arguments):
    assert fail(command, *arguments) == [f"Too few arguments for command '{command}'", f"See 'sarus help {command}'"]


@pytest.mark.parametrize("command, arguments", [("pull", ["image", "extra"]), ("load", ["file", "image", "extra"]),
                                                ("kill", ["name", "extra"]),
                                                ("hooks", ["extra"]), ("ssh-keygen", ["extra"]), ("help", ["run", "extra"]), ("version", ["extra"])])
def test_too_many_arguments(fail, command, arguments):
    assert fail(command, *arguments) == [f"Too many arguments for command '{command}'", f"See 'sarus help {command}'"]


def test_number_of_arguments_is_checked_before_the_values_of_options(fail):
    assert fail("run", "--pid=invalid")[0] == "Too few arguments for command 'run'"
    assert fail("run", "--workdir")[0] == "Too few arguments for command 'run'"


def test_arguments_of_ps_are_ignored(any_engine):
    result = any_engine.sarus("ps", "extra", "arguments")
    assert (result.returncode, result.stderr) == (0, "")


def test_unknown_options_of_ps_and_kill_are_errors(fail):
    assert fail("ps", "--invalid-option") == ["unrecognised option '--invalid-option'", "See 'sarus help ps'"]
    assert fail("ps", "-x", "extra") == ["unrecognised option '-x'", "See 'sarus help ps'"]
    assert fail("kill", "--invalid-option", "nobody") == ["unrecognised option '--invalid-option'", "See 'sarus help kill'"]
    assert fail("kill", "--singal=TERM", "nobody") == ["unrecognised option '--singal'", "See 'sarus help kill'", "Did you mean '--signal'?"]


# The forms of options


def test_options_are_parsed_in_all_documented_forms(any_engine, loaded):
    def variable(*options):
        return any_engine.output(loaded, "sh", "-c", 'echo "$A"', options=options)

    for options in (["--env=A=b c"], ["--env", "A=b c"], ["-e", "A=b c"], ["-eA=b c"], ["-me", "A=b c"], ["-meA=b c"]):
        assert variable(*options) == "b c", options
    assert variable("-eA=first", "--env=A=second") == "second"
    assert any_engine.output(loaded, "pwd", options=["--workd=/tmp"]) == "/tmp"
    assert any_engine.sarus("--verb", "run", loaded, "true").returncode == 0


def test_nothing_after_the_image_is_interpreted(any_engine, loaded):
    assert any_engine.output(loaded, "echo", "--debug", "-e", "--", "--workdir=x", "-w") == "--debug -e -- --workdir=x -w"


def test_two_dashes_end_the_options(any_engine, loaded):
    assert any_engine.output("--", loaded, "echo", "word", "--") == "word --"
    assert any_engine.sarus("run", "--", "--debug", "true").stderr.startswith("Invalid image reference '--debug'\n")


def test_options_may_stand_behind_arguments(any_engine, loaded):
    assert any_engine.sarus("rmi", "nosuch", "--quiet").stderr.splitlines()[-1] == "Cannot find image 'docker.io/library/nosuch:latest'"
    assert any_engine.sarus("images", loaded, "--quiet").stdout == any_engine.sarus("images", "-q", loaded).stdout


def test_unknown_option_behind_an_argument_is_named_after_the_documented_lines(fail):
    assert fail("load", "file", "image", "--quite") == ["Too many arguments for command 'load'", "See 'sarus help load'", "unrecognised option '--quite'",
                                                        "Did you mean '--quiet'?"]
    assert fail("rmi", "image", "--frobnicate") == ["unrecognised option '--frobnicate'", "See 'sarus help rmi'"]


def test_value_may_start_with_two_dashes_but_not_with_one(fail):
    assert fail("run", "--workdir", "--tty", "image")[0] == "The working directory '--tty' is invalid, it needs to be an absolute path."
    assert fail("run", "--workdir", "-t", "image") == ["the required argument for option '--workdir' is missing", "See 'sarus help run'"]
    assert fail("run", "-w", "-", "image")[0] == "the required argument for option '--workdir' is missing"


def test_abbreviated_option_takes_the_next_argument(any_engine, loaded):
    assert any_engine.output(loaded, "pwd", options=["--workd", "/tmp"]) == "/tmp"


def test_empty_value_is_legal_except_after_the_equal_sign(any_engine, load_image, images, fail):
    image = load_image(any_engine, "cli-entrypoint", images.busybox({"Entrypoint": ["/bin/echo", "entrypoint"], "Cmd": ["default"]}))
    assert any_engine.output(image) == "entrypoint default"
    assert any_engine.output(image, "echo", "cleared", options=["--entrypoint", ""]) == "cleared"
    assert any_engine.output(image, "argument", options=["--entrypoint", "echo  two words"]) == "two words argument"
    assert fail("run", "--entrypoint=", image) == ["the argument for option '--entrypoint' should follow immediately after the equal sign",
                                                   "See 'sarus help run'"]


def test_ambiguous_option_names_the_candidates(fail):
    assert fail("--v", "images") == ["option '--v' is ambiguous and matches '--verbose', and '--version'", "See 'sarus help'"]
    assert fail("run", "--en=A", "image") == ["option '--en' is ambiguous and matches '--entrypoint', '--env', and '--env-file'", "See 'sarus help run'"]


def test_flag_takes_no_value(fail):
    assert fail("--debug=yes", "images") == ["option '--debug' does not take any arguments", "See 'sarus help'"]
    assert fail("run", "--tty=yes", "image") == ["option '--tty' does not take any arguments", "See 'sarus help run'"]


@pytest.mark.parametrize("option", ["--workdir=/", "--pid=host", "--mpi-type=x", "--name=x", "--entrypoint=x", "--tty", "--mpi"])
def test_option_that_is_not_repeatable_is_refused_the_second_time(fail, option):
    name = option.partition("=")[0]
    assert fail("run", option, option, "image") == [f"option '{name}' cannot be specified more than once", "See 'sarus help run'"]


# Messages about the options of run; all of them come before the image is looked for


@pytest.mark.parametrize("options, lines", [
    (["--annotation", ""], ["Invalid annotation requested from CLI: empty option value"]),
    (["--annotation==value"],
     ["Error parsing annotation from CLI '=value': Failed to parse key-value pair '=value': key is empty"]),
    (["--env", ""], ["Invalid environment variable requested from CLI: empty option value"]),
    (["-e", "=value"],
     ["Error parsing environment variable requested from CLI '=value': Failed to parse key-value pair '=value': key is empty"]),
    (["--mpi-type", ""], ["Empty value provided for --mpi-type option"]),
    (["--pid=invalid"], ["Incorrect value provided for --pid option: 'invalid'. Supported values: 'host', 'private'.", "See 'sarus help run'"]),
    (["--pid", ""], ["Incorrect value provided for --pid option: ''. Supported values: 'host', 'private'.", "See 'sarus help run'"]),
    (["--ssh", "--pid=host"],
     ["The use of '--ssh' is incompatible with '--pid=host'. The SSH hook requires the use of a private PID namespace"]),
    (["--workdir=invalid"], ["The working directory 'invalid' is invalid, it needs to be an absolute path.", "See 'sarus help run'"]),
    (["-w", ""], ["The working directory '' is invalid, it needs to be an absolute path.", "See 'sarus help run'"]),
])
def test_wrong_option_of_run_is_reported_in_the_documented_words(fail, options, lines):
    assert fail("run", *options, "no/such/image", "true") == lines


def test_missing_image_is_named_in_full(fail):
    assert fail("run", "quay.io/no/such:tag", "true")[0] == "Image quay.io/no/such:tag is not available"


def test_missing_image_of_docker_is_looked_for_under_the_older_name_too(any_engine):
    result = any_engine.sarus("run", "nosuch", "true")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        "Image docker.io/library/nosuch:latest is not available. Attempting to look for equivalent image in index.docker.io server repositories",
        "Image index.docker.io/library/nosuch:latest is not available",
        "'sarus images' lists the available images, 'sarus pull' gets more"]


def test_image_without_anything_to_run_is_an_error(fail, loaded):
    assert "command" in fail("run", loaded)[0]


@pytest.mark.parametrize("reference", ["///", "a..b", "UPPER/CASE/", "image:", "image@sha256:1"])
def test_malformed_image_reference_is_refused_by_every_command_that_takes_one(fail, reference):
    for arguments in (["pull", reference], ["rmi", reference], ["load", "file", reference], ["tag", reference, "x"], ["run", reference, "true"]):
        assert fail(*arguments)[0] == f"Invalid image reference '{reference}'"


# Exit statuses


def test_exit_status_of_the_container_is_passed_on(any_engine, loaded):
    for status in (0, 1, 7, 255):
        assert any_engine.sarus("run", loaded, "sh", "-c", f"exit {status}").returncode == status
    assert any_engine.sarus("run", loaded, "sh", "-c", "kill -KILL $$").returncode == 137


def test_command_that_does_not_exist_fails(any_engine, loaded):
    result = any_engine.sarus("run", loaded, "no-such-command")
    assert (result.returncode, result.stdout, result.stderr) == (1, "", 'exec: "no-such-command": executable file not found in $PATH\n')


# Help and version


def test_general_help_lists_every_command_alphabetically(succeed):
    text = succeed("help")
    assert text.startswith("Usage: sarus COMMAND\n\nOptions:\n  --help ")
    commands = re.findall(r"^   (\S+) +\S", text.split("\nCommands:\n")[1], re.MULTILINE)
    assert commands == sorted(commands) and set(USAGES) <= set(commands)
    assert max(map(len, text.splitlines())) <= 80


def test_help_is_printed_without_a_command_and_whatever_follows_the_option(succeed):
    assert succeed() == succeed("--help") == succeed("help") == succeed("--help", "frobnicate", "--x") == succeed("--hel")


@pytest.mark.parametrize("command", USAGES)
def test_help_of_a_command_starts_with_its_usage(succeed, command):
    assert succeed("help", command).startswith(f"Usage: {USAGES[command]}\n\n")


def test_short_names_and_arguments_are_shown_in_the_help(succeed):
    text = succeed("help", "run")
    for line in ("-e [ --env ] arg ", "-m [ --mpi ] ", "-n [ --name ] arg ", "-t [ --tty ] ", "-w [ --workdir ] arg ", "--pid arg ", "--ssh "):
        assert f"\n  {line}" in text
    assert "source-format" not in succeed("help", "load") and "centralized" not in succeed("help", "rmi")


def test_version_is_one_line(succeed):
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", succeed("version"))
    assert succeed("version") == succeed("--version") == succeed("--version", "frobnicate", "--x")


# A configuration that cannot be used


@pytest.fixture(scope="module")
def spoilt_prefix(make_any_prefix):
    return make_any_prefix("cli-spoilt")


@pytest.fixture
def spoilt(any_engine, spoilt_prefix):
    """spoilt(change): the engine of an installation to whose sarus.json change(path) was done."""
    path = spoilt_prefix / "etc/sarus.json"
    content = path.read_bytes()

    def make(change):
        change(path)
        return any_engine.variant(prefix=spoilt_prefix)

    yield make
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    path.chmod(0o644)


SPOILT = {
    "missing": lambda path: path.unlink(),
    "unreadable": lambda path: path.chmod(0),
    "not JSON": lambda path: path.write_text('{"securityChecks": '),
    "empty": lambda path: path.write_text(""),
    "not an object": lambda path: path.write_text("[]"),
    "wrong type": lambda path: installation.set_configuration(path.parent.parent, tempDir=7),
    "missing key": lambda path: installation.set_configuration(path.parent.parent, tempDir=None),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_help_and_version_work_whatever_the_configuration_is(spoilt, kind):
    engine = spoilt(SPOILT[kind])
    for arguments in ([], ["help"], ["--help"], ["help", "run"], ["version"], ["--version"]):
        result = engine.sarus(*arguments)
        assert (result.returncode, result.stderr) == (0, ""), arguments
        assert result.stdout.startswith("Usage: sarus ") or re.fullmatch(r"\d+\.\d+\.\d+\S*\n", result.stdout)


@pytest.mark.parametrize("kind", SPOILT)
def test_other_commands_name_the_configuration_that_they_cannot_use(spoilt, spoilt_prefix, kind):
    engine = spoilt(SPOILT[kind])
    commands = [["images"], ["run", "image", "true"], ["pull", "image"], ["rmi", "image"], ["load", "file", "image"], ["hooks"]]
    if kind != "unreadable":  # these leave everything to the set-user-ID program, which can read it
        commands += [["ps"], ["kill", "name"]]
    for arguments in commands:
        result = engine.sarus(*arguments)
        assert (result.returncode, result.stdout) == (1, ""), arguments
        assert f"{spoilt_prefix}/etc/sarus.json" in result.stderr.splitlines()[0]


@pytest.mark.parametrize("kind", ["wrong type", "missing key"])
def test_message_about_the_configuration_names_the_key(spoilt, kind):
    assert "tempDir" in spoilt(SPOILT[kind]).sarus("images").stderr.splitlines()[0]


def test_misspelt_new_key_of_the_configuration_is_named(spoilt):
    engine = spoilt(lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), "allowRootles": False})))
    result = engine.sarus("images")
    assert result.returncode == 1 and "allowRootles" in result.stderr.splitlines()[0]


def test_unknown_key_that_sarus_1_7_ignored_changes_nothing(spoilt):
    engine = spoilt(lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), "seccompProfle": "/x"})))
    result = engine.sarus("images")
    assert (result.returncode, result.stderr) == (0, "")


def test_mistakes_on_the_command_line_are_reported_without_a_configuration(spoilt):
    result = spoilt(SPOILT["missing"]).sarus("run")
    assert result.stderr.splitlines() == ["Too few arguments for command 'run'", "See 'sarus help run'"]


# Streams


PRINTING = [["version"], ["--version"], ["help"], ["help", "run"], [], ["images"], ["images", "--digests"], ["completion", "bash"], ["ps"],
            ["completion", "fish"]]


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_output_that_cannot_be_written_is_an_error(any_engine, arguments):
    with open("/dev/full", "w") as full:
        result = any_engine.sarus(*arguments, stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 1
    assert re.search("standard output: No space left on device", result.stderr)


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_closed_standard_output_is_an_error(any_engine, arguments):
    argv, identity = any_engine.command(*arguments)
    result = subprocess.run(["/bin/sh", "-c", 'exec "$0" "$@" >&-', *argv], env=any_engine.user.environment(), stdin=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True, timeout=300, **identity)
    assert result.returncode == 1
    assert "standard output" in result.stderr


def test_closed_streams_are_not_taken_for_other_files(any_engine, loaded):
    argv, identity = any_engine.command("run", loaded, "sh", "-c", "exit 3")
    result = subprocess.run(["/bin/sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', *argv], env=any_engine.user.environment(), timeout=300, **identity)
    assert result.returncode == 3


def test_nothing_but_the_containers_output_is_printed_by_default(any_engine, loaded):
    result = any_engine.sarus("run", loaded, "sh", "-c", "echo out; echo err >&2")
    assert (result.stdout, result.stderr) == ("out\n", "err\n")


def levels(text):
    return {match[1] for match in map(LOG_LINE.fullmatch, text.splitlines()) if match}


def test_variable_that_is_not_set_is_skipped_with_a_note(any_engine, loaded):
    options = ["-e", "SARUS_NOT_SET", "-e", "SARUS_EMPTY"]
    lines = any_engine.output(loaded, "env", options=options, env={"SARUS_EMPTY": ""}).splitlines()
    assert "SARUS_EMPTY=" in lines and not any("SARUS_NOT_SET" in line for line in lines)
    verbose = any_engine.sarus("--verbose", "run", *options, loaded, "true", env={"SARUS_EMPTY": ""}).stdout
    assert "'SARUS_NOT_SET': it is not set" in verbose and "SARUS_EMPTY" not in verbose


def test_verbose_and_debug_print_on_standard_output(any_engine, loaded):
    def run(*options):
        # A variable that is not set is skipped, with a message of the level INFO.
        return any_engine.sarus(*options, "run", "-e", "SARUS_NOT_SET", loaded, "echo", "container")

    plain, verbose, debug, both = run(), run("--verbose"), run("--debug"), run("--verbose", "--debug")
    assert plain.stdout == "container\n"
    assert levels(verbose.stdout) == {"INFO"}
    assert levels(debug.stdout) == levels(both.stdout) == {"DEBUG", "INFO"}
    for result in (verbose, debug, both):
        assert result.returncode == 0
        assert levels(result.stderr) == set()
        assert [line for line in result.stdout.splitlines() if not LOG_LINE.fullmatch(line)] == ["container"]


def test_warnings_are_on_standard_error(any_engine):
    result = any_engine.sarus("rmi", "--centralized-repository", "no/such")
    assert levels(result.stderr) == {"WARN"} and result.stdout == ""


def test_trace_of_an_error_is_printed_on_demand(any_engine, fail):
    assert len(fail("rmi", "no/such")) == 1
    for option in ("--verbose", "--debug"):
        lines = any_engine.sarus(option, "rmi", "no/such").stderr.splitlines()
        assert lines[0] == "Cannot find image 'docker.io/no/such:latest'"
        assert lines[1].endswith("Error trace (most nested error last):") and lines[2].startswith("#0 ")


# Unusual processes


@pytest.mark.parametrize("character", ["\x1b[31m", "\r", "\n", "\x7f", "\u0085", "\udcff"], ids=ascii)
def test_control_characters_are_quoted_in_messages(any_engine, character):
    text = f"a{character}b"
    for arguments in ([text], [f"--{text}"], ["help", text], ["run", f"--{text}", "image"], ["run", f"-{character}", "image"], ["run", text, "true"],
                      ["pull", text], ["rmi", text], ["load", "file", text], ["run", f"--workdir={text}", "image"], ["run", f"--pid={text}", "image"],
                      ["run", f"--name={text}", "image"], ["run", f"--env=={text}", "image"], ["run", f"--annotation=={text}", "image"],
                      ["run", f"--mount={text}", "image"], ["run", f"--mount=type={text}", "image"], ["run", f"--device={text}", "image"],
                      ["completion", text], ["kill", text], ["kill", f"--signal={text}", "name"],
                      ["pull", f"--temp-dir=/{text}", "image"], ["load", f"/{text}", "image"]):
        result = any_engine.sarus(*arguments, text=False)
        assert result.returncode == 1, arguments
        message = result.stderr.decode()  # valid UTF-8, in any case
        assert re.search(r"\\x[0-9a-f]{2}", message), (arguments, message)
        assert all(line.isprintable() for line in message.removesuffix("\n").split("\n")), (arguments, message)
        if character == "\n":
            assert not message.startswith("b") and "\nb" not in message


def test_environment_of_two_mebibytes_reaches_the_container(engine, busybox):
    variables = {f"LARGE{number}": "x" * 100000 for number in range(22)}

    def allow_large_environment():
        # The kernel gives a quarter of the stack to arguments and environment, up to 6 MiB.
        resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))

    result = engine.sarus("run", busybox, "sh", "-c", "echo ${#LARGE0} ${#LARGE21}", env=variables, preexec_fn=allow_large_environment)
    assert (result.returncode, result.stdout) == (0, "100000 100000\n"), result.stderr


def run_without_arguments(engine, program):
    """Executes the program with an empty argument vector, which holds not even its name, and with an empty environment."""
    code = ("import ctypes, sys; libc = ctypes.CDLL(None); none = (ctypes.c_char_p * 1)(None); "
            "libc.execve(sys.argv[1].encode(), none, none); sys.exit(99)")
    _, identity = engine.command()
    return subprocess.run([sys.executable, "-c", code, program], capture_output=True, text=True, timeout=300, **identity)


def test_program_without_any_argument_prints_the_help(any_engine, succeed):
    result = run_without_arguments(any_engine, any_engine.program)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == succeed("help")


def test_starter_without_any_argument_refuses(any_engine):
    result = run_without_arguments(any_engine, any_engine.prefix / "libexec/sarus-starter")
    assert result.returncode == 1 and result.stderr != ""


def test_commands_without_privileges_ask_for_no_security(make_any_prefix, any_engine):
    """What runs as the user has nothing to protect from him; what takes privileges looks first."""
    prefix = make_any_prefix("open-to-all")
    (prefix / "bin" / "sarus").chmod(0o777)
    engine = any_engine.variant(prefix=prefix)
    assert engine.sarus("images").returncode == 0
    result = engine.sarus("ps")
    assert result.returncode == 1 and f"{prefix}/bin/sarus" in result.stderr
