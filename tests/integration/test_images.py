"""sarus pull, load, images, rmi and prune, with a real registry."""

import concurrent.futures
import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import tarfile
import tempfile
import threading
import time

import pytest
from helpers import system
from helpers.images import Image, architecture, busybox_layer, digest

COLUMNS = ["REPOSITORY", "TAG", "DIGEST", "IMAGE ID", "CREATED", "SIZE", "SERVER"]


@pytest.fixture
def sarus(any_engine):
    """sarus(*arguments, status=0) as the user; returns the finished process."""

    def run(*arguments, status=0, **keywords):
        result = any_engine.sarus(*arguments, **keywords)
        assert result.returncode == status, f"{arguments}: {result.returncode}\n{result.stdout}{result.stderr}"
        return result

    run.engine = any_engine
    return run


@pytest.fixture
def repository(user):
    """The user's repository, without images before and after the test."""
    path = user.home / ".sarus"

    def clear():
        shutil.rmtree(path / "images", ignore_errors=True)
        (path / "metadata.json").unlink(missing_ok=True)

    clear()
    yield path
    clear()


@pytest.fixture
def variant(images):
    """variant(text): a busybox image which has `text` in /variant."""
    return lambda text: images.busybox(extra=lambda layer: layer.file("variant", text))


def rubbish(repository, temp_dir):
    """Everything temporary that is left."""
    found = [path for path in repository.rglob("*") if re.search(r"-[a-z]{16}(\.json)?$", path.name)]
    return found + list(temp_dir.glob("sarus-import-*"))


def stored_names(repository):
    index = json.loads((repository / "metadata.json").read_text())
    return [entry["uniqueKey"] for entry in index["images"]]


def wrapped_skopeo(workspace, name, body):
    """A program which runs `body` (shell; "$@" are skopeo's arguments) instead of skopeo."""
    path = workspace / f"skopeo-{name}"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def make_engine_with_recorder(make_any_prefix, sarus, workspace, user):
    """make(name, transport="docker://") -> an engine whose skopeo is asked for images of that transport, and a function which returns the
    arguments of each call so far."""

    def make(name, transport="docker://"):
        log = user.home / f"{name}.log"
        log.write_text("")
        os.chown(log, user.uid, user.gid)
        prefix = sarus.engine.prefix.parent / f"recorder-{name}"
        if not prefix.exists():
            program = wrapped_skopeo(workspace, name, f"""{{ printf '%s\\t' "$@"; echo; }} >>{log}
for argument; do shift; case "$argument" in {transport}*) argument=docker://${{argument#{transport}}};; esac; set -- "$@" "$argument"; done
exec /usr/bin/skopeo "$@" """)
            make_any_prefix(f"recorder-{name}", skopeoPath=str(program))
        return sarus.engine.variant(prefix=prefix), lambda: [line.split("\t")[:-1] for line in log.read_text().splitlines()]

    return make


# Pulling


def test_pull_prints_what_is_documented(sarus, repository, registry, variant, temp_dir):
    image = variant("documented")
    reference = registry.push(image, "library/documented:1.0")
    lines = sarus("pull", reference).stdout.splitlines()
    assert lines[:5] == [f"# image            : {reference}", f'# cache directory  : "{repository}/cache"', f'# temp directory   : "{temp_dir}"',
                         f'# images directory : "{repository}/images"', f"# image digest     : {image.manifest_digest()}"]
    assert lines[-3:-1] == ["> unpacking OCI image", f'> making squashfs image: "{repository}/images/{registry.host}/library/documented/1.0.squashfs"']
    assert re.fullmatch(r"Stored \S+/library/documented:1.0 \(\S+B\) in \d+ s. Run it with: sarus run \S+/library/documented:1.0 COMMAND", lines[-1])


def test_a_caller_that_ignores_ended_children(sarus, repository, registry, images, variant):
    """From it, a program inherits that the kernel hides how its own children end."""
    image = variant("ignored children")
    reference = registry.push(image, "library/ignored-children:1")
    for words in (["pull", reference], ["load", images.archive(image, "ignored-children"), "ignored-children"], ["doctor", "--json"]):
        process = sarus.engine.start_by(["env", "--ignore-signal=CHLD"], *words)
        output, errors = process.communicate(timeout=300)
        expected = sarus.engine.sarus(*words) if words[0] == "doctor" else None
        assert "No child processes" not in output + errors
        assert process.returncode == (expected.returncode if expected else 0), output + errors


def test_missing_images_alone_are_pulled(sarus, registry, variant):
    reference = registry.push(variant("missing-1"), "library/absent:1")
    assert "> unpacking OCI image" in sarus("pull", "--missing", reference).stdout
    registry.push(variant("missing-2"), "library/absent:1")
    asked = len(registry.requests())
    assert sarus("pull", "--missing", reference).stdout == ""
    assert len(registry.requests()) == asked
    assert "> unpacking OCI image" in sarus("pull", reference).stdout


def test_image_of_an_environment_definition_is_pulled(sarus, registry, variant, user):
    server, name = registry.push(variant("defined"), "library/defined:1").split("/", 1)
    path = user.home / "pull.toml"
    path.write_text(f'image = "${{SERVER}}#{name}"\n')
    assert "> unpacking OCI image" in sarus("pull", f"--edf={path}", env={"SERVER": server}).stdout
    path.write_text('image = "./file.squashfs"\n')
    assert sarus("pull", f"--edf={path}").stdout == ""
    path.write_text("workdir = '/'\n")
    assert "names no image" in sarus("pull", f"--edf={path}", status=1).stderr
    assert "cannot be used with the name of an image" in sarus("pull", f"--edf={path}", "debian", status=1).stderr


def test_pulled_image_is_listed_run_and_removed(sarus, repository, registry, variant):
    image = variant("cycle")
    reference = registry.push(image, "library/cycle:1.0")
    sarus("pull", reference)
    titles, row = sarus("images", "--digests").stdout.splitlines()
    assert re.split(r"   +", titles.strip()) == COLUMNS
    name, tag, registry_digest, image_id, created, size, server = row.split()
    assert (name, tag, server) == (f"{registry.host}/library/cycle", "1.0", registry.host)
    assert registry_digest == image.manifest_digest()
    assert image_id == image.config_digest()[7:19]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", created) and re.fullmatch(r"\d+\.\d\d[KMGT]?B", size)
    assert sarus.engine.output(reference, "cat", "/variant") == "cycle"
    assert sarus("rmi", reference).stdout == f"removed image {reference}\n"
    assert sarus("images").stdout.count("\n") == 1
    assert sarus("run", reference, "true", status=1).stderr.splitlines()[0] == f"Image {reference} is not available"


def test_second_pull_finds_the_image_up_to_date(sarus, repository, registry, variant):
    reference = registry.push(variant("up to date"), "library/uptodate:latest")
    sarus("pull", reference)
    again = sarus("pull", reference.removesuffix(":latest")).stdout.splitlines()
    assert again[-1] == f"Image for {reference} is already available and up to date"


def test_changed_image_is_pulled_again(sarus, repository, registry, variant):
    reference = registry.push(variant("first"), "library/changing:1")
    sarus("pull", reference)
    registry.push(variant("second"), "library/changing:1")
    sarus("pull", reference)
    assert sarus.engine.output(reference, "cat", "/variant") == "second"
    assert sarus("images").stdout.count("library/changing") == 1


def test_pull_by_digest_ignores_the_tag(sarus, repository, registry, variant):
    image = variant("by digest")
    registry.push(image, "library/bydigest:1")
    by_digest = f"{registry.host}/library/bydigest@{image.manifest_digest()}"
    both = by_digest.replace("@", ":nonsense@")
    lines = sarus("pull", both).stdout.splitlines()
    assert lines[0] == f"# image            : {both}"
    assert lines[-2].endswith(f'/library/bydigest/{image.manifest_digest().replace(":", "-")}.squashfs"')
    assert sarus("images").stdout.splitlines()[1].split()[1] == "<none>"
    assert sarus("pull", both).stdout.splitlines()[-1] == f"Image for {both} is already available and up to date"
    assert sarus.engine.output(both, "cat", "/variant") == "by digest"
    assert sarus("rmi", both).stdout == f"removed image {by_digest}\n"


def test_image_without_a_namespace(sarus, repository, registry, variant):
    reference = registry.push(variant("top"), "top:1")
    sarus("pull", reference)
    assert stored_names(repository) == [f"{registry.host}/top/1"]
    assert sarus("images").stdout.splitlines()[1].split()[0] == f"{registry.host}/top"
    assert sarus.engine.output(reference, "cat", "/variant") == "top"
    assert sarus("rmi", reference).stdout == f"removed image {reference}\n"


def test_temporary_directory_is_used_for_what_is_spooled(make_any_prefix, sarus, repository, registry, images, variant, workspace, user):
    directory = user.home / "spool"
    directory.mkdir(exist_ok=True)
    os.chown(directory, user.uid, user.gid)
    log = user.home / "spool.log"
    spy = wrapped_skopeo(workspace, "spool", f'printf "%s\\n" "$@" >>{log}; exec /usr/bin/skopeo "$@"')
    engine = sarus.engine.variant(prefix=make_any_prefix("spooling", skopeoPath=str(spy)))
    assert engine.sarus("pull", "--temp-dir", directory, registry.push(variant("spool"), "library/spool:1")).returncode == 0
    assert re.search(rf"--tmpdir\n{directory}/sarus-import-[a-z]{{16}}\n", log.read_text())
    assert not list(directory.iterdir())


def test_image_for_this_machine_is_chosen_from_an_index(sarus, repository, registry, workspace):
    layout = workspace / "multi-platform"
    entries = []
    for arch in ("ppc64le", architecture(), "s390x"):
        image = Image([busybox_layer(extra=lambda layer: layer.file("variant", arch))])
        image.configuration["architecture"] = arch
        image.write_oci_layout(layout)
        entry = json.loads((layout / "index.json").read_text())["manifests"][0]
        del entry["annotations"]
        entries.append({**entry, "platform": {"os": "linux", "architecture": arch}})
    index = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": entries}).encode()
    (layout / "blobs/sha256" / digest(index)[7:]).write_bytes(index)
    top = {"mediaType": "application/vnd.oci.image.index.v1+json", "digest": digest(index), "size": len(index),
           "annotations": {"org.opencontainers.image.ref.name": "latest"}}
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [top]}))
    reference = f"{registry.host}/library/multi:1"
    subprocess.run(["skopeo", "copy", "--quiet", "--all", "--insecure-policy", "--dest-tls-verify=false", f"oci:{layout}:latest", f"docker://{reference}"],
                   check=True, capture_output=True, env={**os.environ, "XDG_RUNTIME_DIR": str(layout)})
    lines = sarus("pull", reference).stdout.splitlines()
    assert lines[4] == f"# image digest     : {entries[1]['digest']}"
    assert sarus.engine.output(reference, "cat", "/variant") == architecture()


def test_layers_are_downloaded_once(sarus, repository, registry, variant):
    image = variant("shared")
    sarus("pull", registry.push(image, "library/shared:1"))
    reference = registry.push(image, "library/shared:2")
    before = len(registry.requests())
    sarus("pull", reference)
    downloads = [line for line in registry.requests()[before:] if '"GET /v2/library/shared/blobs/' in line]
    layer = digest(gzip.compress(image.layers[0], mtime=0))
    assert not any(layer in line for line in downloads)


def test_two_pulls_of_one_image_at_once_succeed(sarus, repository, registry, variant, temp_dir):
    reference = registry.push(variant("at once"), "library/atonce:1")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: sarus.engine.sarus("pull", reference), range(4)))
    assert [result.returncode for result in results] == [0] * 4, [result.stderr for result in results]
    assert stored_names(repository) == [f"{registry.host}/library/atonce/1"]
    assert sarus.engine.output(reference, "cat", "/variant") == "at once"
    assert rubbish(repository, temp_dir) == []


@pytest.mark.parametrize("command", ["pull", "load"])
def test_import_against_rmi(sarus, repository, registry, images, variant, temp_dir, command):
    """Whoever comes first: the import ends well, rmi removes the whole image or finds none, and no half of one remains."""
    if command == "pull":
        reference = registry.push(variant("against"), "library/against:1")
        add = ("pull", reference)
    else:
        reference = "load/library/against:1"
        add = ("load", docker_archive(images, variant, "against"), "against:1")
    added = threading.Event()

    def remove():
        results = []
        while not added.is_set() or len(results) < 3:
            results.append(sarus.engine.sarus("rmi", reference))
        return results

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        removals = pool.submit(remove)
        try:
            for _ in range(8):
                sarus(*add)
        finally:
            added.set()
    outcomes = {(result.returncode, result.stdout, result.stderr) for result in removals.result()}
    assert outcomes <= {(0, f"removed image {reference}\n", ""), (1, "", f"Cannot find image '{reference}'\n")}, outcomes
    assert len(outcomes) == 2, "they were never there together"
    sarus(*add)
    assert sarus("images", "--verify").stdout == f"{reference}: intact\n"
    assert sarus.engine.output(reference, "cat", "/variant") == "against"
    sarus("rmi", reference)
    assert below_images(repository) == [] and rubbish(repository, temp_dir) == []


def test_damaged_file_in_the_cache_is_downloaded_again(sarus, repository, registry, variant, temp_dir):
    image = variant("damaged cache")
    reference = registry.push(image, "library/damaged:1")
    sarus("pull", reference)
    sarus("rmi", reference)
    layer = repository / "cache/blobs/sha256" / digest(gzip.compress(image.layers[0], mtime=0))[7:]
    content = layer.read_bytes()
    layer.write_bytes(content[:1000] + b"damaged!" + content[1008:])
    result = sarus("pull", reference)
    assert 'Removing damaged file "' in result.stderr
    assert sarus.engine.output(reference, "cat", "/variant") == "damaged cache"
    assert rubbish(repository, temp_dir) == []


# Quiet


@pytest.mark.parametrize("option", ["--quiet", "-q"])
def test_quiet_commands_say_nothing_but_errors(sarus, repository, registry, images, variant, option):
    reference = registry.push(variant("quiet"), "library/quiet:1")
    archive = docker_archive(images, variant, "quiet")
    for command in (("pull", option, reference), ("pull", option, reference), ("load", option, archive, "quiet")):
        result = sarus(*command)
        assert (result.stdout, result.stderr) == ("", ""), command
    assert sarus.engine.output(reference, "cat", "/variant") == sarus.engine.output("load/library/quiet", "cat", "/variant") == "quiet"
    failed = sarus("pull", option, f"{registry.host}/library/missing:1", status=1)
    assert failed.stdout == "" and failed.stderr.startswith(f"Failed to pull image '{registry.host}/library/missing:1'\n")


# Failures of a pull


@pytest.mark.parametrize("name", ["library/missing:1", "library/uptodate:missing"])
def test_pull_of_a_missing_image_fails_in_documented_lines(sarus, repository, registry, temp_dir, name):
    lines = sarus("pull", f"{registry.host}/{name}", status=1).stderr.splitlines()
    assert lines[:2] == [f"Failed to pull image '{registry.host}/{name}'", "Error reading manifest from registry."]
    assert rubbish(repository, temp_dir) == []


@pytest.mark.asroot
def test_pull_without_a_session_where_root_keeps_run_containers_closed(sarus, repository, registry, variant):
    reference = registry.push(variant("closed"), "library/closed:1")
    result = sarus.engine.variant(sandbox=("--closed-run",)).sarus("pull", reference)
    assert result.returncode == 0, result.stderr
    assert sarus.engine.output(reference, "cat", "/variant") == "closed"


def test_unreachable_registry_is_named(sarus, repository):
    lines = sarus("pull", "127.0.0.1:1/library/x", status=1).stderr.splitlines()
    assert lines[0] == "Failed to pull image '127.0.0.1:1/library/x:latest'"
    assert "'127.0.0.1:1' cannot be reached" in lines[1]


def test_malformed_reference_is_refused(sarus, repository):
    assert sarus("pull", "///", status=1).stderr.splitlines()[0] == "Invalid image reference '///'"


def test_temporary_directory_must_exist(sarus, repository, registry):
    assert sarus("pull", "--temp-dir=/invalid-dir", f"{registry.host}/x/y", status=1).stderr == 'Invalid temporary directory "/invalid-dir"\n'


def test_image_that_cannot_be_built_leaves_the_old_one(sarus, repository, registry, variant, temp_dir):
    reference = registry.push(variant("good"), "library/breaking:1")
    sarus("pull", reference)
    registry.push(Image([b"this is no tar archive" * 100], {}), "library/breaking:1")
    error = sarus("pull", reference, status=1).stderr
    assert error.startswith("Failed to make the squashfs image: ") and error.count("\n") == 1
    assert sarus.engine.output(reference, "cat", "/variant") == "good"
    assert rubbish(repository, temp_dir) == []


def test_plain_http_needs_the_users_configuration(sarus, repository, workspace, variant, user):
    from helpers.registry import Registry, allow_plain_http
    server = Registry(workspace / "plain-registry")
    try:
        reference = server.push(variant("plain"), "library/plain:1")
        # localhost counts as a normal registry: without configuration only TLS is tried.
        assert "registries.conf.d" in sarus("pull", reference, status=1).stderr
        allow_plain_http(user, server)
        sarus("pull", reference)
    finally:
        server.stop()


def test_missing_skopeo_is_named_with_its_package(make_any_prefix, user, sarus, repository):
    prefix = make_any_prefix("no-skopeo", skopeoPath="/nowhere/skopeo")
    engine = sarus.engine.variant(prefix=prefix)
    result = engine.sarus("pull", "quay.io/a/b")
    assert result.returncode == 1
    assert result.stderr.splitlines()[0] == 'The program "/nowhere/skopeo" does not exist'
    assert "Debian package skopeo" in result.stderr


def test_enforced_policy_decides(make_any_prefix, sarus, repository, registry, images, variant, workspace):
    policy = workspace / "reject.json"
    policy.write_text('{"default": [{"type": "reject"}]}')
    reference = registry.push(variant("policy"), "library/policy:1")
    strict = sarus.engine.variant(prefix=make_any_prefix("strict", containersPolicy={"path": str(policy), "enforce": True}))
    result = strict.sarus("pull", reference)
    assert result.returncode == 1 and "does not accept this image" in result.stderr
    archive = docker_archive(images, variant, "policy")
    result = strict.sarus("load", archive, "policy")
    assert result.returncode == 1 and "does not accept this image" in result.stderr
    lenient = sarus.engine.variant(prefix=make_any_prefix("lenient", containersPolicy={"path": str(policy), "enforce": False}))
    home_policy = sarus.engine.user.home / ".config/containers/policy.json"
    home_policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    try:
        assert lenient.sarus("pull", reference).returncode == 0
        assert lenient.sarus("load", archive, "policy").returncode == 0
    finally:
        home_policy.unlink()


# Credentials


def test_private_image_suggests_a_login(sarus, repository, private_registry, variant):
    reference = private_registry.push(variant("private"), "library/private:1")
    lines = sarus("pull", reference, status=1).stderr.splitlines()
    assert lines[-3:] == ["The image may be private or not present in the remote registry.", "Did you perform a login with the proper credentials?",
                          "See 'sarus help pull' (--login option)"]


@pytest.mark.parametrize("options, text", [
    (["--login"], "tester\nlet me in"),
    (["--login", "-u", "tester"], "let me in\n"),
    (["--username", "tester", "--password-stdin"], "let me in\n"),
    (["--user", "tester", "--password-stdin"], "let me in"),
    (["-utester", "--password-stdin"], "let me in"),
])
def test_credentials_give_access(sarus, repository, private_registry, variant, options, text):
    reference = private_registry.push(variant("private"), "library/private:1")
    sarus("pull", *options, reference, input=text)
    assert sarus.engine.output(reference, "cat", "/variant") == "private"


def test_wrong_password_is_refused(sarus, repository, private_registry, variant):
    """By a registry which asks for name and password itself."""
    reference = private_registry.push(variant("private"), "library/private:1")
    result = sarus("pull", "--login", reference, input="tester\nwrong\n", status=1)
    assert result.stderr.splitlines() == [
        f"Failed to pull image '{reference}'", "Error reading manifest from registry.", "The registry refused this user name or password.",
        "If they are right, they give no access to this image."]


def test_registry_with_tokens_refuses_a_wrong_password(sarus, repository, token_registry, variant):
    reference = token_registry.push(variant("tokens"), "library/tokens:1")
    result = sarus("pull", "--login", reference, input="tester\nwrong\n", status=1)
    assert result.stderr.splitlines() == [f"Failed to pull image '{reference}'",
                                          "Unable to retrieve auth token: invalid username or password provided."]


def test_registry_with_tokens_gives_access_for_the_right_password(sarus, repository, token_registry, variant):
    reference = token_registry.push(variant("tokens"), "library/tokens:1")
    sarus("pull", "--login", reference, input="tester\nlet me in\n")
    assert sarus.engine.output(reference, "cat", "/variant") == "tokens"


@pytest.mark.parametrize("options, message", [
    (["--login", "--password-stdin"], "The options '--password-stdin' and '--login' cannot be used together"),
    (["--username", "", "--password-stdin"], "Invalid username: empty value provided"),
    (["--login"], "Invalid username: empty value provided"),
])
def test_impossible_credentials_are_refused(sarus, repository, options, message):
    assert sarus("pull", *options, "quay.io/a/b", input="\n\n", status=1).stderr.splitlines()[0] == message


@pytest.mark.parametrize("runtime_directory", [True, False])
def test_authentication_file_is_private_and_removed(make_any_prefix, sarus, repository, private_registry, variant, workspace, user, runtime_directory):
    log = user.home / "auth.log"
    name = f"auth-{runtime_directory}"
    spy = wrapped_skopeo(workspace, name, f"""
for argument; do case "$argument" in */sarus-auth-*) ls -l "$argument" >>{log}; cat "$argument" >>{log}; esac; done
exec /usr/bin/skopeo "$@" """)
    engine = sarus.engine.variant(prefix=make_any_prefix(name, skopeoPath=str(spy)))
    directory = user.home / "runtime"
    directory.mkdir(exist_ok=True)
    os.chown(directory, user.uid, user.gid)
    reference = private_registry.push(variant("private"), "library/private:1")
    variables = {"XDG_RUNTIME_DIR": directory if runtime_directory else directory / "missing"}
    result = engine.sarus("pull", "--login", reference, input="tester\nlet me in\n", env=variables)
    text = log.read_text()
    log.unlink()
    assert result.returncode == 0, result.stderr
    expected = directory / "sarus" if runtime_directory else repository
    assert re.match(rf"-rw------- 1 {user.name} .* {expected}/sarus-auth-[a-z]{{16}}\.json\n", text)
    assert f'"{private_registry.host}/library/private":{{"auth":' in text
    assert not list(directory.rglob("sarus-auth-*")) and not list(repository.glob("sarus-auth-*"))


# Signals and death


@pytest.fixture
def stuck(make_any_prefix, sarus, workspace):
    """An engine whose skopeo never ends a download, and the file by which it says that it has begun."""
    started = sarus.engine.user.home / "download-started"
    started.unlink(missing_ok=True)
    prefix = sarus.engine.prefix.parent / "stuck"
    if not prefix.exists():
        skopeo = wrapped_skopeo(workspace, "stuck", f"""
case " $* " in *" experimental-image-proxy "*) touch {started}; exec sleep 1000;; esac
exec /usr/bin/skopeo "$@" """)
        make_any_prefix("stuck", skopeoPath=str(skopeo))
    return sarus.engine.variant(prefix=prefix), started


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_during_a_pull_leaves_nothing(stuck, sarus, repository, private_registry, variant, temp_dir, number):
    engine, started = stuck
    reference = private_registry.push(variant("private"), "library/private:1")
    process = engine.start("pull", "--login", reference)
    process.stdin.write("tester\nlet me in\n")
    process.stdin.flush()
    assert system.eventually(started.exists)
    assert list(repository.glob("sarus-auth-*")) and rubbish(repository, temp_dir)
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + number, errors
    assert rubbish(repository, temp_dir) == []
    assert stored_names(repository) == []


def test_next_command_removes_what_a_killed_pull_left(stuck, sarus, repository, private_registry, variant, temp_dir):
    engine, started = stuck
    reference = private_registry.push(variant("private"), "library/private:1")
    process = engine.start("pull", "--login", reference)
    process.stdin.write("tester\nlet me in\n")
    process.stdin.flush()
    assert system.eventually(started.exists)
    process.kill()
    process.communicate(timeout=300)
    assert rubbish(repository, temp_dir)
    sarus("images")
    assert rubbish(repository, temp_dir) == []


# Proxies


def test_pull_killed_at_any_moment_leaves_the_old_image_or_the_new_one(sarus, repository, registry, variant, temp_dir):
    versions = [variant("zero"), variant("one")]
    reference = registry.push(versions[0], "library/killed:1")
    sarus("pull", reference)
    for attempt in range(8):
        registry.push(versions[(attempt + 1) % 2], "library/killed:1")
        before = system.processes_of(sarus.engine.user)
        process = sarus.engine.start("pull", reference)
        time.sleep(0.02 + attempt * 0.03)
        process.kill()
        process.communicate()
        assert system.eventually(lambda: system.processes_of(sarus.engine.user) <= before)
        digests = {version.manifest_digest(): text for version, text in zip(versions, ("zero", "one"))}
        found = sarus.engine.output(reference, "cat", "/variant")
        row = sarus("images", "--digests").stdout.splitlines()[1].split()
        assert found == digests[row[2]]
        assert sarus("images", "--verify").stdout == f"{reference}: intact\n"
        assert rubbish(repository, temp_dir) == []


def test_running_container_survives_the_removal_of_its_image(sarus, repository, images, variant):
    sarus("load", docker_archive(images, variant, "removed"), "removed")
    process = sarus.engine.start("run", "load/library/removed", "sh", "-c", "echo ready; read line; cat /variant")
    assert process.stdout.readline() == "ready\n"
    sarus("rmi", "load/library/removed")
    output, errors = process.communicate("go\n", timeout=300)
    assert output == "removed", errors


@pytest.fixture
def proxy(workspace):
    """proxy(*settings) -> (host and port, log file) of a running proxy."""
    started = []

    def start(*settings):
        port = system.free_port()
        log, configuration = workspace / f"proxy-{port}.log", workspace / f"proxy-{port}.conf"
        lines = (f"Port {port}", "Listen 127.0.0.1", "Timeout 60", "Allow 127.0.0.1", f'LogFile "{log}"', "LogLevel Info", *settings)
        configuration.write_text("\n".join(lines) + "\n")
        started.append(subprocess.Popen([system.program("tinyproxy"), "-d", "-c", str(configuration)], stdout=subprocess.DEVNULL))
        system.wait_for_port(port, started[-1])
        return f"127.0.0.1:{port}", log

    yield start
    for process in started:
        process.terminate()
        process.wait(300)


def through(proxy):
    return {"http_proxy": f"http://{proxy}", "https_proxy": f"http://{proxy}"}


@pytest.fixture
def proxied(registry, user):
    """The registry by a name for which programs in Go use a proxy. They never do for "localhost"."""
    server = f"LOCALHOST:{registry.port}"
    configuration = user.home / ".config/containers/registries.conf.d/proxy.conf"
    configuration.write_text(f'[[registry]]\nlocation = "{server}"\ninsecure = true\n')
    yield server
    configuration.unlink()


def test_pull_goes_through_the_proxy_unless_the_server_is_excepted(sarus, repository, registry, variant, proxied, proxy):
    address, log = proxy()
    registry.push(variant("proxy"), "library/proxy:1")
    sarus("pull", f"{proxied}/library/proxy:1", env=through(address))
    assert "LOCALHOST" in log.read_text()
    sarus("rmi", f"{proxied}/library/proxy:1")
    before = log.read_text().count("LOCALHOST")
    sarus("pull", f"{proxied}/library/proxy:1", env={**through(address), "no_proxy": "localhost"})
    assert log.read_text().count("LOCALHOST") == before


def test_a_missing_login_of_the_proxy_is_not_a_wrong_one(sarus, repository, registry, variant, proxied, proxy):
    address, _ = proxy("BasicAuth somebody secret")
    registry.push(variant("proxy"), "library/proxy-login:1")
    image = f"{proxied}/library/proxy-login:1"
    encrypted = "registry.sarus-test.invalid/library/proxy-login:1"
    for name in (image, encrypted):
        assert "The proxy requires a login." in sarus("pull", name, status=1, env=through(address)).stderr
    # The proxy answers with 401, as the registry itself would if it were not for TLS.
    error = sarus("pull", encrypted, status=1, env=through(f"somebody:wrong@{address}")).stderr
    assert "The proxy refused the user name or password in https_proxy." in error
    sarus("pull", image, env=through(f"somebody:secret@{address}"))


def test_unreachable_proxy_is_an_error(sarus, repository):
    result = sarus("pull", "registry.sarus-test.invalid/x/y", status=1, env={"https_proxy": "http://127.0.0.1:1"})
    assert "'registry.sarus-test.invalid' cannot be reached" in result.stderr


# Loading


def docker_archive(images, variant, name):
    return images.archive(variant(name), name)


def test_load_prints_two_lines(sarus, repository, images, variant):
    lines = sarus("load", docker_archive(images, variant, "loaded"), "loaded").stdout.splitlines()
    assert lines[:-1] == ["> unpacking OCI image", f'> making squashfs image: "{repository}/images/load/library/loaded/latest.squashfs"']
    assert lines[-1].startswith("Stored load/library/loaded:latest (")
    row = sarus("images").stdout.splitlines()[1].split()
    assert (row[0], row[1], row[-1]) == ("load/library/loaded", "latest", "load")
    assert sarus("images", "--digests").stdout.splitlines()[1].split()[2] == "<none>"
    assert sarus.engine.output("load/library/loaded", "cat", "/variant") == "loaded"
    assert sarus("rmi", "load/library/loaded").stdout == "removed image load/library/loaded:latest\n"


def oci_archive(layout, path, mode="w"):
    with tarfile.open(path, mode) as archive:
        for file in sorted(layout.rglob("*")):
            archive.add(file, file.relative_to(layout), recursive=False)
    return path


def test_load_of_an_artifact_names_its_type(sarus, repository, workspace):
    layout = workspace / "artifact"
    (layout / "blobs/sha256").mkdir(parents=True)

    def blob(content, media):
        name = hashlib.sha256(content).hexdigest()
        (layout / "blobs/sha256" / name).write_bytes(content)
        return {"mediaType": media, "digest": f"sha256:{name}", "size": len(content)}

    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "artifactType": "application/x.model",
                "config": blob(b"{}", "application/vnd.oci.empty.v1+json"), "layers": [blob(b"weights", "application/x.weights")]}
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [blob(json.dumps(manifest).encode(), manifest["mediaType"])]}))
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    for source in (layout, oci_archive(layout, workspace / "artifact.tar")):
        assert "This is no container image but 'application/x.model'" in sarus("load", source, "artifact:1", status=1).stderr
    assert "artifact" not in sarus("images").stdout


@pytest.mark.parametrize("kind", ["docker-archive", "docker-archive.gz", "oci-archive", "oci-archive.gz", "oci-layout", "odd:name.tar"])
def test_load_finds_out_the_format(sarus, repository, images, variant, workspace, kind):
    directory = workspace / f"load-{kind}"
    directory.mkdir()
    plain = docker_archive(images, variant, "format")
    layout = variant("format").write_oci_layout(directory / "layout")
    if kind == "docker-archive":
        source = plain
    elif kind == "docker-archive.gz":
        source = directory / "archive"
        source.write_bytes(gzip.compress(plain.read_bytes(), 1))
    elif kind == "odd:name.tar":
        source = shutil.copy(plain, directory / kind)
    elif kind == "oci-layout":
        source = layout
    else:
        source = oci_archive(layout, directory / "archive", "w:gz" if kind.endswith("gz") else "w")
    sarus("load", source, "format:1")
    assert sarus.engine.output("load/library/format:1", "cat", "/variant") == "format"


@pytest.fixture
def place(workspace):
    """An empty directory that the user can look into."""
    directory = pathlib.Path(tempfile.mkdtemp(dir=workspace))
    directory.chmod(0o755)
    return directory


@pytest.fixture
def sources(variant, workspace):
    """sources(text) -> {format: file or directory} with a busybox that has `text` in /variant, called sourced:1."""

    def make(text):
        directory = workspace / f"sources-{text}"
        directory.mkdir(exist_ok=True)
        layout = variant(text).write_oci_layout(directory / "layout", "localhost/sourced:1")
        docker = variant(text).write_docker_archive(directory / "docker.tar", "docker.io/library/sourced:1")
        return {"docker-archive": docker, "oci-archive": oci_archive(layout, directory / "oci.tar"), "oci": layout}

    return make


@pytest.mark.parametrize("format", ["docker-archive", "oci-archive", "oci"])
def test_load_takes_the_format_that_is_named(sarus, repository, sources, format):
    """An option without a line in the help, as in the reference."""
    sarus("load", "--source-format", format, sources("named")[format], "named")
    assert sarus.engine.output("load/library/named", "cat", "/variant") == "named"


def test_load_does_not_doubt_the_format_that_is_named(make_engine_with_recorder, repository, sources):
    archives = sources("misnamed")
    engine, recorded = make_engine_with_recorder("source-format")
    for format, other in (("oci-archive", "docker-archive"), ("oci", "docker-archive"), ("docker-archive", "oci-archive"), ("oci-archive", "oci")):
        result = engine.sarus("load", f"--source-format={format}", archives[other], "misnamed")
        assert (result.returncode, result.stderr.splitlines()[0]) == (1, f"Failed to load image '{archives[other]}'"), (format, other)
    assert recorded() == []
    result = engine.sarus("load", "--source-format=sif", archives["oci-archive"], "misnamed")
    assert (result.returncode, result.stderr.splitlines()[0]) == (1, f"Failed to load image '{archives['oci-archive']}'")
    assert [argument for argument in recorded()[-1] if argument.startswith("sif:/")]
    result = engine.sarus("load", "--source-format=rar", archives["oci"], "misnamed")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "Invalid source format 'rar'\nSupported formats: docker-archive, oci-archive, oci, sif\n"


@pytest.mark.asroot
@pytest.mark.parametrize("format", ["docker-archive", "oci-archive", "oci"])
def test_load_reads_images_in_place(make_setuid_prefix, sarus, repository, sources, workspace, user, format):
    """No other program is needed, and no space for temporary files."""
    prefix = sarus.engine.prefix.parent / "without-skopeo"
    if not prefix.exists():
        make_setuid_prefix("without-skopeo", skopeoPath="/nowhere/skopeo")
    engine = sarus.engine.variant(prefix=prefix)
    full = workspace / "full"
    full.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=4k,uid={user.uid}", "tmpfs", str(full)], check=True)
    try:
        result = engine.sarus("load", "--temp-dir", full, sources("in place")[format], "in-place")
        assert result.returncode == 0, result.stderr
        assert list(full.iterdir()) == []
    finally:
        subprocess.run(["umount", "-l", str(full)], check=True)
    assert engine.output("load/library/in-place", "cat", "/variant") == "in place"


@pytest.mark.parametrize("name", ["oci-archive", "docker-archive"])
@pytest.mark.parametrize("order", ["before", "behind"])
def test_load_of_a_hostile_archive_writes_nothing_elsewhere(sarus, repository, sources, user, place, name, order):
    """x -> a home directory, then x/.evil: who unpacks such an archive writes there."""
    evil_file = user.home / ".evil"
    with tarfile.open(place / "hostile.tar", "w") as hostile, tarfile.open(sources("hostile")[name]) as archive:
        members = [(member, archive.extractfile(member).read()) for member in archive if member.isfile()]
        evil = tarfile.TarInfo("x/.evil")
        evil.size, evil.mode = 4, 0o4755
        link = tarfile.TarInfo("x")
        link.type, link.linkname = tarfile.SYMTYPE, str(user.home)
        evils = [(link, b""), (evil, b"evil")]
        for member, data in members + evils if order == "behind" else evils + members:
            hostile.addfile(member, io.BytesIO(data))
    try:
        sarus("load", place / "hostile.tar", "hostile")
        assert not evil_file.exists()
    finally:
        evil_file.unlink(missing_ok=True)
    assert sarus.engine.output("load/library/hostile", "cat", "/variant") == "hostile"


@pytest.mark.parametrize("format", ["docker-archive", "oci-archive"])
@pytest.mark.parametrize("way", ["pipe", "file", "compressed pipe", "compressed file"])
def test_load_reads_standard_input(sarus, repository, sources, temp_dir, place, format, way):
    data = sources("standard input")[format].read_bytes()
    if way.startswith("compressed"):
        data = gzip.compress(data, 1)
    if way.endswith("pipe"):
        result = sarus("load", "-", "stdin:1", input=data, text=False)
    else:
        (place / "archive").write_bytes(data)
        with open(place / "archive", "rb") as file:
            result = sarus("load", "-", "stdin:1", stdin=file, text=False)
    assert result.stderr == b""
    assert sarus.engine.output("load/library/stdin:1", "cat", "/variant") == "standard input"
    assert rubbish(repository, temp_dir) == []


@pytest.mark.parametrize("program", ["gzip", "zstd", "xz", "bzip2"])
def test_load_decompresses_archives(sarus, repository, sources, temp_dir, place, program):
    plain = sources("compressed")["docker-archive"].read_bytes()
    packed = subprocess.run([program, "-c"], input=plain, check=True, capture_output=True).stdout
    (place / "archive").write_bytes(packed)
    (place / "damaged").write_bytes(packed[:-100])
    sarus("load", place / "archive", "compressed:1")
    assert sarus.engine.output("load/library/compressed:1", "cat", "/variant") == "compressed"
    lines = sarus("load", place / "damaged", "compressed:1", status=1).stderr.splitlines()
    assert lines[0] == f"Failed to load image '{place}/damaged'" and lines[1].startswith("Failed to decompress it"), lines
    assert rubbish(repository, temp_dir) == []


def test_load_of_a_directory_that_is_no_layout(sarus, repository, temp_dir):
    result = sarus("load", "/usr", "x", status=1)
    assert result.stderr.splitlines()[:2] == ["Failed to load image '/usr'", "The directory is no OCI image layout: it has no index.json"]
    assert rubbish(repository, temp_dir) == []


def test_load_of_standard_input_that_is_no_image(sarus, repository, temp_dir):
    result = sarus("load", "-", "x", status=1, input="nonsense")
    assert result.stderr.splitlines()[:2] == ["Failed to load the image of standard input", "The file is no image archive"]
    assert rubbish(repository, temp_dir) == []


@pytest.mark.parametrize("format", ["docker-archive", "oci-archive", "oci"])
def test_load_without_a_name_takes_the_one_of_the_archive(sarus, repository, sources, format):
    lines = sarus("load", sources("its own name")[format]).stdout.splitlines()
    assert lines[0] == "# image            : load/library/sourced:1"
    assert sarus.engine.output("load/library/sourced:1", "cat", "/variant") == "its own name"


@pytest.mark.parametrize("name", ["latest", "tools/UPPER:1"])
def test_load_without_any_name_asks_for_one(sarus, repository, variant, place, name):
    layout = variant("nameless").write_oci_layout(place / "layout", name)
    lines = sarus("load", layout, status=1).stderr.splitlines()
    assert lines[0] == f"Failed to load image '{layout}'" and f"'{name}'" in lines[1] and "sarus load FILE NAME[:TAG]" in lines[2], lines
    sarus("load", layout, "named")


def test_load_of_several_images_takes_the_one_of_the_name(sarus, repository, variant, place):
    layout = place / "layout"
    entries = []
    for number in "12":
        variant(number).write_oci_layout(layout, f"docker.io/library/several:{number}")
        entries += json.loads((layout / "index.json").read_text())["manifests"]
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": entries}))
    sarus("load", layout, "several:2")
    assert sarus.engine.output("load/library/several:2", "cat", "/variant") == "2"
    for arguments in ((layout, "other"), (layout,)):
        lines = sarus("load", *arguments, status=1).stderr.splitlines()
        assert lines[1] == "index.json names several images: docker.io/library/several:1, docker.io/library/several:2", lines


def test_load_does_not_wait_for_a_fifo(sarus, repository, variant, place):
    os.mkfifo(place / "fifo", 0o644)
    result = sarus("load", place / "fifo", "fifo", status=1)
    assert result.stderr.splitlines()[0] == f'The image file "{place}/fifo" is not a regular file'
    layout = variant("fifo").write_oci_layout(place / "layout")
    for blob in [*(layout / "blobs/sha256").iterdir(), layout / "index.json"]:
        blob.rename(place / "saved")
        os.mkfifo(blob, 0o644)
        result = sarus("load", layout, "fifo", status=1)
        assert "is not a regular file" in result.stderr
        blob.unlink()
        (place / "saved").rename(blob)
    sarus("load", layout, "fifo")


def test_pull_out_of_podmans_storage(make_engine_with_recorder, sarus, repository, registry, variant):
    """A program in the place of skopeo says what it is asked for, and takes the image from a registry instead."""
    engine, recorded = make_engine_with_recorder("containers-storage", "containers-storage:")
    image = variant("of podman")
    reference = registry.push(image, "library/podman:1")
    result = engine.sarus("pull", "--containers-storage", reference)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[4] == f"# image digest     : {image.manifest_digest()}"
    inspect, copy = recorded()
    assert inspect[-3:] == ["inspect", "--raw", f"containers-storage:{reference}"]
    name = reference.removesuffix(":1")
    assert "copy" in copy and copy[-2] == f"containers-storage:{name}@{image.manifest_digest()}" and copy[-1].endswith(":sarus-oci-image")
    assert sarus.engine.output(reference, "cat", "/variant") == "of podman"


@pytest.mark.parametrize("content", [b"", b"no archive" * 1000, gzip.compress(os.urandom(5000))[:3000]], ids=["empty", "text", "cut off"])
def test_load_of_something_else_fails_in_one_piece(sarus, repository, workspace, temp_dir, content):
    file = workspace / "no-image"
    file.write_bytes(content)
    assert sarus("load", file, "x", status=1).stderr.strip()
    assert rubbish(repository, temp_dir) == []
    assert stored_names(repository) == []


def test_load_of_a_missing_file_names_it(sarus, repository):
    assert sarus("load", "/nowhere/image.tar", "x", status=1).stderr == "Failed to open /nowhere/image.tar: No such file or directory\n"


def test_load_takes_no_digest(sarus, repository):
    lines = sarus("load", "/nowhere/image.tar", "x@sha256:" + 64 * "a", status=1).stderr.splitlines()
    assert lines == ["Destination image reference must not contain a digest when loading the image from a file", "See 'sarus help load'"]


# The repository


def test_repository_belongs_to_the_user(sarus, repository, images, variant, user):
    sarus("load", docker_archive(images, variant, "owned"), "owned")
    for path in [repository, *repository.rglob("*")]:
        assert path.lstat().st_uid == user.uid, path
    assert stat.S_IMODE((repository / "metadata.json").stat().st_mode) & 0o022 == 0


def test_starter_creates_the_users_directory_where_he_may_not(make_setuid_prefix, sarus, opt, images, variant, user):
    base = opt / "repositories"
    base.mkdir(mode=0o755)
    engine = sarus.engine.variant(prefix=make_setuid_prefix("repositories-of-root", localRepositoryBaseDir=str(base)))
    result = engine.sarus("load", docker_archive(images, variant, "created"), "created")
    assert result.returncode == 0, result.stderr
    status = (base / user.name).stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (user.uid, 0o700)
    assert engine.output("load/library/created", "cat", "/variant") == "created"


def test_unwritable_repositories_without_the_starter_are_explained(make_rootless_prefix, rootless_engine, opt):
    base = opt / "unwritable"
    base.mkdir()
    base.chmod(0o555)
    engine = rootless_engine.variant(prefix=make_rootless_prefix("unwritable", localRepositoryBaseDir=str(base)))
    result = engine.sarus("images")
    assert result.returncode == 1
    assert str(base) in result.stderr and "localRepositoryBaseDir" in result.stderr


def test_load_works_without_a_home_directory(sarus, repository, images, variant):
    archive = docker_archive(images, variant, "homeless")
    assert sarus("load", archive, "homeless", env={"HOME": None})
    assert sarus.engine.output("load/library/homeless", "cat", "/variant") == "homeless"


def below_images(repository):
    return [str(path.relative_to(repository / "images")) for path in (repository / "images").rglob("*")]


def test_failed_load_leaves_no_directory(sarus, repository, workspace):
    """The archive is in order, and what its layer is turns out later."""
    layer = b"this is no tar archive" * 100
    config = json.dumps({"architecture": architecture(), "os": "linux", "config": {},
                         "rootfs": {"type": "layers", "diff_ids": [digest(layer)]}}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": ["broken:1"], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(workspace / "broken-layer.tar", "w") as archive:
        for name, data in (("config.json", config), ("layer.tar", layer), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    result = sarus("load", workspace / "broken-layer.tar", "nested/deeper/image:1", status=1)
    assert "> making squashfs image" in result.stdout, result.stdout + result.stderr
    assert below_images(repository) == []


def test_rmi_leaves_no_directory_but_those_of_other_images(sarus, repository, images, variant):
    archive = docker_archive(images, variant, "directories")
    for name in ("one/two/three:1", "one/other:1"):
        sarus("load", archive, name)
    sarus("rmi", "load/one/two/three:1")
    assert sorted(below_images(repository)) == ["load", "load/one", "load/one/other", "load/one/other/1.meta", "load/one/other/1.squashfs"]
    sarus("rmi", "load/one/other:1")
    assert below_images(repository) == []


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_a_fifo_in_place_of_the_metadata_is_named(sarus, repository, images, variant, command):
    sarus("load", docker_archive(images, variant, "fifo"), "fifo:1")
    file = repository / "images/load/library/fifo/1.meta"
    file.unlink()
    os.mkfifo(file)
    result = sarus(command, "load/library/fifo:1", *(["true"] if command == "run" else []), status=1)
    assert f'The file "{file}" is not a regular file' in result.stderr, result.stderr
    sarus("rmi", "load/library/fifo:1")


def test_rmi_of_an_unknown_image(sarus, repository):
    assert sarus("rmi", "quay.io/a/b", status=1).stderr == "Cannot find image 'quay.io/a/b:latest'\n"


def test_list_heals_a_lost_file(sarus, repository, images, variant):
    sarus("load", docker_archive(images, variant, "lost"), "lost")
    (repository / "images/load/library/lost/latest.squashfs").unlink()
    assert sarus("images").stdout.count("\n") == 1
    assert not (repository / "images/load/library/lost/latest.meta").exists()
    assert sarus("run", "load/library/lost", "true", status=1).stderr.startswith("Image load/library/lost:latest is not available\n")


def test_images_survive_a_damaged_index(sarus, repository, images, variant):
    sarus("load", docker_archive(images, variant, "survivor"), "survivor")
    before = sarus("images").stdout
    (repository / "metadata.json").write_text('{"images": [')
    result = sarus("images")
    assert result.stdout == before
    assert "is damaged" in result.stderr
    assert [path.read_text() for path in repository.glob("metadata.json.damaged-*")] == ['{"images": [']
    for path in repository.glob("metadata.json.damaged-*"):
        path.unlink()


def test_repository_of_sarus_1_7_is_used(sarus, repository, images, variant, user):
    """As that engine leaves it: no additional member in .meta, absolute paths in the index."""
    sarus("load", docker_archive(images, variant, "old"), "old")
    directory = repository / "images/docker.io/library/old"
    shutil.copytree(repository / "images/load/library/old", directory)
    sarus("rmi", "load/library/old")
    (directory / "latest.meta").write_text('{"Cmd":["cat","/variant"],"Entrypoint":[],"WorkingDir":"","Env":["PATH=/bin"]}')
    entry = {"uniqueKey": "docker.io/library/old/latest", "server": "docker.io", "namespace": "library", "image": "old", "tag": "latest", "digest": "",
             "registryDigest": "sha256:" + 64 * "a", "id": 64 * "b", "imagePath": f"{directory}/latest.squashfs",
             "metadataPath": f"{directory}/latest.meta", "datasize": "1016.00KB", "created": "2022-03-15T17:24:08"}
    text = json.dumps({"images": [entry]}, indent=3)
    (repository / "metadata.json").write_text(text)
    for name in ("latest.squashfs", "latest.meta"):
        os.utime(directory / name, (0, datetime.datetime(2022, 3, 15, 17, 24, 8).timestamp()))
    subprocess.run(["chown", "-R", f"{user.uid}:{user.gid}", str(repository)], check=True)
    row = sarus("images").stdout.splitlines()[1]
    assert row == "old          latest       bbbbbbbbbbbb   2022-03-15T17:24:08   1016.00KB    docker.io"
    assert (repository / "metadata.json").read_text() == text
    assert sarus.engine.output("old") == "old"
    assert "unknown" in sarus("images", "--verify").stdout


def test_verify_finds_a_damaged_image(sarus, repository, images, variant):
    sarus("load", docker_archive(images, variant, "verified"), "verified")
    assert sarus("images", "--verify").stdout == "load/library/verified:latest: intact\n"
    path = repository / "images/load/library/verified/latest.squashfs"
    with open(path, "r+b") as file:
        file.seek(5000)
        file.write(b"damage")
    assert sarus("images", "--verify", status=1).stdout == "load/library/verified:latest: DAMAGED\n"


def test_centralized_repository_is_filled_by_root_and_read_by_users(sarus, repository, root, images, variant):
    central = sarus.engine.prefix / "var/centralized"
    archive = docker_archive(images, variant, "central")
    as_root = sarus.engine.variant(user=root, mode="root")
    result = as_root.sarus("load", "--centralized-repository", archive, "central")
    assert result.returncode == 0 and result.stderr == ""
    assert sarus("images", "--centralized-repository").stdout.splitlines()[1].startswith("load/library/central")
    assert sarus.engine.output("load/library/central", "cat", "/variant", options=["--centralized-repository"]) == "central"
    assert sarus("images").stdout.count("\n") == 1
    denied = sarus("rmi", "--centralized-repository", "load/library/central", status=1).stderr
    assert "Only root should change the centralized repository" in denied and "Permission denied" in denied
    assert (central / "images/load/library/central/latest.squashfs").exists()
    assert as_root.sarus("rmi", "--centralized-repository", "load/library/central").returncode == 0
    shutil.rmtree(central)


def test_centralized_repository_must_be_configured(make_any_prefix, sarus, repository):
    engine = sarus.engine.variant(prefix=make_any_prefix("decentral", centralizedRepositoryDir=None))
    result = engine.sarus("images", "--centralized-repository")
    assert result.returncode == 1 and result.stderr.splitlines()[0] == "There is no centralized repository on this system"


@pytest.mark.asroot
def test_repository_on_a_read_only_mount_can_be_used_and_says_why_it_cannot_be_changed(make_any_prefix, sarus, workspace, images, variant, user):
    base = workspace / "read-only"
    base.mkdir()
    os.chown(base, user.uid, user.gid)
    engine = sarus.engine.variant(prefix=make_any_prefix("read-only", localRepositoryBaseDir=str(base)))
    archive = docker_archive(images, variant, "read-only")
    assert engine.sarus("load", archive, "fixed").returncode == 0
    subprocess.run(["mount", "--bind", str(base), str(base)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(base)], check=True)
        assert engine.output("load/library/fixed", "cat", "/variant") == "read-only"
        assert engine.sarus("images").stdout.splitlines()[1].startswith("load/library/fixed ")
        for command in (("load", archive, "fixed"), ("rmi", "load/library/fixed")):
            result = engine.sarus(*command)
            assert result.returncode == 1 and "Read-only file system" in result.stderr and "Permission denied" not in result.stderr, result.stderr
            assert f'Cannot write to the image repository "{base}/{user.name}/.sarus"' in result.stderr
    finally:
        subprocess.run(["umount", "-l", str(base)], check=True)
    assert engine.output("load/library/fixed", "cat", "/variant") == "read-only"


@pytest.mark.asroot
def test_full_disk_leaves_the_old_image(sarus, repository, registry, variant, images, user, home_base, make_any_prefix, workspace):
    base = workspace / "small-disk"
    base.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=8m,uid={user.uid},mode=0755", "tmpfs", str(base)], check=True)
    try:
        engine = sarus.engine.variant(prefix=make_any_prefix("small-disk", localRepositoryBaseDir=str(base)))
        reference = registry.push(variant("small"), "library/small:1")
        assert engine.sarus("pull", reference).returncode == 0
        noise = os.urandom(5 << 19)  # so much that the download fits, and the image beside it does not
        registry.push(images.busybox(extra=lambda layer: layer.file("noise", noise)), "library/small:1")
        result = engine.sarus("pull", reference)
        assert result.returncode == 1 and "no space left" in result.stderr.lower(), result.stderr
        assert engine.output(reference, "cat", "/variant") == "small"
        assert rubbish(base / user.name / ".sarus", pathlib.Path("/nonexistent")) == []
    finally:
        subprocess.run(["umount", "-l", str(base)], check=True)


def test_prune_empties_the_cache(sarus, repository, registry, variant):
    reference = registry.push(variant("pruned"), "library/pruned:1")
    sarus("pull", reference)
    first, *_ = sarus("prune", "--dry-run").stdout.splitlines()  # after it: images that are unpacked, where FUSE cannot be used
    assert re.fullmatch(rf'would remove \d+ files \(.*B\) from the cache "{repository}/cache"', first)
    assert any((repository / "cache/blobs/sha256").iterdir())
    assert sarus("prune").stdout.startswith("removed ")
    assert not any((repository / "cache/blobs/sha256").iterdir())
    assert sarus.engine.output(reference, "cat", "/variant") == "pruned"
