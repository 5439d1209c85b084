"""Containers that are kept in jobs of Slurm: without the plugin, the step "extern" tells how long a job lasts."""

import pytest
from helpers import installation, system
from helpers.cluster import Cluster

pytestmark = pytest.mark.asroot


@pytest.fixture(scope="module")
def site(common, home_base):
    made = Cluster(shared=home_base, visible=[common], settings={"PrologFlags": "Contain"})
    yield made
    made.stop()


@pytest.fixture(scope="module")
def engine(make_setuid_prefix, user):
    """Its directory for kept containers is a node's own."""
    return installation.Engine(make_setuid_prefix("cluster-kept", containerStorage={"directory": "/tmp"}), user, "setuid", "crun")


@pytest.fixture
def image(engine, load_image, plain_busybox):
    return load_image(engine, "busybox", plain_busybox)


def test_a_container_lasts_from_step_to_step_and_goes_with_its_job(site, engine, image, user):
    run = f"srun --quiet --nodes=1 {engine.program} run --name job"
    script = user.home / "kept-steps.sh"
    script.write_text(f"""#!/bin/sh
{run} --keep {image} sh -c 'echo first > /file'
srun --quiet --nodes=1 {engine.program} ps >/dev/null
{run} {image} sh -c 'echo second >> /file; cat /file'
""")
    script.chmod(0o755)
    result = site.run("login", "salloc", "--quiet", "--nodelist=node1", script, user=user, cwd=user.home)
    assert (result.returncode, result.stdout) == (0, "first\nsecond\n"), result.stderr + site.logs()

    def listed():
        return site.run("node1", engine.program, "ps", "--all", "--quiet", user=user, check=True).stdout

    assert system.eventually(lambda: listed() == ""), listed()
