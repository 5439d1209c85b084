"""pmix_hook with real containers: the directories of a step's PMIx server, which only their owner gets."""

import os

import pytest
from helpers import hook_bundle
from helpers.hook_bundle import Bundle
from test_hook_podman import podman, probed  # noqa: F401 (a fixture)
from test_hooks import hooks, hooks_engine, image  # noqa: F401 (fixtures)

pytestmark = pytest.mark.asroot

JOB = {"SLURM_MPI_TYPE": "pmix_v4", "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "3", "SLURM_JOB_UID": "61234", "PMIX_RANK": "0"}


class Site:
    """Slurm's directories of a node, with those of one step."""

    def __init__(self, directory, uid):
        self.spool, self.tmp = directory / "spool", directory / "site-tmp"
        for made in (self.spool, self.tmp):
            made.mkdir()
            made.chmod(0o755)
        self.directories = [self.spool / "pmix.12.3", self.tmp / "spmix_appdir_61234_12.3"]
        for made in self.directories:
            made.mkdir()
            (made / "file").write_text("of the server\n")
            os.chown(made, uid, uid)
        self.files = [made / "file" for made in self.directories]
        self.settings = {"SLURM_SPOOL_DIR": self.spool, "SLURM_TMPFS": self.tmp, "HOOK_TRUST_CONTAINER": "true"}


@pytest.fixture(params=["crun", "runc"])
def bundle(request, open_directory):
    made = Bundle(open_directory, request.param)
    hook_bundle.install_probe(hook_bundle.make_root(made.root))
    made.site = Site(open_directory, 61234)
    return made


def probe(bundle, hook, stage="createContainer", user=61234, settings=None, **changes):
    environment = [f"{name}={value}" for name, value in {**JOB, **changes}.items() if value]
    result = bundle.run(["/bin/probe", *bundle.site.files], [(stage, hook, settings or bundle.site.settings)], environment, user=user)
    assert result.returncode == 0, result.stderr + bundle.log.read_text()
    return result.stdout.splitlines()


@pytest.mark.parametrize("stage", ["prestart", "createRuntime", "createContainer"])
def test_directories_of_the_step_are_mounted(bundle, build_dir, stage):
    assert probe(bundle, build_dir / "pmix_hook", stage) == ["r of the server"] * 2


def test_directories_are_those_of_slurm_conf_and_nobody_asks_the_controller(bundle, build_dir):
    (bundle.directory / "slurm.conf").write_text(f"SlurmdSpoolDir={bundle.site.spool}\nTmpFS={bundle.site.tmp}\n")
    settings = {"SLURM_CONF": bundle.directory / "slurm.conf", "HOOK_TRUST_CONTAINER": "true"}
    assert probe(bundle, build_dir / "pmix_hook", settings=settings) == ["r of the server"] * 2


@pytest.mark.parametrize("change", [{"SLURM_MPI_TYPE": "pmi2"}, {"SLURM_MPI_TYPE": ""}, {"PMIX_RANK": ""}, {"SLURM_STEP_ID": "../3"}, {"SLURM_JOB_ID": "13"}])
def test_container_of_no_such_step_gets_nothing(bundle, build_dir, change):
    assert probe(bundle, build_dir / "pmix_hook", **change) == ["missing"] * 2


def test_what_an_image_may_have_said_does_not_count(bundle, build_dir):
    settings = {name: value for name, value in bundle.site.settings.items() if name != "HOOK_TRUST_CONTAINER"}
    assert probe(bundle, build_dir / "pmix_hook", settings=settings) == ["missing"] * 2


def test_directory_of_another_user_and_a_link_are_left_out(bundle, build_dir):
    """Everybody can take a name in the shared directory for temporary files."""
    os.chown(bundle.site.directories[0], 61239, 61239)
    bundle.site.directories[1].rename(bundle.site.tmp / "other")
    bundle.site.directories[1].symlink_to(bundle.site.tmp / "other")
    assert probe(bundle, build_dir / "pmix_hook") == ["missing"] * 2


def test_links_of_the_image_lead_nowhere_else(bundle, build_dir):
    outside = bundle.directory / "outside"
    outside.mkdir()
    place = bundle.root / str(bundle.site.spool).lstrip("/")
    place.parent.mkdir(parents=True)
    place.symlink_to(outside)
    probe(bundle, build_dir / "pmix_hook")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_podman_gets_the_directories(podman, build_dir, runtime):  # noqa: F811
    podman.runtime = runtime
    site = Site(podman.directory, podman.user.uid)
    podman.add("pmix", build_dir / "pmix_hook", **site.settings)
    options = [f"--env={name}={value}" for name, value in JOB.items()]
    assert probed(podman, *site.files, options=options) == ["rw of the server"] * 2


def test_the_engine_gives_the_directories(hooks, image):  # noqa: F811
    site = Site(hooks.directory, hooks.engine.user.uid)
    settings = [f"{name}={value}" for name, value in site.settings.items() if name != "HOOK_TRUST_CONTAINER"]
    hooks.add("08-pmix", hooks.engine.prefix / "bin/pmix_hook", ["createContainer"], env=settings)
    script = f"cat {site.files[0]} {site.files[1]}"
    try:
        options = [f"--env={name}={value}" for name, value in JOB.items()]
        assert hooks.engine.output(image, "sh", "-c", script, options=options) == "of the server\nof the server"
    finally:
        for made in site.directories:
            (made / "file").unlink()
            made.rmdir()
        site.spool.rmdir()
        site.tmp.rmdir()
