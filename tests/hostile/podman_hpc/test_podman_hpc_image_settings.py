"""What an image says is not what its user says: with podman-hpc and with Podman alone, annotations of an image's manifest and its variables
give nobody's files to a container, and start nothing outside of it."""

import json
import shutil
import subprocess

import pytest
from helpers import squashed_store
from helpers.installation import SANDBOX
from helpers.podman_hpc import RUN, podman_hpc  # noqa: F401: the fixture
from test_podman_hpc_hook_tool import site  # noqa: F401: the fixture

pytestmark = pytest.mark.asroot

rootless = pytest.mark.parametrize("podman_hpc", ["rootless"], indirect=True)


@pytest.fixture(params=["crun", "runc"])
def runtime(request):
    return request.param


def podman(site, *words, status=0):  # noqa: F811
    """Podman alone, with the stores of podman-hpc."""
    made = site.podman
    argv = [str(SANDBOX), "--fuse", "--hide-unified", "--shared-root", "--user", made.user.name, "--", "podman", "--root", f"{made.directory}/graph",
            "--runroot", f"{made.directory}/run", "--tmpdir", f"{made.directory}/tmp", "--events-backend=file", "--cgroup-manager=cgroupfs",
            "--storage-driver=overlay", f"--storage-opt=mount_program={made.prefix}/bin/fuse-overlayfs-wrap", *map(str, words)]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, cwd="/", env=made.environment())
    assert result.returncode == status, result.stderr
    return result.stdout


@pytest.fixture
def hostile(site):  # noqa: F811
    """An image whose author knows the modules of the site, and has some of his own where the caller has unpacked them."""
    evil = site.host / "evil"
    evil.mkdir()
    (site.host / "secret").write_text("secret\n")
    (evil / "evil.yaml").write_text(json.dumps({"name": "evil", "env": "ENABLE_EVIL", "bind": [f"{site.host}/secret:/opt/evil"]}))
    site.module("home", bind=["~:/opt/home"])
    site.podman.user.home.mkdir(exist_ok=True)
    context = site.host / "hostile"
    context.mkdir()
    (context / "Containerfile").write_text(f"FROM localhost/busybox\nENV PODMANHPC_MODULES_DIR={evil} ENABLE_EVIL=1 ENABLE_HOME=1 LOG_PLUGIN={site.host}/log\n")
    squashed_store.own(site.host, site.podman.user)
    annotations = {"podman_hpc.hook_tool": "true", "podman_hpc.variables": "HOME LOG_PLUGIN", "podman_hpc.env.HOME": site.podman.user.home,
                   "podman_hpc.env.LOG_PLUGIN": f"{site.host}/log", "com.hooks.slurm-global-sync.enabled": "true"}
    podman(site, "build", "-q", "--network=host", "-t", "localhost/hostile", *(f"--annotation={key}={value}" for key, value in annotations.items()), context)
    (context / "Containerfile").write_text("FROM localhost/hostile\nRUN ls -d /opt/* > /found || true\n")
    yield "localhost/hostile"
    assert not (site.host / "log").exists()


FOUND = "ls -d /opt/* 2>/dev/null || true"


@rootless
def test_podman_hpc_run(site, hostile, runtime):  # noqa: F811
    assert site.podman(f"--runtime={runtime}", *RUN, hostile, "sh", "-c", FOUND) == ""
    assert site.podman(f"--runtime={runtime}", *RUN, "--home", hostile, "sh", "-c", FOUND) == "/opt/home\n"


@rootless
def test_podman_hpc_build(site, hostile):  # noqa: F811
    site.podman("build", "-q", "--network=host", "-t", "localhost/built", site.host / "hostile")
    assert podman(site, *RUN, "localhost/built", "cat", "/found") == ""


@rootless
def test_podman_alone(site, hostile, runtime):  # noqa: F811
    hooks = f"--hooks-dir={site.hooks}"
    assert podman(site, f"--runtime={runtime}", hooks, *RUN, hostile, "sh", "-c", FOUND) == ""
    podman(site, hooks, "build", "-q", "--network=host", "-t", "localhost/built", site.host / "hostile")
    assert podman(site, *RUN, "localhost/built", "cat", "/found") == ""


@rootless
def test_other_hooks_with_podman_alone(site, hostile, runtime, build_dir):  # noqa: F811
    """As the documentation has their files."""
    directory = site.host / "hooks.d"
    directory.mkdir()
    base, log = site.host / "base", site.host / "timestamps"
    (base / "user").mkdir(parents=True)
    (site.host / "passwd").write_text(f"user:x:{site.podman.user.uid}:{site.podman.user.gid}::/:/bin/sh\nroot:x:0:0::/:/bin/sh\n")
    files = {"slurm_global_sync_hook": ({"annotations": {"^com\\.hooks\\.slurm-global-sync\\.enabled$": "^true$"}},
                                        [f"HOOK_BASE_DIR={base}", f"PASSWD_FILE={site.host}/passwd"]),
             "timestamp_hook": ({"always": True}, ["TIMESTAMP_HOOK_MESSAGE=message"])}
    for name, (when, env) in files.items():
        shutil.copy2(build_dir / name, site.host / name)
        (directory / f"{name}.json").write_text(json.dumps({"version": "1.0.0", "stages": ["createContainer"], "when": when,
                                                            "hook": {"path": f"{site.host}/{name}", "args": [name], "env": [*env, "HOOK_LOG=none"]}}))
    squashed_store.own(site.host, site.podman.user)
    variables = [f"TIMESTAMP_HOOK_LOGFILE={log}", "SLURM_JOB_ID=1", "SLURM_STEPID=0", "SLURM_NTASKS=1", "SLURM_PROCID=0"]
    # Podman does not say whether the image has set them.
    podman(site, f"--runtime={runtime}", f"--hooks-dir={directory}", *RUN, *(f"--env={variable}" for variable in variables), hostile, "true")
    assert not log.exists() and not list((base / "user").iterdir())
