"""configure_installation.sh: permissions, caches, sarus.json and its output, as the administrator's documentation describes them."""

import json
import os
import pathlib
import shutil
import stat
import subprocess

import pytest
from helpers import system
from helpers.installation import copy_tree, unused

pytestmark = pytest.mark.asroot


@pytest.fixture
def prefix(installed, opt, request):
    path = unused(opt / "configured")
    yield copy_tree(installed, path)
    subprocess.run(["rm", "-rf", str(path)], check=True)


def configure(prefix, *options, user=None, path=system.PATH, **variables):
    identity = {} if user is None else {"user": user.uid, "group": user.gid, "extra_groups": list(user.groups)}
    environment = {"PATH": path, "HOME": str(user.home) if user else "/root", **variables}
    return subprocess.run([f"{prefix}/configure_installation.sh", *options], capture_output=True, text=True, env=environment, **identity)


def privileged_files(prefix):
    """Every file below prefix with a set-user-ID or set-group-ID bit, with its mode."""
    return {str(path.relative_to(prefix)): stat.S_IMODE(path.lstat().st_mode) for path in pathlib.Path(prefix).rglob("*")
            if path.is_file() and path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)}


def only_programs(tmp_path, *names):
    """A PATH in which the tools of the script exist and, of the optional programs, `names` alone."""
    directory = tmp_path / "path"
    directory.mkdir()
    tools = "dirname basename id find chown chgrp chmod mkdir mktemp cat mv cp rm sed grep cut head getent sync stat sh sha256sum".split()
    for name in [*tools, *names]:
        (directory / name).symlink_to(system.program(name))
    return str(directory)


def test_an_init_program_that_runs_in_every_image_comes_first(prefix, tmp_path):
    path = only_programs(tmp_path, "skopeo", "crun", "tini")
    said = configure(prefix, path=path).stdout
    assert f"Found init program: {path}/tini" in said and "This init program is dynamic: 'sarus run --init' works in images that have its libraries" in said
    (tmp_path / "path" / "catatonit").symlink_to(system.program("catatonit"))
    said = configure(prefix, path=path).stdout
    assert f"Found init program: {path}/catatonit" in said and "dynamic" not in said


def test_documented_output(prefix):
    result = configure(prefix)
    assert result.returncode == 0 and result.stderr == ""
    assert result.stdout.splitlines() == [
        "Setting Sarus as SUID root",
        "Successfully set Sarus as SUID root",
        "Creating cached passwd database",
        "Successfully created cached passwd database",
        "Creating cached group database",
        "Successfully created cached group database",
        "Setting ownership of etc/sarus.schema.json",
        "Successfully set ownership of etc/sarus.schema.json",
        "Configuring etc/sarus.json",
        "Found skopeo: /usr/bin/skopeo",
        "Found umoci: /usr/bin/umoci",
        "Found mksquashfs: /usr/bin/mksquashfs",
        f"Found init program: {shutil.which('tini-static') or shutil.which('catatonit')}",
        "Found crun: /usr/bin/crun",
        "Setting local repository base directory to: /home",
        "Setting centralized repository directory to: /var/sarus/centralized_repository",
        "Successfully configured etc/sarus.json.",
        "Configuring etc/hooks.d/07-ssh-hook.json",
        "Configuring etc/hooks.d/09-slurm-global-sync-hook.json",
        "To execute sarus commands run first:",
        f"export PATH={prefix}/bin:${{PATH}}",
        "To persist that for future sessions, consider adding the previous line to your .bashrc or equivalent file",
    ]


def test_only_the_starter_becomes_set_user_id(prefix):
    (prefix / "bin/sarus").chmod(0o6755)
    (prefix / "libexec/sarus-starter").chmod(0o6755)
    assert configure(prefix).returncode == 0
    assert privileged_files(prefix) == {"libexec/sarus-starter": 0o4755}


def test_everything_belongs_to_root_and_is_writable_by_root_alone(prefix):
    for path in [prefix, *prefix.rglob("*")]:
        os.chown(path, 12345, 12345, follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o022)
    assert configure(prefix).returncode == 0
    for path in [prefix, *prefix.rglob("*")]:
        if path.relative_to(prefix).parts[:1] == ("share",):
            continue
        status = path.lstat()
        assert (status.st_uid, status.st_gid) == (0, 0) and (path.is_symlink() or not status.st_mode & 0o022), path


def test_bundle_directory_is_created(prefix):
    subprocess.run(["rm", "-rf", str(prefix / "var")], check=True)
    (prefix / "var").mkdir()
    assert configure(prefix).returncode == 0
    assert stat.S_IMODE((prefix / "var/OCIBundleDir").stat().st_mode) == 0o755


def test_caches_hold_the_nodes_databases(prefix):
    with system.account_files():
        assert configure(prefix).returncode == 0
        for database in ("passwd", "group"):
            expected = subprocess.run(["getent", database], capture_output=True, text=True, check=True).stdout
            cache = prefix / "etc" / database
            assert cache.read_text() == expected and stat.S_IMODE(cache.stat().st_mode) == 0o644


def test_repository_directories_from_the_environment(prefix):
    result = configure(prefix, SARUS_LOCAL_REPO_BASE_DIR="/users", SARUS_CENTRALIZED_REPO_DIR="/sarus & | x")
    assert result.returncode == 0, result.stderr
    configuration = json.loads((prefix / "etc/sarus.json").read_text())
    assert configuration["localRepositoryBaseDir"] == "/users"
    assert configuration["userMounts"] == {"notAllowedPrefixesOfPath": ["/etc", "/var", str(prefix)], "notAllowedPaths": ["/opt"]}
    assert configuration["centralizedRepositoryDir"] == "/sarus & | x"
    assert "Setting local repository base directory to: /users" in result.stdout


@pytest.mark.parametrize("value", ["relative", 'a"b', "/quote\"", "/back\\slash", "/line\nbreak"])
def test_a_path_that_json_cannot_hold_is_refused(prefix, value):
    result = configure(prefix, SARUS_LOCAL_REPO_BASE_DIR=value)
    assert result.returncode == 1 and result.stderr.startswith("ERROR: ")
    assert not (prefix / "etc/sarus.json").exists()


def contents(directory):
    """Every file below a directory with what is in it."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file() and not path.is_symlink()}


def test_running_it_again_changes_nothing(prefix):
    with system.account_files():
        first = configure(prefix)
        before = contents(prefix)
        second = configure(prefix)
    assert second.returncode == 0, second.stderr
    assert second.stdout == first.stdout  # the documented output, also of an upgrade
    assert contents(prefix) == before


def test_an_existing_configuration_and_its_backup_stay(prefix):
    """Whatever the administrator runs, and however often: the site's file is never replaced."""
    assert configure(prefix).returncode == 0
    (prefix / "etc/sarus.json").write_text('{"mine": true}')
    (prefix / "etc/sarus.json.bak").write_text('{"older": true}')
    for _ in range(2):
        result = configure(prefix, SARUS_LOCAL_REPO_BASE_DIR="/users")
        assert result.returncode == 0 and "Successfully configured etc/sarus.json." in result.stdout.splitlines()
        assert (prefix / "etc/sarus.json").read_text() == '{"mine": true}'
        assert (prefix / "etc/sarus.json.bak").read_text() == '{"older": true}'
    new = json.loads((prefix / "etc/sarus.json.new").read_text())
    assert new["prefixDir"] == str(prefix) and new["localRepositoryBaseDir"] == "/users"
    assert "Kept etc/sarus.json, which this site has changed" in result.stdout.splitlines()  # nothing new since the first of the two


def test_a_different_rendering_of_the_configuration_is_named(prefix):
    """Also where the site has not changed the file: whether the new values hold is its decision."""
    configure(prefix)
    before = (prefix / "etc/sarus.json").read_text()
    result = configure(prefix, SARUS_OCI_RUNTIME="runc")
    assert (prefix / "etc/sarus.json").read_text() == before
    assert json.loads((prefix / "etc/sarus.json.new").read_text())["runcPath"] == "/usr/bin/runc"
    assert "Kept the existing etc/sarus.json. Compare it with what this version writes: etc/sarus.json.new" in result.stdout.splitlines()
    assert configure(prefix).returncode == 0  # as at first: nothing is left to compare
    assert not (prefix / "etc/sarus.json.new").exists()


def test_hooks_and_proposals_use_the_directories_of_the_existing_configuration(prefix):
    configure(prefix, SARUS_LOCAL_REPO_BASE_DIR="/users", SARUS_CENTRALIZED_REPO_DIR="/images")
    shutil.copy(prefix / "etc/templates/hooks.d/09-slurm-global-sync-hook.json.in", prefix / "etc/hooks.d")
    result = configure(prefix)
    assert "HOOK_BASE_DIR=/users" in (prefix / "etc/hooks.d/09-slurm-global-sync-hook.json").read_text()
    assert "Setting centralized repository directory to: /images" in result.stdout.splitlines()
    assert not (prefix / "etc/sarus.json.new").exists()


def test_hooks_never_have_other_directories_than_the_configuration_that_stays(prefix):
    configure(prefix)
    shutil.copy(prefix / "etc/templates/hooks.d/09-slurm-global-sync-hook.json.in", prefix / "etc/hooks.d")
    assert configure(prefix, SARUS_LOCAL_REPO_BASE_DIR="/x").returncode == 0
    assert json.loads((prefix / "etc/sarus.json").read_text())["localRepositoryBaseDir"] == "/home"
    assert "HOOK_BASE_DIR=/home" in (prefix / "etc/hooks.d/09-slurm-global-sync-hook.json").read_text()


def test_a_configuration_for_another_place_is_named(prefix):
    configure(prefix)
    file = prefix / "etc/sarus.json"
    file.write_text(file.read_text().replace(str(prefix), "/opt/old"))
    result = configure(prefix)
    assert result.returncode == 0
    assert result.stderr == f"WARNING: etc/sarus.json, which stays, is for an installation in /opt/old: replace that path in it by {prefix}\n"


def test_a_dry_run_shows_what_would_change_and_changes_nothing(prefix):
    before = contents(prefix)
    first = configure(prefix, "--dry-run")
    assert first.returncode == 0 and first.stderr == "" and contents(prefix) == before and privileged_files(prefix) == {}
    assert "Would set libexec/sarus-starter SUID root" in first.stdout and "Would create etc/sarus.json\n" in first.stdout
    assert "Would create etc/hooks.d/07-ssh-hook.json\n" in first.stdout
    configure(prefix)
    before = contents(prefix)
    assert "Would create" not in configure(prefix, "--dry-run").stdout
    (prefix / "etc/hooks.d/07-ssh-hook.json.in").write_text('{"path": "@INSTALL_PATH@/bin/new"}')  # as a new version has it
    again = configure(prefix, "--dry-run", SARUS_LOCAL_REPO_BASE_DIR="/x")
    assert "Would keep etc/sarus.json, which this site has changed\nWould write etc/sarus.json.new\n" in again.stdout
    assert f'+{{"path": "{prefix}/bin/new"}}' in again.stdout and "Would replace etc/hooks.d/07-ssh-hook.json (and keep a copy)" in again.stdout
    assert contents(prefix).keys() == before.keys()


def test_a_check_names_what_is_not_as_it_was_installed(prefix):
    manifest = prefix / "share/sarus/manifest.sha256"
    manifest.parent.mkdir(parents=True, exist_ok=True)
    files = [str(path.relative_to(prefix)) for part in ("bin", "libexec", "lib", "dropbear") for path in (prefix / part).rglob("*")
             if path.is_file() and not path.is_symlink()]
    listed = subprocess.run(["sha256sum", *files], cwd=prefix, capture_output=True, text=True, check=True).stdout
    manifest.write_text(listed)
    configure(prefix)
    fine = configure(prefix, "--check")
    assert (fine.returncode, fine.stdout) == (0, f"{prefix} is as it was installed\n")
    (prefix / "etc/apparmor.d/sarus-starter").write_text("mine")
    assert configure(prefix, "--check").stdout == f"etc/apparmor.d/sarus-starter: changed by this site\n{prefix} is as it was installed\n"
    (prefix / "bin/mpi_hook").write_text("other")
    (prefix / "bin/glibc_hook").unlink()
    (prefix / "libexec/extra").write_text("")
    (prefix / "libexec/sarus-starter").chmod(0o755)
    (prefix / "etc/hooks.d").chmod(0o777)
    wrong = configure(prefix, "--check")
    assert wrong.returncode == 1 and set(wrong.stdout.splitlines()) == {
        "etc/apparmor.d/sarus-starter: changed by this site", "bin/mpi_hook has changed", "bin/glibc_hook is missing", "libexec/extra is not from the archive",
        "libexec/sarus-starter has lost its set-user-ID bit", "etc/./hooks.d (uid 0, mode 777) is not changed by root alone",
        "Unpack the archive again, or run configure_installation.sh"}


def test_a_hook_file_that_the_site_has_changed_stays(prefix):
    template, hook = prefix / "etc/hooks.d/07-x.json.in", prefix / "etc/hooks.d/07-x.json"
    template.write_text('{"path": "@INSTALL_PATH@/bin/x"}')
    configure(prefix)
    hook.write_text('{"path": "/site/x"}')
    result = configure(prefix)
    assert "Kept etc/hooks.d/07-x.json, which this site has changed" in result.stdout.splitlines()
    template.write_text('{"path": "@INSTALL_PATH@/bin/y"}')  # as a new version has it
    result = configure(prefix)
    assert "Kept the existing etc/hooks.d/07-x.json. Compare it with what this version writes: etc/hooks.d/07-x.json.new" in result.stdout.splitlines()
    assert hook.read_text() == '{"path": "/site/x"}'
    assert json.loads((prefix / "etc/hooks.d/07-x.json.new").read_text()) == {"path": f"{prefix}/bin/y"}


def test_files_that_nobody_has_changed_follow_their_templates_and_are_kept_as_numbered_copies(prefix):
    template, hook = prefix / "etc/hooks.d/07-x.json.in", prefix / "etc/hooks.d/07-x.json"
    for number in range(3):
        template.write_text(f'{{"path": "/{number}"}}')
        assert configure(prefix).returncode == 0
    assert [hook.with_name(f"07-x.json{suffix}").read_text() for suffix in (".~1~", ".~2~", "")] == ['{"path": "/0"}', '{"path": "/1"}', '{"path": "/2"}']
    assert not hook.with_name("07-x.json.new").exists()


def test_the_files_of_an_installation_without_records_stay(prefix):
    """As Sarus 1.7 leaves them."""
    shutil.copy(prefix / "etc/templates/hooks.d/00-timestamp-hook.json.in", prefix / "etc/hooks.d")
    (prefix / "etc/hooks.d/00-timestamp-hook.json").write_text("{}")
    assert configure(prefix).returncode == 0
    assert (prefix / "etc/hooks.d/00-timestamp-hook.json").read_text() == "{}"
    assert f"{prefix}/bin/timestamp_hook" in (prefix / "etc/hooks.d/00-timestamp-hook.json.new").read_text()


def test_records_show_what_the_site_has_changed(prefix):
    configure(prefix)
    (prefix / "etc/apparmor.d/sarus-starter").write_text("mine")
    check = subprocess.run(["sha256sum", "--check", "--quiet", "etc/rendered.sha256"], cwd=prefix, capture_output=True, text=True)
    assert check.stdout == "etc/apparmor.d/sarus-starter: FAILED\n"


def test_links_that_somebody_left_in_the_installation_lead_nowhere(prefix, tmp_path):
    """The files may have belonged to a user until now."""
    victim, directory = tmp_path / "victim", tmp_path / "directory"
    victim.write_text("untouched")
    directory.mkdir()
    configure(prefix)
    for name in ("set-user-id-root", "rendered.sha256.new"):
        (prefix / "etc" / name).unlink(missing_ok=True)
        (prefix / "etc" / name).symlink_to(victim)
    (prefix / "etc/sarus.json.new").symlink_to(directory)
    (prefix / "etc/rendered.sha256").unlink()
    (prefix / "etc/rendered.sha256").symlink_to(directory)
    assert configure(prefix, SARUS_OCI_RUNTIME="runc").returncode == 0
    assert victim.read_text() == "untouched" and list(directory.iterdir()) == []
    assert (prefix / "etc/sarus.json.new").is_file() and not (prefix / "etc/sarus.json.new").is_symlink()


def test_the_group_that_may_start_containers_stays(prefix, user):
    configure(prefix)
    starter = prefix / "libexec/sarus-starter"
    os.chown(starter, 0, user.gid)
    starter.chmod(0o4750)
    result = configure(prefix)
    assert f"Only members of the group {user.gid} may start containers, as before" in result.stdout.splitlines()
    assert (stat.S_IMODE(starter.stat().st_mode), starter.stat().st_gid) == (0o4750, user.gid)


def test_configuration_values(prefix):
    assert configure(prefix).returncode == 0
    configuration = json.loads((prefix / "etc/sarus.json").read_text())
    assert configuration["securityChecks"] is True
    assert configuration["OCIBundleDir"] == f"{prefix}/var/OCIBundleDir"
    assert configuration["hooksDir"] == f"{prefix}/etc/hooks.d"
    assert configuration["containersPolicy"] == {"path": f"{prefix}/etc/policy.json", "enforce": False}
    assert configuration["runcPath"] == "/usr/bin/crun" and configuration["skopeoPath"] == "/usr/bin/skopeo"


def test_missing_umoci_mksquashfs_and_init_are_no_errors(prefix, tmp_path):
    if pathlib.Path("/usr/local/bin/umoci").exists():
        pytest.fail("this test needs a node without /usr/local/bin/umoci")
    result = configure(prefix, path=only_programs(tmp_path, "skopeo", "runc"))
    assert result.returncode == 0, result.stderr
    configuration = json.loads((prefix / "etc/sarus.json").read_text())
    assert not {"umociPath", "mksquashfsPath", "initPath"} & configuration.keys()


@pytest.mark.parametrize("present, missing", [(("runc",), "skopeo"), (("skopeo",), "crun")])
def test_a_missing_needed_program_is_named_with_its_package(prefix, tmp_path, present, missing):
    result = configure(prefix, path=only_programs(tmp_path, *present))
    assert result.returncode == 1 and f"'{missing}'" in result.stderr
    assert not (prefix / "etc/sarus.json").exists()


def test_programs_of_the_installation_come_first(prefix):
    for name in ("skopeo", "runc.amd64", "tini-static-amd64"):
        (prefix / "bin" / name).write_bytes(b"#!/bin/sh\n")
        (prefix / "bin" / name).chmod(0o755)
    assert configure(prefix).returncode == 0
    configuration = json.loads((prefix / "etc/sarus.json").read_text())
    assert configuration["skopeoPath"] == f"{prefix}/bin/skopeo"
    assert configuration["runcPath"] == f"{prefix}/bin/runc.amd64" and configuration["initPath"] == f"{prefix}/bin/tini-static-amd64"


def test_the_runtime_can_be_chosen(prefix):
    assert "Found runc: /usr/bin/runc" in configure(prefix, SARUS_OCI_RUNTIME="runc").stdout
    assert configure(prefix, SARUS_OCI_RUNTIME="/no/such").returncode == 1


def test_hook_templates_are_rendered(prefix):
    (prefix / "etc/hooks.d/07-x.json.in").write_text('{"path": "@INSTALL_PATH@/bin/x", "env": ["BASE=@HOOK_BASE_DIR@"]}')
    result = configure(prefix, SARUS_LOCAL_REPO_BASE_DIR="/users")
    assert "Configuring etc/hooks.d/07-x.json" in result.stdout.splitlines()
    assert json.loads((prefix / "etc/hooks.d/07-x.json").read_text()) == {"path": f"{prefix}/bin/x", "env": ["BASE=/users"]}


def test_glibc_template_lists_the_libraries_of_this_machine(prefix):
    """Not every machine has them in /lib64."""
    shutil.copy(prefix / "etc/templates/hooks.d/01-glibc-hook.json.in", prefix / "etc/hooks.d")
    configure(prefix)
    hook = json.loads((prefix / "etc/hooks.d/01-glibc-hook.json").read_text())["hook"]
    environment = dict(entry.split("=", 1) for entry in hook["env"])
    names = [os.path.basename(path) for path in environment["GLIBC_LIBS"].split(":")]
    assert all(os.path.isfile(path) for path in environment["GLIBC_LIBS"].split(":"))
    assert names[0] == "libc.so.6" and "libm.so.6" in names and any(name.startswith("ld-") for name in names)
    check = subprocess.run([hook["path"], "--check"], env=environment, capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stdout


def test_templates_run_glibc_before_mpi(prefix):
    """The C library that the host's MPI needs must be there when the MPI hook looks for it."""
    names = [next((prefix / "etc/templates/hooks.d").glob(f"*-{hook}-hook.json.in")).name for hook in ("glibc", "mpi", "ldcache")]
    assert names == sorted(names)


def test_template_of_the_slurm_hook_finds_users_and_their_directories(prefix):
    shutil.copy(prefix / "etc/templates/hooks.d/09-slurm-global-sync-hook.json.in", prefix / "etc/hooks.d")
    result = configure(prefix, SARUS_LOCAL_REPO_BASE_DIR=str(prefix))
    assert "Configuring etc/hooks.d/09-slurm-global-sync-hook.json" in result.stdout.splitlines()
    hook = json.loads((prefix / "etc/hooks.d/09-slurm-global-sync-hook.json").read_text())["hook"]
    environment = dict(entry.split("=", 1) for entry in hook["env"])
    assert environment == {"HOOK_BASE_DIR": str(prefix), "PASSWD_FILE": f"{prefix}/etc/passwd"}
    check = subprocess.run([hook["path"], "--check"], env=environment, capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stdout


def test_apparmor_profile_is_for_the_starter_of_this_installation(prefix):
    configure(prefix)
    lines = (prefix / "etc/apparmor.d/sarus-starter").read_text().splitlines()
    assert f'profile sarus-starter "{prefix}/libexec/sarus-starter" flags=(unconfined) {{' in lines
    assert "  userns," in lines and not any("@INSTALL_PATH@" in line for line in lines)


def test_plugin_for_slurm_is_roots_and_named_for_plugstack(prefix):
    plugin = prefix / "lib/slurm/spank_sarus.so"
    if not plugin.exists():
        pytest.skip("the plugin was not built: Slurm's headers are missing (Debian package libslurm-dev)")
    plugin.chmod(0o777)
    configure(prefix)
    assert f"optional {plugin}" in (prefix / "etc/plugstack.conf").read_text().splitlines()
    assert plugin.stat().st_mode & 0o022 == 0 and plugin.stat().st_uid == 0


def test_a_writable_parent_is_reported(installed, opt):
    parent = opt / "writable"
    parent.mkdir()
    parent.chmod(0o777)
    result = configure(copy_tree(installed, parent / "sarus"))
    assert result.returncode == 0 and f"WARNING: {parent} is not owned by root alone" in result.stderr
    subprocess.run(["rm", "-rf", str(parent)], check=True)


def test_needs_root(prefix, user):
    result = configure(prefix, user=user)
    assert result.returncode == 1 and result.stderr.startswith("ERROR: ") and result.stdout == ""


def test_needs_an_installation(opt, prefix):
    elsewhere = opt / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "configure_installation.sh").write_bytes((prefix / "configure_installation.sh").read_bytes())
    (elsewhere / "configure_installation.sh").chmod(0o755)
    result = configure(elsewhere)
    assert result.returncode == 1 and "is not an installation of Sarus" in result.stderr
    subprocess.run(["rm", "-rf", str(elsewhere)], check=True)


def test_rootless_installation_has_no_privileged_file(installed, user):
    prefix = copy_tree(installed, user.home / "rootless", user)
    (prefix / "libexec/sarus-starter").chmod(0o4755)
    result = configure(prefix, "--rootless", user=user)
    assert result.returncode == 0, result.stderr
    assert privileged_files(prefix) == {}
    assert {path.stat().st_uid for path in prefix.rglob("*")} == {user.uid}
    assert json.loads((prefix / "etc/sarus.json").read_text())["localRepositoryBaseDir"] == str(user.home.parent)
    assert f"{user.name}:" in (prefix / "etc/passwd").read_text()
    subprocess.run(["rm", "-rf", str(prefix)], check=True)


# The refresh script


def update(prefix, *arguments, path=system.PATH):
    return subprocess.run([f"{prefix}/libexec/update-passwd-cache", *arguments], capture_output=True, text=True, env={"PATH": path})


def test_refresh_replaces_both_caches_at_once(prefix):
    configure(prefix)
    for database in ("passwd", "group"):
        (prefix / "etc" / database).write_text("old")
    before = (prefix / "etc/passwd").stat().st_ino
    assert update(prefix).returncode == 0
    assert "root:" in (prefix / "etc/passwd").read_text() and "root:" in (prefix / "etc/group").read_text()
    assert (prefix / "etc/passwd").stat().st_ino != before  # published by rename: a reader has the old file or the new one


def test_a_node_without_getent_has_its_files(prefix, tmp_path):
    path = only_programs(tmp_path, "skopeo", "crun", "awk", "mawk")
    (tmp_path / "path/getent").unlink()
    with system.account_files():
        result = configure(prefix, path=path)
        assert result.returncode == 0, result.stderr
        assert (prefix / "etc/passwd").read_text() == pathlib.Path("/etc/passwd").read_text()


def test_refresh_keeps_the_old_cache_where_the_name_services_fail(prefix, tmp_path):
    configure(prefix)
    path = only_programs(tmp_path)
    getent = pathlib.Path(path) / "getent"
    getent.unlink()
    getent.write_text("#!/bin/sh\nexit 2\n")
    getent.chmod(0o755)
    (prefix / "etc/passwd").write_text("old")
    result = update(prefix, "passwd", path=path)
    assert result.returncode == 1 and "passwd" in result.stderr
    assert (prefix / "etc/passwd").read_text() == "old"
    assert {entry.name for entry in (prefix / "etc").iterdir() if entry.name.startswith(".")} == set()
