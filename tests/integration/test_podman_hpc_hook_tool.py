"""The hook of podman-hpc with the real Podman: rules of site modules, its log, and its messages."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest
from helpers import compiler, hook_bundle
from helpers.podman_hpc import RUN, podman_hpc  # noqa: F401: the fixture

pytestmark = pytest.mark.asroot


@pytest.fixture
def site(podman_hpc):  # noqa: F811
    directory = pathlib.Path(tempfile.mkdtemp(prefix="sarus-", dir="/tmp"))  # every user may enter it
    directory.chmod(0o755)
    yield Site(podman_hpc, directory)
    shutil.rmtree(directory)


@pytest.fixture(params=["crun", "runc"])
def runtime(request):
    return request.param


class Site:
    """Modules and the files of the node that they name."""

    def __init__(self, podman, directory):
        self.podman = podman
        self.hooks = podman.prefix / "share/containers/oci/hooks.d"
        self.host = directory
        podman.user.own(directory)
        for module in podman.modules.iterdir():
            module.unlink()
        for file in self.hooks.glob("*"):
            file.unlink()
        subprocess.run([podman.prefix / "bin/podman-hpc", "configure-hooks"], check=True, capture_output=True)
        podman.user.own(podman.prefix)
        self.failures = podman.directory / "graph/podman_hpc_hook.log"
        self.failures.unlink(missing_ok=True)

    def file(self, name, text="", mode=0o644):
        path = self.host / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text or f"{name}\n")
        path.chmod(mode)
        return path

    def module(self, name, copy=(), bind=(), **keys):
        content = {"name": name, "cli_arg": name, "env": f"ENABLE_{name.upper()}", "copy": [*map(str, copy)], "bind": [*map(str, bind)], **keys}
        (self.podman.modules / f"{name}.yaml").write_text(json.dumps(content))

    def sh(self, script, *options, status=0, runtime="crun", podman=(), **variables):
        """Runs a shell in a container. The runtime's own errors are on standard error."""
        words = [f"--runtime={runtime}", *podman, *RUN, *options, "localhost/busybox", "sh", "-c", script]
        return self.podman(*words, status=status, **variables)

    def failure(self, *options, runtime="crun", **variables):
        """What a user reads of a container that is not started."""
        with pytest.raises(AssertionError) as caught:
            self.sh("true", *options, runtime=runtime, **variables)
        return str(caught.value)


def test_configure_hooks(site):
    program = site.podman.prefix / "bin/podman-hpc"
    file = site.hooks / "02-hook_tool.json"

    def configure(*words):
        return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout

    assert json.loads(file.read_text()) == {
        "version": "1.0.0", "hook": {"path": f"{site.podman.prefix}/bin/hook_tool", "args": ["hook_tool"]},
        "when": {"annotations": {"podman_hpc.hook_tool": "true"}}, "stages": ["prestart"]}
    file.write_text("{}")
    assert configure("configure-hooks") == f"Hook is already configured at {file}. No changes made.\n" and file.read_text() == "{}"
    assert configure("configure-hooks", "--force") == f"Successfully wrote hook configuration at {file}\n" and file.read_text() != "{}"
    other = site.host / "hooks"
    assert configure("configure_hooks", "--hooksd", str(other)) == f"Successfully wrote hook configuration at {other}/02-hook_tool.json\n"
    assert (site.podman.prefix / "bin/hook_tool").resolve() == site.podman.prefix / "bin/podman_hpc_hook"


@pytest.mark.parametrize("state, cure", [("nobody registered it", "configure-hooks"), ("the installation has moved", "configure-hooks --force")])
def test_module_whose_hook_cannot_run_says_so(site, state, cure):
    """Podman leaves out such a hook without a word. An option without rules does not need the hook."""
    site.module("tools", bind=[f"{site.file('bound')}:/etc/bound"])
    site.module("plain", additional_args=["-e", "PLAIN=1"])
    file = site.hooks / "02-hook_tool.json"
    if state == "nobody registered it":
        file.unlink()
    else:
        file.write_text(file.read_text().replace("/bin/hook_tool", "/moved/hook_tool"))
    log = site.host / "hook.log"
    for options, what in (["--tools"], "Module 'tools' (--tools) copies and binds nothing: "), (["-e", "ENABLE_TOOLS=1"], "Module 'tools'"), (
            ["-e", f"LOG_PLUGIN={log}"], "LOG_PLUGIN gets no log: "):
        said = site.podman(*RUN, *options, "localhost/busybox", "test", "!", "-e", "/etc/bound", stream="err")
        assert said.startswith(f"WARNING: {what}") and said.endswith(f". The administrator runs: podman-hpc {cure}\n"), said
    assert not log.exists()
    assert site.podman(*RUN, "--plain", "localhost/busybox", "true", stream="err") == ""


@pytest.mark.parametrize("options", [[], ["--read-only", "--user=1000"]], ids=" ".join)
def test_copies_and_binds(site, runtime, options):
    site.file("tree/program", "#!/bin/sh\necho runs\n", mode=0o755)
    (site.host / "tree/link").symlink_to("program")
    (site.host / "tree/dangling").symlink_to("nowhere")
    site.module("tools", copy=[f"{site.host}/tree:/opt/tools", f"{site.file('lib1')}:/opt/libs/", f"{site.host}/absent*:/opt/absent/"],
                bind=[f"{site.file('bound')}:/etc/bound", f"{site.host}/tree:/mnt/bound", "/dev/fuse:/dev/fuse"])
    script = "/opt/tools/link; readlink /opt/tools/dangling; cat /opt/libs/lib1 /etc/bound; ls /mnt/bound; test -c /dev/fuse; ls /opt"
    assert site.sh(script, "--tools", *options, runtime=runtime) == "runs\nnowhere\nlib1\nbound\ndangling\nlink\nprogram\nlibs\ntools\n"
    assert "absent" in site.sh("test -e /opt/tools || echo absent", *options, runtime=runtime)


def test_shipped_modules(site, source_dir):
    """Those that need nothing of the node; the variable's presence counts, as in the reference."""
    for name in ("gpu", "scratch", "jupyter"):
        shutil.copy(source_dir / f"etc/podman_hpc/modules.d/{name}.yaml", site.podman.modules)
    conf = "/etc/ld.so.conf.d/02-gpu.conf"
    assert site.sh(f"cat {conf}; ls -d $HERE; echo $ENABLE_GPU $MOUNT_SCRATCH", "--gpu", "--scratch", "-e", f"HERE={site.host}", SCRATCH=site.host) == (
        f"/usr/lib64\n{site.host}\n1 1\n")
    assert site.sh(f"cat {conf}", "-e", "ENABLE_GPU=0") == "/usr/lib64\n"
    assert site.sh(f"ls -d {site.podman.user.home}", "--jupyter") == f"{site.podman.user.home}\n"


@pytest.mark.parametrize("podman_hpc", ["rootless"], indirect=True)
def test_keep_id(site, runtime):
    site.module("tools", copy=[f"{site.file('copied')}:/opt/copied"], bind=[f"{site.file('bound')}:/opt/bound"])
    assert site.sh("id -u; cat /opt/copied /opt/bound", "--tools", "--userns=keep-id", runtime=runtime) == f"{site.podman.user.uid}\ncopied\nbound\n"


def test_globs(site):
    for name in ("lib/a1", "lib/a2", "sub/x/f", "sub/y/f", "one/only"):
        site.file(name)
    site.module("tools", copy=[f"{site.host}/lib/a*:/opt/star-*", f"{site.host}/lib/a?:/opt/several", f"{site.host}/sub/*/f:/opt/deep",
                               f"{site.host}/one/o*:/etc", f"{site.host}/none*:/opt/none", f"{site.host}/lib/[a]1", "relative"])
    assert site.sh("cd /opt; find . -type f | sort; ls /etc/only", "--tools").split() == [
        "./deep/x/f", "./deep/y/f", "./several/a1", "./several/a2", "./star-1", "./star-2", "/etc/only"]
    assert site.sh(f"cat {site.host}/lib/a1", "--tools") == "lib/a1\n"


def test_variables_of_the_caller(site):
    """The wrapper passes them; the image, which can enable modules as well, cannot."""
    scratch = site.file("scratch/file").parent
    site.module("scratch", bind=["$SCRATCH:$SCRATCH", "${SCRATCH}/file:/opt/file"])
    site.module("home", bind=["~:/opt/home"])
    site.podman.user.home.mkdir(exist_ok=True)
    assert site.sh(f"cat {scratch}/file /opt/file", "--scratch", SCRATCH=scratch) == "scratch/file\n" * 2
    assert site.sh("cat /opt/file", "-e", "ENABLE_SCRATCH=0", SCRATCH=scratch) == "scratch/file\n"
    site.sh("! test -e /opt/file", "--scratch")
    site.sh("test -d /opt/home", "--home")
    site.sh("test -d /opt/home", "--env=ENABLE_HOME=1")


def test_debugging_as_documented(site, runtime):
    """LOG_PLUGIN, and a script in place of the hook that runs in the directory of config.json."""
    log = site.host / "hook.dbg"
    site.file("source")
    site.module("tools", copy=[f"{site.host}/source:/opt/copied"], bind=["relative:relative", f"{site.host}/source:/opt/bound"])
    site.sh("true", "--tools", "-e", f"LOG_PLUGIN={log}", runtime=runtime)
    text = log.read_text()
    assert re.findall(r"^(input|config.json|Loading tools|Module: .*|\t.*|Error: .*|chroot.*)$", text, re.MULTILINE)[:2] == ["input", "config.json"]
    end = text[text.index("Loading tools"):].splitlines()
    assert end[0] == "Loading tools" and end[1].startswith("Module: {") and end[2:] == [
        f"\t{site.host}/source:/opt/copied", f"\t\tcopy: {site.host}/source to /opt/copied", "\trelative:relative", "Error: the target is not an absolute path",
        f"\t{site.host}/source:/opt/bound", f"\t\tbind: {site.host}/source to /opt/bound", "chroot return: None"]
    decoder = json.JSONDecoder()
    assert decoder.raw_decode(text[text.index("\n") + 1:])[0]["pid"] > 0
    assert "PODMANHPC_MODULES_DIR" in str(decoder.raw_decode(text[text.index("\nconfig.json\n") + len("\nconfig.json\n"):])[0]["process"]["env"])

    output = site.host / "output"
    script = site.file("hook_tool.sh", f"#!/bin/sh\nexport PATH={site.podman.prefix}/bin:$PATH\n(pwd; ls config.json) >> {output} 2>&1\nexec hook_tool $@ >> {output} 2>&1\n",
                       mode=0o755)
    hooks = site.host / "hooks.d"
    hooks.mkdir()
    (hooks / "02-hook_tool.json").write_text(json.dumps({
        "version": "1.0.0", "hook": {"path": str(script), "args": ["hook_tool"]}, "when": {"annotations": {"podman_hpc.hook_tool": "true"}}, "stages": ["prestart"]}))
    assert site.sh("cat /opt/copied", "--tools", runtime=runtime, PODMANHPC_HOOKS_DIR=hooks) == "source\n"
    assert output.exists()


def test_a_stage_inside_the_container_works(site, runtime):
    file = site.hooks / "02-hook_tool.json"
    file.write_text(file.read_text().replace("prestart", "createContainer"))
    site.module("tools", copy=[f"{site.file('copied')}:/opt/copied"], bind=[f"{site.file('bound')}:/opt/bound"])
    assert site.sh("cat /opt/copied /opt/bound", "--tools", runtime=runtime) == "copied\nbound\n"


def test_the_reason_of_a_failure_reaches_the_user(site, runtime):
    site.module("tools", copy=[f"{site.file('source')}:/bin/sh/copied"])
    message = site.failure("--tools", runtime=runtime)
    assert "module tools" in message
    line = site.failures.read_text().strip()
    assert re.fullmatch(r"\S+Z container [0-9a-f]{64}: .*/source.*Not a directory.*", line), line
    findings = {finding["check"]: finding for finding in json.loads(site.podman("doctor", "--json", status=1))}
    assert findings["hook failures"]["message"] == line


def test_libraries_are_found_without_ldconfig_of_the_image(site, images):
    """Our own code writes the linker cache, and only where a rule concerns libraries."""
    root = hook_bundle.make_root(site.host / "root")
    compiler.compile_program(root / "bin/sh", '#include <stdio.h>\nint main(void) { FILE* f = fopen("/etc/ld.so.cache", "r"); puts(f ? "cache" : "none"); return 0; }\n')
    (root / "sbin").mkdir()
    (root / "sbin/ldconfig").write_text("not a program\n")
    (root / "sbin/ldconfig").chmod(0o755)
    subprocess.run(["tar", "-C", root, "-cf", site.host / "root.tar", "."], check=True)
    site.podman("import", site.host / "root.tar", "localhost/libraries")
    site.module("data", copy=[f"{site.file('data')}:/opt/data"], bind=[f"{site.host}/root/etc:/opt/etc"])
    site.module("libs", copy=[f"{site.file('libx.so.1')}:/usr/lib/"])

    def cache(*options):
        return site.podman(*RUN, *options, "localhost/libraries", "/bin/sh")

    assert cache() == "none\n" and cache("--data") == "none\n" and cache("--libs") == "cache\n"


def test_broken_modules_disable_themselves(site):
    (site.podman.modules / "broken.yaml").write_text("name: [\n")
    (site.podman.modules / "unnamed.yaml").write_text("env: X\n")
    site.module("tools", copy=[f"{site.file('copied')}:/opt/copied"])
    assert site.sh("cat /opt/copied", "--tools") == "copied\n"


def test_modules_apply_in_the_order_of_their_files(site):
    site.module("b", copy=[f"{site.file('second')}:/opt/copied"])
    site.module("a", copy=[f"{site.file('first')}:/opt/copied"])
    assert site.sh("cat /opt/copied", "--b", "--a") == "second\n"


def test_build_runs_the_hook(site, podman_hpc):  # noqa: F811
    context = site.host / "context"
    context.mkdir()
    (context / "Containerfile").write_text("FROM localhost/busybox\nENV ENABLE_TOOLS=1\nRUN cat /opt/bound > /kept\n")
    site.module("tools", bind=[f"{site.file('bound')}:/opt/bound"])
    if podman_hpc.user.uid != 0:
        podman_hpc("build", "-q", "--network=host", "-t", "hooked", context)
        assert podman_hpc(*RUN, "localhost/hooked", "cat", "/kept") == "bound\n"


@pytest.fixture
def cdi_device():
    """A device of a CDI file where Podman 4.3 looks, for root and rootless: its name."""
    directory, kind = pathlib.Path("/etc/cdi"), f"sarus.test/process{os.getpid()}"
    directory.mkdir(exist_ok=True)
    file = directory / f"sarus-test-{os.getpid()}.json"
    edits = {"env": ["CDI_TEST=seen"], "deviceNodes": [{"path": "/dev/fuse"}]}
    file.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": kind, "devices": [{"name": "all", "containerEdits": edits}]}))
    yield f"{kind}=all"
    file.unlink()
    with contextlib.suppress(OSError):  # there are others
        directory.rmdir()


def test_cdi_devices_pass(site, cdi_device):
    """Podman reads /etc/cdi; podman-hpc adds nothing."""
    script = "echo $CDI_TEST; [ -c /dev/fuse ] && echo node"
    assert site.sh(script, f"--device={cdi_device}") == "seen\nnode\n"
    site.module("tools", copy=[f"{site.file('copied')}:/opt/copied"])
    assert site.sh(f"cat /opt/copied; {script}", "--device", cdi_device, "--tools") == "copied\nseen\nnode\n"
    assert site.sh(script, status=1) == "\n"
    with pytest.raises(AssertionError, match="sarus.test/class=missing"):
        site.sh("true", "--device=sarus.test/class=missing")


@pytest.mark.parametrize("podman_hpc", ["rootless"], indirect=True)
def test_without_runtime_directory(site):
    """As under Slurm: XDG_RUNTIME_DIR is not set, or names a directory that is not there."""
    site.module("tools", copy=[f"{site.file('copied')}:/opt/copied"])
    assert site.sh("cat /opt/copied", "--tools", XDG_RUNTIME_DIR="/nonexistent/1000") == "copied\n"
