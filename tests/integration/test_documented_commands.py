"""Every command line that the documentation shows is typed, and what it shows as output is compared.

The blocks `sh` and `console` of a page, and the examples of the manual pages, run in one shell, in their order. For root, that shell is on the login node of a Slurm cluster; for
others on this machine, less the lines that need root or Slurm. What cannot run is in NOT_RUN, with the reason."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from helpers import installation, mpi, ssh, system
from helpers import images as oci
from helpers.cluster import Cluster

ROOT = os.getuid() == 0
PAGES = ("README.md", "docs/user/*.md", "docs/admin/*.md", "docs/developer/*.md", "docs/reference/hooks.md", "docs/man")
COOKBOOK = "docs/user/mpi.md"  # test_cookbook.py runs all that shows no output
PODMAN = ("docs/user/podman_hpc.md", "docs/admin/podman_hpc.md", "docs/man/podman-hpc.1", "docs/man/podman_hpc_hook.1")  # test_podman_hpc_documented.py

# The beginning of a command: why it is not run.
NOT_RUN = {
    "scripts/quickstart": "builds the project (scripts/quickstart is a step of continuous integration)",
    **dict.fromkeys(("scripts/test", "sudo SARUS_MATRIX="), "runs this test"),
    "scripts/install-dependencies": "installs packages",
    "cmake ": "builds the project",
    "sudo cmake --install": "installs on the machine; the fixtures of all tests do the same elsewhere",
    "/opt/sarus/configure_installation.sh": "the fixtures of all tests run it",
    "sudo /opt/sarus/configure_installation.sh": "the fixtures of all tests run it",
    **dict.fromkeys(("sudo cp /opt/sarus/default", "sudo sed -i 's|/opt/sarus/2.0.0", "sudo /opt/sarus/2.1.0", "sudo -u alice /opt/sarus/2.1.0",
                     "sudo ln -s 2.1.0", "mkdir -p /opt/modulefiles", "ln -s /opt/sarus/2.1.0"), "needs two versions; test_versions.py"),
    **dict.fromkeys(("sudo mkdir -p /opt/sarus && cd", "sudo tar xzf ~/sarus-", "sudo 2.0.0-Release/"), "test_archive.py"),
    **dict.fromkeys(("sudo dnf", "packaging/rpm/build", "cd packaging/rpm", "./rpmsrcprep.sh", "rpmbuild -ba podman-hpc.spec"), "test_rpm.py and test_rpm_spec.py"),
    **dict.fromkeys(("spack ", "sudo $(spack"), "needs Spack; test_spack.py"),
    **dict.fromkeys(("cd build-aarch64 && cpack", "packaging/archive/build --architecture"), "needs a cross compiler; tests/matrix/test_aarch64.py"),
    **dict.fromkeys(("cd build && cpack", "sudo apt install", "mkdir -p /srv/sarus", "apt-ftparchive", "gpg --"), "test_packages.py"),
    **dict.fromkeys(("sarus doctor", "sudo sarus doctor", "/opt/sarus/bin/sarus doctor"), "says what is wrong with the machine of the test; test_doctor.py"),
    **dict.fromkeys(("sarus run --name tools", "sarus save tools", "sarus rm tools", "srun --container-image=debian:bookworm-slim --container-remap-root",
                     "srun -N2 sarus run $PROJECT/tools.sqsh"), "needs packages; test_remap_root.py installs one"),
    "chgrp my-group": "needs another group",
    "sarus load alpine.tar": "needs the archive that skopeo gets",
    "packaging/dropbear/build": "downloads and compiles; the build of the project does the same",
    **dict.fromkeys(('[ "$SLURM_JOB_UID" -ge', 'processes=$(pgrep', 'of_jobs=$(for', 'echo "$of_jobs"',
                     'runuser -u "$SLURM_JOB_USER" -- /opt/sarus', "find /sys/fs/cgroup", "exit 0"),
                    "test_cluster_jobs.py runs this Epilog"),
    "apparmor_parser": "needs AppArmor",
    **dict.fromkeys(("sudo SUSEConnect", "sudo zypper"), "needs SLES"),
    "journalctl": "needs systemd",
    "srun -N2 -n64 podman-hpc": "test_podman_hpc_cluster.py",
    "mpirun -n 64 podman-hpc": "test_podman_hpc_cluster.py",
    "sarus pull registry.example.org/team/debian": "needs an image with the content of another one; test_equal_images.py",
    "sarus load debian.sif": "needs a SIF file, as in test_images.py",
    "sarus pull --containers-storage": "needs Podman's storage, as in test_podman_hpc_store.py",
    "podman --hooks-dir": "test_hook_podman.py",
    "env MPI_LIBS=/opt/mpich/lib/libmpi.so.12.2.0 mpi_hook --explain": "needs that MPI; test_hook_mpi.py explains such a container",
    "skopeo copy": "needs Docker Hub; test_build.py writes such a layout",
    "sarus-image-builder build": "test_build.py",
    "/opt/sarus/share/sarus/check-node": "runs everything that it can, and says with its status that it could not run all; test_check_node.py",
    **dict.fromkeys(("scripts/release", "git tag"), "test_release.py"),
    **dict.fromkeys(("scripts/check --coverage", "ctest --test-dir build-coverage", "gcovr "), "needs a build for coverage"),
    "crun run --bundle": "test_hook_podman.py",
    "runc run --bundle": "test_hook_podman.py",
    "srun -n 8 sarus run --annotation=mps": "needs an NVIDIA GPU; test_cluster_mps.py",
    "sarus run --annotation=mps": "needs an NVIDIA GPU; test_hook_mps.py",
    "echo get_server_list": "needs an NVIDIA GPU; scripts/check-gpu",
    "nvidia-smi --query": "needs an NVIDIA GPU; scripts/check-gpu",
    "echo quit | nvidia-cuda-mps-control": "needs an NVIDIA GPU; scripts/check-gpu",
}
NEEDS_SLURM = re.compile(r"\b(srun|sbatch|salloc|squeue|bcast|plugstack|etc/slurm|SLURM_JOB_\w+)\b")
REGISTRIES = ("docker.io", "nvcr.io", "registry.example.org")
PULLED = ("library/debian:bookworm-slim", "library/debian:12", "library/python:3.12-slim", "project/tool:1.0", "nvidia/pytorch:24.01-py3",
          *(f"nvidia/cuda:12.4.1-{kind}-ubuntu22.04" for kind in ("base", "devel", "runtime")))
IMAGES = ("load/library/image:1", "load/library/debian:12", *(name.removeprefix("library/") for name in PULLED if "tool" not in name and "pytorch" not in name))
# What the images of these tests have in place of the programs in the examples.
PROGRAMS = {"bin/bash": '[ "$1" != -c ] || exec sh "$@"', "solver": "exec sleep 60",
            **dict.fromkeys(("analyse", "job/app", "bin/nvidia-smi", "bin/osu_latency", "bin/mpirun"), ""),
            "bin/nvcc": "cp /job/app app",
            "bin/python": "[ \"$2\" != venv ] || { mkdir -p venv/bin; for name in python pip; do cp /bin/bash venv/bin/$name; done; }"}
CDI = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu",
       "devices": [{"name": name, "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/dev/null"}]}} for name in ("0", "all")]}
# Programs of other machines and of vendors.
SHIMS = {"docker": 'case "$1" in save) [ "$2" != -o ] && cat "$ARCHIVE" || cp "$ARCHIVE" "$3" ;; esac',
         "sudo": 'exec "$@"',
         "ssh": '[ "$1" != workstation ] || { shift; exec "$@"; }; exec /usr/bin/ssh "$@"',
         "nvidia-ctk": 'cp "$CDI" "${3#--output=}"', "amd-ctk": 'sed s/nvidia/amd/ "$CDI" > "${3#--output=}"'}


@dataclasses.dataclass
class Command:
    text: str
    output: str | None  # None: nothing is shown, and the command has to succeed
    heading: str

    def is_run(self):
        return not any(self.text.startswith(beginning) for beginning in NOT_RUN) and (ROOT or not NEEDS_SLURM.search(self.text))


def is_complete(text):
    return not text.endswith("\\") and subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False).returncode == 0


def commands_of_block(lines, console):
    """(command, output) for each command of a block."""
    found, current = [], []
    for line in lines:
        if console and not current and not line.startswith("$ "):
            found[-1][1].append(line)
            continue
        current.append(line.removeprefix("$ ") if console and not current else line)
        text = "\n".join(current)
        if is_complete(text):
            found.append((text, []))
            current = []
    assert not current, f"incomplete: {current}"
    return [(text, "\n".join(output) if console and output else None) for text, output in found if text.strip() and not text.startswith("#")]


def commands(page):
    """All commands of a page: of its blocks, and in the right column of tables that translate from other engines."""
    if page.is_dir():
        return examples(sorted(page.glob("sarus*.1")))
    if page.suffix == ".1":
        return examples([page])
    found, heading = [], ""
    for match in re.finditer(r"^#+ ([^\n]*)$|^```(\w*)\n(.*?)^```|^\| [^\n]* \| ([^\n]*) \|$", page.read_text(), re.MULTILINE | re.DOTALL):
        title, kind, block, cell = match.groups()
        heading = title or heading
        if kind in ("sh", "console"):
            found += [Command(text, output, heading) for text, output in commands_of_block(block.splitlines(), kind == "console")]
        elif cell and page.name == "coming_from.md":
            found += [Command(text, None, heading) for text in re.findall(r"`((?:sarus|srun) [^`]+)`", cell)]
    return found


def examples(manuals):
    """The commands of the section EXAMPLES in these manual pages."""
    found = []
    for page in manuals:
        section = page.read_text().partition("\n.SH EXAMPLES\n")[2].partition("\n.SH ")[0]
        text = "".join(re.findall(r"^\.nf\n(.*?)^\.fi$", section, re.MULTILINE | re.DOTALL)).replace("\\-", "-").replace("\\\\", "\\")
        lines = re.sub(r" +\(.*\)$", "", text, flags=re.MULTILINE).splitlines()
        found += [Command(text, output, page.name) for text, output in commands_of_block(lines, console=False)]
    return found


def definitions(page):
    """{name: text} of the environment definition files that a page shows."""
    return dict(re.findall(r"^```toml\n# ~/\.edf/(\w+)\.toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)) if page.is_file() else {}


def pages(source_dir):
    return [page for pattern in PAGES for page in sorted(source_dir.glob(pattern))]


def is_shown(shown, printed):
    """Whether this was printed: [...] and ... stand for anything, blanks for any blanks."""
    first, *others = (" ".join(part.split()) for part in re.split(r"\[\.\.\.\]|\.\.\.", shown))
    printed = " ".join(printed.split())
    if not others or not printed.startswith(first):
        return printed == first
    position = len(first)
    for part in others[:-1]:
        position = printed.find(part, position) + len(part)
        if position < len(part):
            return False
    return printed[position:].endswith(others[-1])


class Site:
    """An installation with everything that the pages use, and a shell for its users."""

    def __init__(self, prefix, directory, user, cluster, registry_host, archive, digest):
        self.prefix, self.directory, self.user, self.cluster = prefix, directory, user, cluster
        self.registry_host, self.archive, self.digest = registry_host, archive, digest
        self.bin = directory / "bin"
        self.bin.mkdir(parents=True)
        for name, text in {**SHIMS, "podman": SHIMS["docker"]}.items():
            (self.bin / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.bin / name).chmod(0o755)
        (directory / "cdi.json").write_text(json.dumps(CDI))

    def actual(self, text, image):
        """A line of the documentation with the names of this place."""
        replacements = [
            (r"(run .*)IMAGE \.\.\.", r"\1IMAGE true"),
            (r"\bIMAGE\b", image),
            (r"\b(debian|image) \./program", f"{image} ./app"),
            (r"\bimage(?= \./solver)|solver:stable(?= \./|$)", image),
            (r"\./solver$", "./app"),
            (r"project/image:1.0", "project/tool:1.0"),
            (r"^(sarus rmi) (\S+@sha256)", r"sarus pull --quiet \2:DIGEST && \1 \2"),
            (r":DIGEST", self.digest.removeprefix("sha256")),
            (r"-u alice (.*) password$", r"-u tester \1 file"),
            (r"(save \S+) tool\.", r"\1 saved."),
            (r"sha256:[0-9a-f]{64}", self.digest),
            (r"-u NAME", "-u tester"),
            (r"-v SOURCE:DESTINATION", "-v $HOME:/mnt"),
            (r"/scratch:/scratch", "$SCRATCH:$SCRATCH"),
            (r"/path/of/rootfs", "$OUT"),
            (r"/etc/apparmor\.d/$", "$OUT"),
            (r"(?<!\w)(/opt/sarus|(?=/etc/cdi\b))", str(self.prefix)),
            (r"/opt/mpich/lib/libmpi.so.12(?= >)", "libmpich.so.12"),
            (r"\$SLURM_JOB_USER", self.user.name),
            (r"\$SLURM_JOB_U?ID", "1"),
            (r"(-N ?|-n ?)64", r"\g<1>2"),
            (r"per-node=8", "per-node=1"),
            (r"per-task=4", "per-task=1"),
            (r"^sarus bcast", "salloc -N2 sarus bcast"),
        ]
        for pattern, replacement in replacements:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        return text

    def shell(self, user, directory, script):
        """Runs a script of bash as this user, with a controlling terminal."""
        file = directory / "script"
        file.write_text(script)
        variables = {"PATH": f"{self.bin}:{self.prefix}/bin:{system.PATH}", "SCRATCH": user.home / "scratch", "ARCHIVE": self.archive,
                     "CDI": self.directory / "cdi.json", "SLURM_OVERCOMMIT": "1", "SBATCH_WAIT": "1", "OUT": directory, "SHELL": "/bin/bash"}
        argv = ["script", "--quiet", "--return", "--command", f"bash {file}", "/dev/null"]
        if self.cluster:
            return self.cluster.run("login", *argv, user=user, env=variables, cwd=user.home / "documents", timeout=1000)
        return subprocess.run(argv, env=user.environment(**variables), cwd=user.home / "documents", stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=1000, check=False, **user.identity())


def own_all(user, *paths):
    for path in paths:
        for file in (path, *path.rglob("*")):
            user.own(file)


@pytest.fixture(scope="module")
def documented_image(images):
    """Busybox with PROGRAMS."""

    def add(layer):
        layer.directory("job")
        for name, text in PROGRAMS.items():
            layer.file(name, f"#!/bin/sh\n{text}\n", mode=0o755)
        layer.file("app", "#!/bin/sh\n", mode=0o755)

    return images.busybox({"Cmd": ["sh"]}, extra=add)


@pytest.fixture(scope="module")
def image_of_a_job(documented_image, images, workspace):
    """IMAGE of the pages; where there is a cluster, its /app is an MPI program."""
    if not ROOT:
        return documented_image
    source = pathlib.Path(__file__).parent / "programs" / "mpi_bench.c"
    made = mpi.image_with(images, "mpich", mpi.compile_program("mpich", source, workspace / "documented-app"))
    layer = oci.Layer().directory("job")
    for name, text in PROGRAMS.items():
        layer.file(name, f"#!/bin/sh\n{text}\n", mode=0o755)
    return oci.Image([*made.layers, layer.bytes()], {"Env": [oci.PATH_VARIABLE], "Cmd": ["sh"]})


@pytest.fixture(scope="module")
def site(make_any_prefix, common, workspace, home_base, registry, documented_image, image_of_a_job, images, user):
    prefix = make_any_prefix("documented")
    directory = workspace / "documented"
    (prefix / "etc/cdi").mkdir()
    (prefix / "etc/cdi/nvidia.yaml").write_text(json.dumps(CDI))
    installation.set_configuration(prefix, cdiSpecDirs=[str(prefix / "etc/cdi")], hooksDir=str(prefix / "etc/hooks.d"), enablePMIxv3Support=True, defaultMPIType="mpich",
                                   broadcast={"directory": "/tmp"})
    ssh.enable_hook(installation.Engine(prefix, user, "setuid" if ROOT else "rootless", "crun"), "07-ssh-hook")
    text = subprocess.run([prefix / "bin/mpi_hook", "--suggest", mpi.LIBRARIES / "libmpich.so.12"], check=True, capture_output=True, text=True).stdout
    (prefix / "etc/hooks.d/05-mpi-hook.json").write_text(text)
    if not ROOT:
        own_all(user, prefix)
    for name in PULLED:
        registry.push(documented_image, name)
    image = images.archive(image_of_a_job, "documented-image")
    cluster, host, server = None, registry.host, None
    if ROOT:
        cluster = Cluster(shared=home_base, visible=[common], settings={"GresTypes": "gpu"}, node_settings="Gres=gpu:1 Feature=gpu", nodes=2,
                          files={"plugstack.conf": f"include {prefix}/etc/plugstack.conf\n", "gres.conf": "Name=gpu File=/dev/autofs\n"})
        host = f"{cluster.address('login')}:5000"
        configuration = workspace / "documented-registry.yml"
        configuration.write_text(f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {registry.directory}/data\nhttp:\n  addr: {host}\n")
        server = cluster.start("login", system.program("docker-registry"), "serve", configuration, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={"OTEL_TRACES_EXPORTER": "none"})
    yield Site(prefix, directory, user, cluster, host, image, documented_image.manifest_digest())
    if ROOT:
        server.terminate()
        server.wait(timeout=300)
        cluster.stop()


PREPARED = """
rm -f tool.squashfs tool.sqsh data.sqsh scratch/data.sqsh
for name in tool solver; do cp "$ARCHIVE" $name.tar; done
store_images() {
    sarus load --quiet "$IMAGE_FILE" kept:1 && sarus tag load/library/kept:1 load/library/image:1 || exit 3
    for name in nvcr.io/nvidia/pytorch:24.01-py3 debian:bookworm-slim; do sarus tag load/library/kept:1 $name; done
}
store_images
sarus save load/library/kept:1 ./tool.squashfs; sarus save load/library/kept:1 ./tool.sqsh; cp tool.sqsh data.sqsh
wait_for_container() { for i in $(seq 3000); do sarus exec "$1" true 2>/dev/null && return; sleep 0.1; done; }
keep_running() { sarus exec "$1" true || { sarus run -n "$1" load/library/kept:1 sleep 60 & wait_for_container "$1"; }; }
"""


def prepare(site, user, page):
    """The files of a user that the page takes for granted."""
    work = user.home / "documents"
    for directory in (work / "in", user.home / "scratch" / "data", user.home / ".edf", user.home / ".config/containers/registries.conf.d", user.home / ".ssh"):
        directory.mkdir(parents=True, exist_ok=True)
    for name, text in {"pytorch": 'image = "nvcr.io#nvidia/pytorch:24.01-py3"', **definitions(page)}.items():
        (user.home / f".edf/{name}.toml").write_text(text)
    (user.home / ".edf/site-gpu.toml").write_text("")
    (user.home / ".config/containers/registries.conf.d/documented.conf").write_text(
        "".join(f'[[registry]]\nprefix = "{name}"\nlocation = "{site.registry_host}"\ninsecure = true\n' for name in REGISTRIES))
    for name in ("app", "analyse"):
        for place in (work, user.home, user.home / "scratch"):
            (place / name).write_text("#!/bin/sh\n")
            (place / name).chmod(0o755)
    (work / "file").write_text("password\n")
    (work / "config.json").write_text('{"hooks": {}}')
    (work / "app.cu").write_text("")
    (work / "job.toml").write_text('image = "debian:bookworm-slim"\n')
    (work / "job.sh").write_text("#!/bin/sh\ntrue\n")
    if not (user.home / ".ssh/id_ed25519").exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(user.home / ".ssh/id_ed25519")], check=True)
    own_all(user, work, *(user.home / name for name in ("scratch", ".edf", ".config", ".ssh")), *(user.home / name for name in ("app", "analyse")))


def run_commands(site, user, page, chosen):
    """What went wrong, as text."""
    prepare(site, user, page)
    out = user.home / "typed" / f"{page.stem}-{len(chosen)}"
    out.mkdir(parents=True)
    user.own(out)
    script = [f"IMAGE_FILE={site.archive}", PREPARED]
    for number, command in enumerate(chosen):
        script.append("rm -f saved.squashfs")
        text = site.actual(command.text, "load/library/image:1")
        (out / f"{number}.sh").write_text(text + "\n")
        (out / f"{number}.in").write_text("tester\npassword\n" if "--login" in text else "exit\n")
        script += [f"sarus inspect {image} >/dev/null 2>&1 || sarus tag load/library/kept:1 {image}" for image in IMAGES if image in text and "pull" not in text]
        if (container := re.search(r"^sarus (?:exec|kill|inspect) .*(NAME|solver)\b", text)) is not None:
            script.append(f"keep_running {container[1]} >/dev/null 2>&1 </dev/null")
        streams = "<>/dev/tty >&0 2>&0" if "--pty" in text else f'<"$OUT/{number}.in" >"$OUT/{number}.out" 2>&1'
        script.append(f'. "$OUT/{number}.sh" {streams}; echo $? >"$OUT/{number}.status"')
        if text == "sarus rmi --all":
            script.append("store_images >/dev/null 2>&1")
        if container is not None and text.startswith("sarus kill"):
            script.append(f"for i in $(seq 3000); do sarus ps | grep -qw {container[1]} || break; sleep 0.1; done")
        if (started := re.search(r"(?:-n|--name) (\S+).* &$", text)) is not None:
            script.append(f"wait_for_container {started[1]}")
    script.append("sarus kill -9 NAME >/dev/null 2>&1; sarus kill -9 solver >/dev/null 2>&1; wait")
    try:
        said = site.shell(user, out, "\n".join(script))
        said = said.stdout + said.stderr
    except subprocess.TimeoutExpired as error:
        said = str(error)
    wrong = []
    for number, command in enumerate(chosen):
        output, status = (out / f"{number}.{kind}" for kind in ("out", "status"))
        text = output.read_text(errors="replace") if output.exists() else ""
        text = text.replace(f"{site.prefix}/etc/cdi", "/etc/cdi").replace(str(site.prefix), "/opt/sarus")
        good = is_shown(command.output, text) if command.output is not None else status.exists() and status.read_text() == "0\n"
        if not good:
            wrong.append(f"{page}, {command.heading}: {command.text}\n{text}[status {status.read_text().strip() if status.exists() else 'none'}]")
    return "\n\n".join(wrong) + (f"\n{said}" if wrong else "")


def test_every_exception_is_for_a_command(source_dir):
    texts = [command.text for page in pages(source_dir) for command in commands(page)]
    assert len(texts) > 150
    assert [beginning for beginning in NOT_RUN if not any(text.startswith(beginning) for text in texts)] == []


def parts(source_dir=pathlib.Path(__file__).resolve().parents[2]):
    for page in pages(source_dir):
        name = str(page.relative_to(source_dir))
        if name not in PODMAN:
            yield name


@pytest.fixture
def restored(site, name):
    """What a page changes in the installation."""
    kept = site.directory / "etc"
    shutil.copytree(site.prefix / "etc", kept)
    hook = json.loads((site.prefix / "etc/hooks.d/05-mpi-hook.json").read_text())
    hook["when"]["annotations"]["^com.hooks.mpi.type$"] = "^openmpi$"
    if name == "docs/reference/hooks.md":
        (site.prefix / "etc/hooks.d/06-other-mpi.json").write_text(json.dumps(hook))
    plugins = site.cluster.configuration / "plugstack.conf" if ROOT else None
    text = plugins.read_text() if ROOT else ""
    yield
    if ROOT:
        plugins.write_text(text)
    shutil.rmtree(site.prefix / "etc")
    installation.copy_tree(kept, site.prefix / "etc", None if ROOT else site.user)
    shutil.rmtree(kept)


@pytest.mark.more_as_root
@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("name", parts())
def test_commands_of_the_page(site, request, source_dir, user, name):
    page = source_dir / name
    administrator = request.getfixturevalue("root") if ROOT else user
    administrator.home.mkdir(exist_ok=True)
    _, _, text = page.read_text().partition("\n## For administrators") if page.is_file() else ("", "", "")
    titles = set(re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    typed = [command for command in commands(page) if command.is_run() and (name != COOKBOOK or command.output is not None)]
    by_administrator = [command for command in typed if ("/user/" not in name and name != "docs/man" and name != "README.md" or command.heading in titles)]
    by_user = [command for command in typed if command not in by_administrator]
    wrong = ""
    for who, chosen in ((user, by_user), (administrator, by_administrator)):
        if chosen:
            wrong += run_commands(site, who, page, chosen)
    assert not wrong, wrong
