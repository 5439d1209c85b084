"""The recipes of docs/user/mpi.md: those for MPI run on the cluster, those for applications are planned."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest
from helpers import installation, mpi

pytestmark = pytest.mark.asroot
PAGE = "docs/user/mpi.md"
PROGRAMS = pathlib.Path(__file__).parent / "programs"

PROGRAM = """
#include "mpi_end.h"
int main(int argc, char** argv) {
    int rank, size, sum, length;
    char node[MPI_MAX_PROCESSOR_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Get_processor_name(node, &length);
    printf("rank %d of %d on %s: sum %d\\n", rank, size, node, sum);
    return endMpi();
}
"""


def blocks(source_dir):
    """{heading: lines of its commands, each whole}"""
    found = {}
    for section in re.split(r"^#+ ", (source_dir / PAGE).read_text(), flags=re.MULTILINE)[1:]:
        heading, text = section.split("\n", 1)
        code = "".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        if code:
            found[heading] = code.replace("\\\n", "").splitlines()
    return found


@pytest.fixture(scope="module")
def recipe_engine(make_setuid_prefix, user):
    """A site with a hook for MPICH, which is the default, and one for Open MPI, both as mpi_hook suggests them."""
    prefix = make_setuid_prefix("recipes", enablePMIxv3Support=True, defaultMPIType="mpich")
    directory = prefix / "etc" / "hooks.d"
    installation.set_configuration(prefix, hooksDir=str(directory))
    for kind, name in ("mpich", "libmpich.so.12"), ("openmpi", "libmpi.so.40"):
        text = subprocess.run([prefix / "bin" / "mpi_hook", "--suggest", mpi.LIBRARIES / name], check=True, capture_output=True, text=True).stdout
        hook = json.loads(text)
        hook["when"]["annotations"]["^com.hooks.mpi.type$"] = f"^{kind}$"
        (directory / f"05-{kind}.json").write_text(json.dumps(hook))
    return installation.Engine(prefix, user, "setuid", "crun")


@pytest.fixture(scope="module")
def recipe_image(recipe_engine, load_image, images, workspace):
    """recipe_image(kind) -> reference of an image whose /app is built with that MPI."""

    def make(kind):
        source = workspace / "recipe.c"
        source.write_text(PROGRAM)
        shutil.copy(PROGRAMS / "mpi_end.h", workspace)
        program = mpi.compile_program(kind, source, workspace / f"recipe-{kind}")
        return load_image(recipe_engine, f"recipe-{kind}", mpi.image_with(images, kind, program))

    return make


RECIPES = {"MPICH on the host's MPICH": ("mpich", "MPICH (ABI 12.2)"), "MPICH of the image": ("mpich", None),
           "Open MPI through PMIx": ("openmpi", None), "Open MPI on the host's Open MPI": ("openmpi", "Open MPI (ABI 40.30)"),
           "A libfabric provider": ("openmpi", None)}


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_runs_between_nodes(cluster, source_dir, recipe_engine, recipe_image, user, recipe):
    kind, product = RECIPES[recipe]
    line, = blocks(source_dir)[recipe]
    command = line.replace(" sarus run", f" {recipe_engine.program} --verbose run").replace("IMAGE", recipe_image(kind))
    # The nodes of the test cluster have two CPUs, of which others may use one.
    result = cluster.run("login", "sh", "-c", command.replace("srun ", "srun --overcommit ", 1), user=user, timeout=120)
    lines = sorted(line for line in result.stdout.splitlines() if line.startswith("rank "))
    assert [re.fullmatch(rf"rank {rank} of 4 on node[12]: sum 6", line) is not None for rank, line in enumerate(lines)] == [True] * 4, \
        result.stdout[-3000:] + result.stderr
    assert result.returncode == 0
    said = re.findall(r"MPI in use: (.*?), (?:/|no MPI hook runs)", result.stdout)
    assert said == [f"the host's {product}" if product else "the image's own"] * 4


def test_every_recipe_for_applications_is_planned(source_dir, any_engine, load_image, plain_busybox, user):
    """With an image of that name; the options, mounts and variables are those of the page."""
    reference = load_image(any_engine, "busybox", plain_busybox)
    lines = [line for heading, code in blocks(source_dir).items() if heading not in RECIPES for line in code]
    data = user.home / "data"
    (data / "tensorflow-benchmarks" / "scripts").mkdir(parents=True)
    for line in lines:
        name = re.search(r"ethcscs/\S+", line)[0]
        assert any_engine.sarus("tag", reference, name).returncode == 0
        script = f"""
            srun() {{ while [ "$1" != sarus ]; do shift; done; "$@"; }}
            sarus() {{ [ "$1" = run ] || exit 9; shift; {any_engine.program} run --dry-run "$@"; }}
            {line}"""
        result = subprocess.run(["bash", "-c", script], env=user.environment(INPUT=data, SCRATCH=data), capture_output=True, text=True,
                                cwd=user.home, check=False, **user.identity())
        assert result.returncode == 0, f"{line}\n{result.stdout}{result.stderr}"
        assert name in result.stdout
        for source in re.findall(r"src=([^,]*)", line):
            assert source.replace("$INPUT", str(data)).replace("$SCRATCH", str(data)) in result.stdout
    assert len(lines) == 10
