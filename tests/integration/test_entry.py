"""Set-user-ID installations where the bit has no effect: what is said, the container that starts without privileges, and the refusal."""

import subprocess

import pytest
from helpers.installation import SANDBOX

pytestmark = pytest.mark.asroot

NOSUID = 'mount --bind "$0" "$0" && mount -o remount,bind,nosuid "$0" && exec "$@"'


def as_user(*words):
    """A place which the user goes to: `words` stand before the command in the sandbox."""
    def place(command, _):
        end = command.index("--") + 1
        return [*command[:end], *words, *command[end:]]

    return place


def nosuid(command, prefix):
    return [str(SANDBOX), "--", "sh", "-c", NOSUID, str(prefix), *command]


PLACES = {"no_new_privs": (as_user("setpriv", "--no-new-privs"), "the process runs with no_new_privs"),
          "nosuid": (nosuid, "its file system is mounted with nosuid"),
          "user_namespace": (as_user("unshare", "--user", "--map-root-user"), "this is a user namespace")}


@pytest.fixture(scope="module")
def installed_with(engines, make_setuid_prefix):
    """installed_with(runtime, allowed) -> a set-user-ID engine on a node whose /dev/fuse everybody may use."""
    made = {}

    def make(runtime, allowed):
        if (runtime, allowed) not in made:
            nothing = {"notAllowedPrefixesOfPath": [], "notAllowedPaths": []}  # else the prefix could not be mounted
            made[runtime, allowed] = make_setuid_prefix(f"entry-{runtime}-{allowed}", runtime, allowRootless=allowed, userMounts=nothing)
        return engines("setuid", runtime).variant(prefix=made[runtime, allowed], sandbox=("--fuse",))

    return make


@pytest.fixture
def image(engines, load_image, plain_busybox):
    """The file, because in a user namespace the user has another name and hence another repository."""
    engine = engines("setuid", "crun")
    load_image(engine, "busybox", plain_busybox)
    return engine.user.home / ".sarus/images/load/library/busybox/latest.squashfs"


def run(engine, place, *arguments):
    command, identity = engine.command(*arguments)
    return subprocess.run(place(command, engine.prefix), env=engine.user.environment(), cwd=engine.user.home, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=300, **identity)


def notice(engine, cause):
    return f"The set-user-ID bit of {engine.prefix}/libexec/sarus-starter has no effect because {cause}: the container starts without privileges"


@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.parametrize("place, cause", PLACES.values(), ids=PLACES)
def test_where_the_bit_has_no_effect_the_container_starts_without_privileges(installed_with, image, runtime, place, cause):
    """Said with --verbose alone: it is what the user asked for, as far as he can tell."""
    engine = installed_with(runtime, True)
    quiet = run(engine, place, "run", image, "true", "/proc/self/ns/user")
    assert quiet.returncode == 0 and quiet.stderr == ""
    verbose = run(engine, place, "--verbose", "run", image, "true")
    assert verbose.returncode == 0 and notice(engine, cause) in verbose.stdout
    privileged = engine.sarus("--verbose", "run", image, "true")
    assert privileged.returncode == 0 and "set-user-ID" not in privileged.stdout + privileged.stderr


@pytest.mark.parametrize("place, cause", PLACES.values(), ids=PLACES)
def test_a_site_that_forbids_rootless_containers_gets_the_cause(installed_with, image, place, cause):
    engine = installed_with("crun", False)
    result = run(engine, place, "run", image, "true")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines() == ["This site does not allow containers without the set-user-ID starter (`allowRootless` in sarus.json)",
                                          notice(engine, cause)]
    assert engine.output(image, "echo", "privileged") == "privileged"


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_a_container_starts_in_a_container_where_the_installation_is_mounted(installed_with, image, temp_dir, runtime):
    engine = installed_with(runtime, True)
    node = ["/usr", "/lib", "/lib64", "/bin", "/sbin", engine.prefix, engine.user.home, temp_dir]
    options = [f"--mount=type=bind,src={path},dst={path}" for path in node] + ["--device=/dev/fuse"]
    inner = [engine.program, "--verbose", "run", image, "sh", "-c", "echo in $(id -u); cat /etc/os-release; exit 7"]
    result = engine.run(image, *inner, options=options, check=False)
    assert result.returncode == 7, result.stderr
    assert f"in {engine.user.uid}\n" in result.stdout and "Sarus demo image" in result.stdout
    assert notice(engine, "the process runs with no_new_privs") in result.stdout
