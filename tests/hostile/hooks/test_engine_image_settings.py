"""What an image says is not what its user says: labels and variables of an image enable no hook that works outside of the container, and
name nothing of the node."""

import json

import pytest
from test_hooks import hooks, hooks_engine  # noqa: F401 (fixtures)

pytestmark = pytest.mark.asroot

ENABLING = ["com.hooks.slurm-global-sync.enabled", "com.hooks.nvidia_cuda_mps.enabled", "com.hooks.stdout_stderr_test.enabled", "mps.enable",
            "com.hooks.of-the-site.enabled", "podman_hpc.hook_tool"]
STEERING = ["com.hooks.ssh.port", "com.hooks.ssh.authorize_ssh_key", "com.hooks.ssh.pidfile_host", "com.hooks.ssh.pidfile_container",
            "podman_hpc.variables", "podman_hpc.env.HOME"]
HARMLESS = ["com.hooks.glibc.enabled", "com.hooks.mpi.enabled", "com.hooks.mpi.type", "com.hooks.ldcache.enabled", "com.hooks.mount.enabled",
            "com.hooks.pce.enabled", "ldcache.enable", "org.example.key"]
VARIABLES = ["SLURM_JOB_ID", "SLURM_STEPID", "SLURM_STEP_ID", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_NODEID", "SLURM_RESTART_COUNT"]


@pytest.fixture
def log(hooks_engine):  # noqa: F811
    path = hooks_engine.user.home / "image-settings.log"
    path.unlink(missing_ok=True)
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def image(hooks_engine, load_image, images, log):  # noqa: F811
    labels = {key: "true" for key in ["com.hooks.ssh.enabled", *ENABLING, *STEERING, *HARMLESS]}
    return load_image(hooks_engine, "settings", images.busybox({
        "Env": ["PATH=/bin", f"TIMESTAMP_HOOK_LOGFILE={log}", *(f"{name}=1" for name in VARIABLES)], "Labels": labels}))


def planned(engine, image, *options):
    plan = json.loads(engine.sarus("run", "--dry-run", "--json", *options, image, "true").stdout)
    return {item["name"]: item["value"] for item in plan["annotations"]}, {item["name"] for item in plan["environment"]}


def test_an_image_enables_and_names_nothing_outside(hooks, image, log):  # noqa: F811
    engine = hooks.engine
    annotations, variables = planned(engine, image)
    assert not annotations.keys() & {"com.hooks.ssh.enabled", *ENABLING, *STEERING}
    assert annotations.keys() >= set(HARMLESS)
    assert not variables & {"TIMESTAMP_HOOK_LOGFILE", *VARIABLES}

    hooks.add("10-timestamp", engine.prefix / "bin/timestamp_hook", ["createContainer"], env=["TIMESTAMP_HOOK_MESSAGE=message"])
    for number, key in enumerate(["com.hooks.ssh.enabled", *ENABLING]):
        hooks.add_recorder(f"2{number}-outside", "createRuntime", {"annotations": {f"^{key}$": "^true$"}})
    hooks.add_recorder("30-inside", "createRuntime", {"annotations": {"^com.hooks.mount.enabled$": "^true$"}})
    engine.run(image, "true")
    assert hooks.stages() == ["30-inside:createRuntime"] and not log.exists()

    options = [f"--annotation={key}=true" for key in [*ENABLING, *STEERING]]
    assert planned(engine, image, *options)[0].keys() >= {*ENABLING, *STEERING}
    engine.run(image, "true", options=[*options, f"--env=TIMESTAMP_HOOK_LOGFILE={log}"])
    assert len(hooks.stages()) == 1 + len(ENABLING) + 1
    engine.run(image, "true", env={"TIMESTAMP_HOOK_LOGFILE": log})
    assert log.read_text().count("message\n") == 2
