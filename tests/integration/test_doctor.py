"""sarus doctor and sarus config check: each thing that keeps containers from running is found, with the command that mends it."""

import json
import re
import socket
import subprocess

import pytest
from helpers import system
from helpers.installation import set_configuration
from helpers.terminal import Terminal

STATUS = {"ok": 0, "note": 0, "warning": 1, "error": 2}


def examine(engine, *options, silent="", **keywords):
    """The findings of `sarus doctor`, by the names of the checks. It is asked again if another check than `silent` gave no answer in time: the
    machine was busy."""
    found = {}

    def answered():
        found.clear()
        found.update(findings_of(engine, *options, **keywords))
        return not any("no answer within" in finding["message"] for name in found if name != silent for finding in found[name])

    system.eventually(answered)
    return found


def findings_of(engine, *options, **keywords):
    result = engine.sarus("doctor", "--json", *options, **keywords)
    findings = json.loads(result.stdout)
    assert all(finding["message"] for finding in findings)
    assert all(finding["cure"] for finding in findings if STATUS[finding["status"]]), findings
    assert result.returncode == max(STATUS[finding["status"]] for finding in findings), result.stderr
    found = {}
    for finding in findings:
        found.setdefault(finding["check"], []).append(finding)
    return found


def check(found, name):
    """(status, message) of a check with a single finding."""
    assert len(found[name]) == 1, found[name]
    return found[name][0]["status"], found[name][0]["message"]


@pytest.fixture(scope="module")
def patient(any_engine, make_any_prefix):
    """An installation that tests break."""
    return any_engine.variant(prefix=make_any_prefix("doctor"))


@pytest.fixture
def configuration(patient):
    """The text of its sarus.json, written back at the end."""
    file = patient.prefix / "etc/sarus.json"
    before = file.read_text()
    yield file
    file.unlink(missing_ok=True)
    file.write_text(before)
    file.chmod(0o644)
    if patient.rootless:
        patient.user.own(file)


def test_a_sound_installation(user_engine):
    found = examine(user_engine)
    assert all(finding["status"] in ("ok", "note") for finding in found["configuration"])
    for name in ("starter", "permissions", "kernel", "filesystems", "cgroups", "repository", "locks", "temporary files", "skopeo"):
        assert check(found, name)[0] == "ok", found[name]
    assert ("loop devices" in found) == (not user_engine.rootless)
    assert {"user namespaces", "kernel settings", "OCI runtime", "hooks", "CDI devices", "seccomp", "quota", "central repository", "Slurm"} <= found.keys()


@pytest.mark.asroot
def test_root_inside(user_engine, make_any_prefix, open_directory):
    """Which ids --remap-root has, and what gives an account more of them."""
    assert check(examine(user_engine), "remap-root") == ("ok", "65536 user ids, 65536 group ids")
    finding, = examine(user_engine.variant(wrapper=system.WITHOUT_SUBORDINATE_IDS))["remap-root"]
    assert finding["status"] == "note" and f"{user_engine.user.name} has no ids in /etc/subuid: --remap-root works with one id" in finding["message"]
    assert re.fullmatch(rf"usermod --add-subuids \d+-\d+ --add-subgids \d+-\d+ {user_engine.user.name} # as root", finding["cure"])
    directory_service = user_engine.variant(wrapper=("unshare", "--mount", "sh", "-c", f"""
        mkdir {open_directory}/etc; : > {open_directory}/etc/subuid
        grep ^{user_engine.user.name}: /etc/passwd > {open_directory}/account; grep -v ^{user_engine.user.name}: /etc/passwd > {open_directory}/etc/passwd
        printf '#!/bin/sh\ncat {open_directory}/account\n' > {open_directory}/getent; chmod -R a+rX {open_directory}; chmod 755 {open_directory}/getent
        mount --bind {open_directory}/getent /usr/bin/getent && mount -t overlay none -o lowerdir={open_directory}/etc:/etc /etc && exec "$@"
        """, "sh"))
    finding, = examine(directory_service, env={"USER": "somebody"})["remap-root"]
    assert user_engine.user.name in finding["message"] and "somebody" not in finding["message"] + finding["cure"]
    forbidden = user_engine.variant(prefix=make_any_prefix("doctor-rootless"))
    set_configuration(forbidden.prefix, allowRootless=False)
    assert "allowRootless" in check(examine(forbidden), "remap-root")[1]


def test_text_and_help(any_engine):
    lines = any_engine.sarus("doctor").stdout.splitlines()
    assert f"ok       configuration      {any_engine.prefix}/etc/sarus.json is valid" in lines
    assert all(line.split()[0] in STATUS or line.startswith(" " * 28 + "cure: ") for line in lines)


def test_nothing_is_created(patient, configuration):
    base = patient.user.home / "doctor-repositories"
    set_configuration(patient.prefix, localRepositoryBaseDir=str(base))
    assert check(examine(patient), "repository")[0] == "ok" and not base.exists()


@pytest.mark.parametrize("breakage", ["missing", "unreadable", "no JSON"])
def test_without_a_configuration_the_rest_is_examined(patient, configuration, breakage):
    if breakage == "missing":
        configuration.unlink()
    elif breakage == "unreadable":
        configuration.chmod(0)
    else:
        configuration.write_text("{\n  'a': 1\n}")
    found = examine(patient)
    status, message = check(found, "configuration")
    assert status == "error" and str(configuration) in message
    assert "line 2" in message or breakage != "no JSON"
    assert check(found, "kernel")[0] == "ok" and "starter" in found and "Slurm" in found


def test_all_problems_of_a_configuration(patient, configuration):
    text = json.loads(configuration.read_text())
    del text["runcPath"]
    configuration.write_text(json.dumps(text | {"tempDir": "tmp", "allowRotless": True, "siteMounts": [{"type": "bind"}]}, indent=1))
    found = examine(patient)
    messages = "\n".join(finding["message"] for finding in found["configuration"])
    for part in ("tempDir: expected an absolute path, found 'tmp'", "unknown key 'allowRotless'", "siteMounts[0]: the required key 'source' is missing",
                 "siteMounts[0]: the required key 'destination' is missing", "the required key 'runcPath' is missing"):
        assert part in messages
    assert "OCI runtime" not in found and "repository" in found


def test_config_check(any_engine, user):
    file = user.home / "doctor.json"
    file.write_text('{\n "securityChecks": 1,\n "tmpDir": "/tmp",\n "imageMont": "fuse"\n}\n')
    user.own(file)
    result = any_engine.sarus("config", "check", file)
    assert result.returncode == 2
    assert f"error    configuration      {file}:2: securityChecks: expected true or false, found 1\n" in result.stdout
    assert f"{file}:4: unknown key 'imageMont'\n{' ' * 28}cure: Did you mean 'imageMount'?\n" in result.stdout
    assert f"warning  configuration      {file}:3: tmpDir: unknown key, ignored as by Sarus 1.7\n{' ' * 28}cure: Did you mean 'tempDir'?\n" in result.stdout
    assert f"{file}: the required key 'OCIBundleDir' is missing\n" in result.stdout
    findings = json.loads(any_engine.sarus("config", "check", "--json", file).stdout)
    assert len(findings) == len(result.stdout.splitlines()) / 2
    own = any_engine.sarus("config", "check")
    assert own.returncode == 0 and own.stdout.endswith(f"{any_engine.prefix}/etc/sarus.json is valid\n")
    result = any_engine.sarus("config", "check", user.home / "nosuch.json")
    assert result.returncode == 2 and "No such file or directory" in result.stdout


def test_unknown_flag_of_a_site_mount_is_a_warning(patient, configuration, load_image, plain_busybox, workspace):
    mount = {"type": "bind", "source": str(workspace), "destination": "/site", "flags": {"readonly": "", "bind-propagation": "slave"}}
    set_configuration(patient.prefix, siteMounts=[mount])
    found = examine(patient)
    assert any(finding["status"] == "warning" and "siteMounts[0].flags.bind-propagation: unknown key, ignored" in finding["message"]
               for finding in found["configuration"])
    image = load_image(patient, "busybox", plain_busybox)
    assert " ro" in patient.run(image, "grep", " /site ", "/proc/mounts").stdout


def test_runtime(patient, configuration):
    fake = patient.prefix / "bin/runc"
    fake.write_text("#!/bin/sh\necho runc version $VERSION\n".replace("$VERSION", "1.1.11"))
    fake.chmod(0o755)
    set_configuration(patient.prefix, runcPath=str(fake))
    status, message = check(examine(patient), "OCI runtime")
    assert status == "warning" and "CVE-2024-21626" in message
    fake.write_text("#!/bin/sh\necho broken >&2; exit 1\n")
    assert check(examine(patient), "OCI runtime") == ("error", f"{fake} --version fails: broken")
    set_configuration(patient.prefix, runcPath="/nonexistent/crun", initPath="/nonexistent/init")
    found = examine(patient)
    assert check(found, "OCI runtime") == ("error", "/nonexistent/crun cannot be executed")
    assert check(found, "init")[0] == "error"
    fake.unlink()


def test_installation(patient, configuration):
    builder = patient.prefix / "libexec/sarus-image-builder"
    builder.rename(f"{builder}.away")
    set_configuration(patient.prefix, tempDir="/nonexistent", centralizedRepositoryDir="/nonexistent", securityChecks=False,
                      seccompProfile="/nonexistent/profile.json", apparmorProfile="no-such-profile")
    found = examine(patient)
    builder.with_name(f"{builder.name}.away").rename(builder)
    assert check(found, "programs") == ("error", f"{builder}: No such file or directory")
    assert (check(found, "temporary files")[0], check(found, "central repository")[0]) == ("error", "note")
    assert "securityChecks is false" in check(found, "permissions")[1]
    assert check(found, "starter")[0] == "error" and "no-such-profile" in check(found, "starter")[1]


def test_hooks(patient, configuration):
    directory = patient.prefix / "etc/doctor-hooks.d"
    directory.mkdir()
    file = directory / "bad.json"
    file.write_text('{"version": "1.0.0", "hook": {"path": "/nonexistent/hook"}, "when": {"always": true}, "stages": ["prestart"]}')
    if patient.rootless:
        patient.user.own(directory)
        patient.user.own(file)
    set_configuration(patient.prefix, hooksDir=str(directory))
    status, message = check(examine(patient), "hooks")
    assert status == "error" and "the program /nonexistent/hook cannot be run" in message


def test_a_check_that_hangs(patient, configuration):
    """As on a file server that does not answer."""
    fake = patient.prefix / "bin/skopeo"
    fake.write_text("#!/bin/sh\nexec sleep 1000\n")
    fake.chmod(0o755)
    set_configuration(patient.prefix, skopeoPath=str(fake))
    found = examine(patient, silent="skopeo", timeout=300)
    assert check(found, "skopeo") == ("error", "no answer within 10 s")
    assert check(found, "kernel")[0] == "ok"
    fake.unlink()


def test_registries(any_engine, registry, user):
    """Those of registries.conf with their mirrors, and those that are named."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nowhere = f"localhost:{closed.getsockname()[1]}"
        found = examine(any_engine, "--registry", registry.host, "--registry", nowhere)["registry"]
        assert {"status": "ok", "check": "registry", "message": f"{registry.host} answers", "cure": ""} in found
        assert [finding["status"] for finding in found if nowhere in finding["message"]] == ["warning"]
        file = user.home / ".config/containers/registries.conf.d/doctor.conf"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'[[registry]]\nlocation = "{nowhere}"\n[[registry.mirror]]\nlocation = "{nowhere}/mirror"\n')
        user.own(file)
        found = examine(any_engine)["registry"]
        assert {"warning"} == {finding["status"] for finding in found if nowhere in finding["message"]}
        assert any(finding["cure"] == f"Correct or remove the mirror in {file}" for finding in found)
        file.write_text(f'[[registry]]\nlocation = "{nowhere}"\n[[registry.mirror]]\nlocation = "{registry.host}"\ninsecure = true\n')
        found = examine(any_engine)["registry"]
        file.unlink()
        assert [(finding["status"], finding["message"]) for finding in found if nowhere in finding["message"]] == [
            ("ok", f"a mirror of {nowhere} answers")]


def test_registry_that_hangs_is_a_warning(any_engine):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        name = f"localhost:{silent.getsockname()[1]}"
        found = examine(any_engine, "--registry", name, silent="registry", timeout=300)["registry"]
    assert [finding["status"] for finding in found if name in finding["message"] or "no answer" in finding["message"]] == ["warning"]


def test_local_asks_no_other_machine(patient, configuration, workspace):
    """Neither registries, nor the controller of Slurm. This is the health check of the administrator's guide."""
    fakes = workspace / "fakes"
    fakes.mkdir()
    log = fakes / "calls"
    log.touch()
    log.chmod(0o666)
    for name in ("skopeo", "scontrol", "srun"):
        fake = fakes / name
        fake.write_text(f'#!/bin/sh\necho {name} "$@" >> {log}\necho {name} version 1\n')
        fake.chmod(0o755)
    set_configuration(patient.prefix, skopeoPath=str(fakes / "skopeo"))
    file = patient.user.home / ".config/containers/registries.conf.d/doctor-local.conf"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('[[registry]]\nlocation = "localhost:1"\n')
    patient.user.own(file)
    try:
        found = examine(patient, "--local", env={"PATH": f"{fakes}:/usr/bin:/bin"})
    finally:
        file.unlink()
    assert not {"registry", "Slurm", "PMIx"} & found.keys() and {"kernel", "starter", "skopeo", "repository"} <= found.keys()
    assert "skopeo --version" in log.read_text().splitlines()
    assert set(log.read_text().splitlines()) <= {"skopeo --version", "scontrol --version"}
    result = patient.sarus("doctor", "--local", "--registry", "localhost:1")
    assert result.returncode == 1 and "'--local' and '--registry' cannot be used together" in result.stderr


def on_terminal(engine, columns, **variables):
    """What `sarus doctor --local` prints on a terminal."""
    argv, identity = engine.command("doctor", "--local")
    session = Terminal(argv, identity, size=(24, columns), env=engine.user.environment(TERM="xterm", **variables), cwd=engine.user.home)
    session.wait()
    session.close()
    return session.text


def test_lines_are_folded_to_the_width_of_the_terminal(any_engine):
    words = any_engine.sarus("doctor", "--local").stdout.split()
    for columns in (40, 80, 200):
        lines = re.sub(r"\033\[[0-9;]*m", "", on_terminal(any_engine, columns)).splitlines()
        assert max(map(len, lines)) <= columns
        text = "".join(lines).replace(" ", "")
        assert "isvalid" in text and (columns == 40 or f"{any_engine.prefix}/etc/sarus.json" in text), words


def test_grades_have_colours_on_terminals_alone(any_engine):
    assert "\033[1;32mok\033[0m" in on_terminal(any_engine, 80)
    assert "\033" not in any_engine.sarus("doctor", "--local").stdout
    assert "\033" not in on_terminal(any_engine, 80, NO_COLOR="1")
    argv, identity = any_engine.command("images", "--nosuch")
    for variables, shown in (({"TERM": "xterm"}, "\033[1;31merror:\033[0m"), ({"TERM": "dumb"}, "sarus: error: ")):
        session = Terminal(argv, identity, env=any_engine.user.environment(**variables), cwd=any_engine.user.home)
        session.wait()
        session.close()
        assert shown in session.text and ("\033" in session.text) == (variables["TERM"] == "xterm")
    session = Terminal(any_engine.command("doctor", "--local")[0], any_engine.command("doctor")[1], size=(24, 80),
                       env=any_engine.user.environment(TERM="dumb"), cwd=any_engine.user.home)
    session.wait()
    session.close()
    assert "\033" not in session.text


def test_cures_name_who_chose_the_place(patient, configuration):
    variable = examine(patient, "--local", env={"SARUS_REPOSITORY_DIR": "/proc/images"})["repository"][0]
    assert variable["status"] == "error" and variable["cure"].startswith("unset SARUS_REPOSITORY_DIR ")
    set_configuration(patient.prefix, userRepositoryDir="/proc/images", tempDir="/proc/temporary", centralizedRepositoryDir="/proc/central")
    found = examine(patient, "--local")
    cure = found["repository"][0]["cure"]
    assert "userRepositoryDir in sarus.json" in cure
    assert f"tempDir in {configuration}" in found["temporary files"][0]["cure"]
    assert f"centralizedRepositoryDir in {configuration}" in found["central repository"][0]["cure"]
    typed = subprocess.run(["sh", "-c", f"{cure}\n{patient.prefix}/bin/sarus doctor --local --json"], env=patient.user.environment(),
                           capture_output=True, text=True, cwd="/", **patient.user.identity())
    repository = next(finding for finding in json.loads(typed.stdout) if finding["check"] == "repository")
    assert repository["status"] == "ok" and f"{patient.user.home}/images" in repository["message"]


@pytest.mark.asroot
def test_cures_of_directories_work_when_typed(setuid_engine, make_setuid_prefix, workspace):
    site = setuid_engine.variant(prefix=make_setuid_prefix("doctor-cures"))
    set_configuration(site.prefix, tempDir=str(workspace / "a b/temporary's"), centralizedRepositoryDir=str(workspace / "central"))
    for name in ("temporary files", "central repository"):
        cure = examine(site, "--local")[name][0]["cure"]
        assert subprocess.run(["bash", "-c", cure]).returncode == 0
        assert check(examine(site, "--local"), name)[0] == "ok"
    (workspace / "central").chmod(0o777)
    assert subprocess.run(["bash", "-c", examine(site, "--local")["central repository"][0]["cure"]]).returncode == 0
    assert check(examine(site, "--local"), "central repository")[0] == "ok"


@pytest.mark.asroot
def test_privileges_that_do_not_count(setuid_engine):
    argv, identity = setuid_engine.command("doctor", "--json")
    result = subprocess.run(["setpriv", "--no-new-privs", *argv], capture_output=True, text=True, env=setuid_engine.user.environment(), **identity)
    finding = next(finding for finding in json.loads(result.stdout) if finding["check"] == "starter")
    assert finding["status"] == "warning" and "no_new_privs" in finding["message"]


@pytest.mark.asroot
def test_kernel_settings(setuid_engine, tmp_path):
    dumpable = tmp_path / "suid_dumpable"
    dumpable.write_text("1\n")
    tmp_path.chmod(0o755)
    node = setuid_engine.variant(sandbox=("--node", f"mount --bind {dumpable} /proc/sys/fs/suid_dumpable"))
    finding = next(finding for finding in examine(node)["kernel settings"] if "suid_dumpable" in finding["message"])
    assert finding["status"] == "warning" and "fs.suid_dumpable=1" in finding["message"]
    assert finding["cure"].startswith("sysctl -w fs.suid_dumpable=0")


@pytest.mark.asroot
def test_permissions(patient, configuration):
    program = patient.prefix / "libexec/sarus-hook"
    program.chmod(0o777)
    found = examine(patient)
    program.chmod(0o755)
    status, message = check(found, "permissions")
    assert status == "error" and f'"{program}" cannot be group- or world-writable' in message
    program.chmod(0o777)
    subprocess.run(["sh", "-c", found["permissions"][0]["cure"]], check=True)
    assert check(examine(patient), "permissions")[0] == "ok"


@pytest.mark.asroot
def test_cures_leave_directories_of_all_users_alone(patient, configuration, temp_dir):
    set_configuration(patient.prefix, seccompProfile=str(temp_dir / "profile.json"))
    finding, = examine(patient, "--local")["permissions"]
    assert finding["status"] == "error" and "chmod" not in finding["cure"] and str(configuration) in finding["cure"]


@pytest.mark.asroot
def test_groups_that_may_not_start_containers(setuid_engine, make_setuid_prefix):
    """As the dry run of a container finds it."""
    site = setuid_engine.variant(prefix=make_setuid_prefix("doctor-groups", privilegedGroups=["4242"]))
    status, message = check(examine(site, "--local"), "starter")
    assert status == "error" and "privilegedGroups" in message
