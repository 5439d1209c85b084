"""Containers on kernels that lack what came after Linux 5.0 (openat2, open_tree, move_mount, fsopen, mount_setattr, close_range, the
pidfd calls, LOOP_CONFIGURE): the rules of test_run.py which the kernel has a part in, held by what takes the place of those calls.
"""

import subprocess

import pytest
import test_cdi
import test_exec
import test_hook_suite
import test_run
from helpers import system
from test_cdi import cdi, cdi_engine  # noqa: F401  fixtures of the rules
from test_exec import start  # noqa: F401
from test_hook_suite import hooks, host, image, log, suite_engine, suite_image  # noqa: F401
from test_run import shared, special, target  # noqa: F401

pytestmark = [pytest.mark.asroot, pytest.mark.thorough]

# Left out: what is decided before anything is asked of the kernel (arguments, environment, the wording of errors).
RULES = [
    "test_process_has_the_callers_ids", "test_all_four_ids_are_the_callers", "test_supplementary_groups_give_access", "test_no_capability_in_any_set",
    "test_no_new_privileges_is_set", "test_every_filesystem_is_nosuid", "test_files_written_in_the_container_are_gone_with_it",
    "test_user_can_write_to_the_root_filesystem", "test_network_files_are_the_nodes", "test_dev_null_works", "test_shared_memory_is_the_nodes",
    "test_missing_working_directory_is_created", "test_bind_mount_shows_the_source_and_writes_go_through", "test_readonly_bind_mount",
    "test_file_can_be_mounted_on_a_file", "test_later_mounts_are_visible_over_earlier_ones", "test_missing_mount_source",
    "test_source_that_only_root_can_reach_is_refused", "test_exit_status_of_a_killed_command", "test_private_process_namespace",
    "test_init_reaps_and_passes_on_the_status", "test_signals_reach_the_command", "test_killing_sarus_kills_the_container_and_leaves_nothing",
    "test_only_standard_descriptors_reach_the_container", "test_pmi_descriptor_is_preserved_and_renumbered", "test_tty_option_gives_a_terminal",
    "test_containers_of_one_image_share_one_loop_device", "test_many_containers_start_at_once",
    "test_directory_of_the_image_is_a_link_out_of_it", "test_file_in_etc_is_a_link_out_of_the_image",
    "test_mount_destination_through_a_link_stays_inside", "test_device_appears_in_the_container",
]
RULES_OF_EXEC = [
    "test_a_command_sees_the_containers_files_and_processes", "test_identity_and_privileges_are_those_of_the_container",
    "test_exit_status_is_the_commands", "test_no_descriptor_of_the_starter_reaches_the_command", "test_tty",
    "test_a_signal_ends_the_command_and_not_the_container", "test_killing_the_exec_leaves_no_process", "test_the_command_ends_with_its_container",
    "test_a_command_ends_with_its_first_process",
]
RULES_OF_HOOKS = ["test_documented_hooks_work_together"]
for module, rules in ((test_run, RULES), (test_exec, RULES_OF_EXEC), (test_hook_suite, RULES_OF_HOOKS)):
    for rule in rules:
        globals()[rule] = getattr(module, rule)


@pytest.fixture(scope="module")
def old_kernel(source_dir, workspace):
    """The program which takes the system calls away."""
    program = workspace / "old-kernel"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", str(program), str(source_dir / "tests/integration/programs/old_kernel.c")], check=True)
    return program


@pytest.fixture(scope="module")
def engines(engines, old_kernel):
    return lambda mode, runtime: engines(mode, runtime).variant(wrapper=(old_kernel,))


def test_the_calls_are_missing_in_these_tests(engine, workspace):
    """What is tested here is worth nothing if the filter does not work, or takes the set-user-ID bit away with it."""
    source = workspace / "probe.c"
    source.write_text("""#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    for (int number = 428; number <= 442; ++number) {
        if (syscall(number, -1, "", 0, 0, 0) != -1 || errno != ENOSYS) {
            printf("%d ", number);
        }
    }
    return geteuid() != 0;
}
""")
    probe = workspace / f"probe-{engine.mode}"
    subprocess.run(["gcc", "-o", str(probe), str(source)], check=True)
    probe.chmod(0o4755)
    argv, identity = engine.command()
    argv = [*argv[:argv.index(engine.program)], str(probe)]
    result = subprocess.run(argv, capture_output=True, text=True, env=engine.user.environment(), **identity)
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)


def test_nested_mounts_of_the_source_are_read_only_and_nosuid_too(engine, load_image, plain_busybox, workspace):  # noqa: F811
    """Without mount_setattr each mount of a tree has to be found and changed by itself."""
    image = load_image(engine, "busybox", plain_busybox)
    outer = workspace / f"nested-{engine.mode}-{engine.runtime}"
    inner = outer / "a b" / "inner"
    inner.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777,noexec", "tmpfs", str(inner)], check=True)
    try:
        lines = engine.output(image, "cat", "/proc/self/mountinfo", options=[f"--mount=type=bind,src={outer},dst=/mnt,readonly"]).splitlines()
        result = engine.run(image, "touch", "/mnt/a b/inner/x", options=[f"--mount=type=bind,src={outer},dst=/mnt,readonly"], check=False)
    finally:
        subprocess.run(["umount", str(inner)], check=True)
    flags = {fields[4]: set(fields[5].split(",")) for fields in map(str.split, lines)}
    assert {"ro", "nosuid", "nodev"} <= flags["/mnt"] and {"ro", "nosuid", "nodev", "noexec"} <= flags["/mnt/a\\040b/inner"]
    assert result.returncode == 1 and "Read-only file system" in result.stderr
    assert system.eventually(lambda: not any(str(outer) in mount for mount in system.mounts()))


def test_cdi_devices(cdi, load_image, plain_busybox):  # noqa: F811
    test_cdi.test_a_device_brings_nodes_variables_mounts_and_hooks(cdi, lambda made: load_image(made.engine, "busybox", plain_busybox))


def test_image_is_loaded_listed_and_removed(user_engine, images, plain_busybox):
    image = user_engine.load(images.archive(plain_busybox, "old-kernel"), "old-kernel")  # noqa: F811
    assert "old-kernel" in user_engine.sarus("images").stdout
    assert user_engine.sarus("images", "--verify").returncode == 0
    assert user_engine.output(image, "echo", "works") == "works"
    assert user_engine.sarus("rmi", image).returncode == 0
    assert "old-kernel" not in user_engine.sarus("images").stdout


def test_container_ends_with_its_main_process(engine, load_image, plain_busybox):
    """Where the end of a process cannot be waited for."""
    image = load_image(engine, "busybox", plain_busybox)  # noqa: F811
    result = engine.run(image, "sh", "-c", "sleep 3333 & sleep 0.3; exit 3", check=False)
    assert (result.returncode, result.stderr) == (3, "")
