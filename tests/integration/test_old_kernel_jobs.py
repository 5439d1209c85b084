"""What sites and jobs add to containers (see test_old_kernel.py), on kernels that lack what came after Linux 5.0: rules of other files, held
by what takes the place of the newer calls.
"""


import pytest
import test_cgroups
import test_configuration_effects
import test_edf
import test_hooks
import test_images
import test_mpi
import test_rootless_limits
from helpers import mpi
from test_configuration_effects import configured, prefixes, site_engine, site_files  # noqa: F401  fixtures of the rules
from test_edf import work  # noqa: F401
from test_hooks import hooks  # noqa: F401
from test_images import repository, sarus, variant  # noqa: F401
from test_mpi import programs  # noqa: F401
from test_old_kernel import engines, old_kernel  # noqa: F401
from test_rootless_limits import fuse_mounted  # noqa: F401

pytestmark = [pytest.mark.asroot, pytest.mark.thorough]

BOTH_MODES = ["setuid-crun", "rootless-runc"]  # and both OCI runtimes
for rule in ("test_pulled_image_is_listed_run_and_removed", "test_layers_are_downloaded_once", "test_changed_image_is_pulled_again"):
    globals()[rule] = getattr(test_images, rule)
test_fuse_mount_of_the_user_without_allow_root = test_rootless_limits.test_fuse_mount_of_the_user_without_allow_root


@pytest.fixture(params=["setuid", "rootless"])
def mode(request):
    return request.param


@pytest.fixture(params=BOTH_MODES)
def hooks_engine(request, engines):  # noqa: F811
    return engines(*request.param.split("-"))


@pytest.fixture
def edf_engine(hooks_engine):
    return hooks_engine


@pytest.fixture
def image(hooks_engine, load_image, plain_busybox):
    return load_image(hooks_engine, "busybox", plain_busybox)


@pytest.fixture
def site_image(site_engine, load_image, plain_busybox):  # noqa: F811
    return load_image(site_engine, "busybox", plain_busybox)


def test_site_mounts(configured, site_image, site_files):  # noqa: F811
    test_configuration_effects.test_site_mounts(configured, site_image, site_files)


def test_site_devices(configured, site_image, mode, open_directory):  # noqa: F811
    test_configuration_effects.test_site_devices(configured, site_image, mode, open_directory)


def test_hooks_of_all_stages(hooks, image):  # noqa: F811
    test_hooks.test_hooks_run_in_the_order_of_stages_and_file_names(hooks, image)


def test_precreate_hook(hooks, image):  # noqa: F811
    test_hooks.test_precreate_hook_edits_the_configuration(hooks, image)


def test_failing_hook(hooks, image):  # noqa: F811
    test_hooks.test_failing_hook_says_which_and_why(hooks, image, "createContainer")


def test_ps_and_kill(hooks_engine, image):
    with hooks_engine.standing(image, "--name=sleeper") as process:
        test_hooks.test_ps_shows_the_table_of_runc(hooks_engine, process)
        test_hooks.test_kill_sends_sighup_and_is_silent(hooks_engine, process)
    test_hooks.test_ps_without_containers_prints_the_titles(hooks_engine)
    with hooks_engine.standing(image, "--name=sleeper") as process:
        test_hooks.test_kill_sends_the_chosen_signal(hooks_engine, process)


def test_environment_definition(edf_engine, image, work):  # noqa: F811
    test_edf.test_every_key_has_its_effect(test_edf.Edf(edf_engine, image, work))


def test_ranks_of_an_mpi_job(engines, load_image, images, programs):  # noqa: F811
    """PMI-1 through a descriptor, shared memory, and memory of each other."""
    test_mpi.test_ranks_share_memory_and_exchange_messages(
        engines, lambda engine, kind: load_image(engine, f"ranks-{kind}", mpi.image_with(images, kind, programs[kind])), "setuid", "crun",
        "mpich")


@pytest.mark.parametrize("layout", ["as-mounted", "unified"])
@pytest.mark.parametrize("options", [[], ["--device=/dev/kmsg:r"]], ids=["no-rules", "rules"])
def test_container_stays_in_the_cgroups_of_its_job(engines, load_image, plain_busybox, layout, options):  # noqa: F811
    def place(mode):
        return engines(mode, "crun").variant(sandbox=(test_cgroups.LAYOUTS[layout],))

    test_cgroups.test_container_stays_in_the_cgroups_of_its_job(
        place, lambda mode: load_image(engines(mode, "crun"), "busybox", plain_busybox), layout, "setuid", options)
