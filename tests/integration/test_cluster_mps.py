"""mps_hook in steps of a real Slurm, which ends all processes of a step."""

import json
import shutil

import pytest
from helpers import installation, system
from test_hook_mps import STAND_IN, TEMPLATE

pytestmark = pytest.mark.asroot


@pytest.fixture
def engine(engines):
    made = engines("setuid", "crun")
    hooks = made.prefix / "etc/hooks.d"
    programs = made.prefix / "var/mps"
    programs.mkdir()
    shutil.copy(STAND_IN, programs / "nvidia-cuda-mps-control")
    (programs / "nvidia-cuda-mps-control").chmod(0o755)
    (programs / "behaviour.json").write_text("{}")
    hook = json.loads(TEMPLATE.read_text())
    hook["hook"] = {"path": f"{made.prefix}/bin/mps_hook", "env": [f"PATH={programs}:/usr/bin:/bin", "MPS_USER_DIRECTORY=/tmp"]}
    (hooks / "20-mps.json").write_text(json.dumps(hook))
    installation.set_configuration(made.prefix, hooksDir=str(hooks))
    yield made
    (hooks / "20-mps.json").unlink()
    shutil.rmtree(programs)


@pytest.fixture
def image(engine, load_image, plain_busybox):
    return load_image(engine, "busybox", plain_busybox)


def test_ranks_of_a_node_share_a_daemon_that_ends_with_their_step(cluster, engine, image):
    pipes = f"/tmp/nvidia-mps-{engine.user.uid}/pipe"
    cluster.run("node1", "rm", "-f", f"{pipes}/calls", check=True)
    daemons = set()
    for _ in range(2):
        result = cluster.srun("--nodelist=node1", "--ntasks=4", "--overcommit", engine.program, "run", "--annotation=mps.enable=true", image,
                              "sh", "-c", "test -S /tmp/nvidia-mps/control && cat /tmp/nvidia-mps/nvidia-cuda-mps-control.pid && echo", user=engine.user)
        assert result.returncode == 0, result.stderr
        daemon, = set(result.stdout.split())  # the same for all ranks
        daemons.add(daemon)
        assert system.eventually(lambda: cluster.run("node1", "test", "-e", f"/proc/{daemon}").returncode == 1), "outlives its step"
    assert len(daemons) == 2
    assert cluster.run("node1", "grep", "-c", "start_server", f"{pipes}/calls", check=True).stdout == "2\n"
