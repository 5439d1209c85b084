"""What OCI runtimes of other versions do otherwise: programs in place of crun and runc do it. test_newer_runtimes.py runs real ones."""

import os

import pytest
from helpers.compiler import compile_c

pytestmark = pytest.mark.asroot


@pytest.fixture
def image(engines, load_image, plain_busybox):
    """image(mode) -> reference of busybox in the repository of that mode's user."""
    return lambda mode: load_image(engines(mode, "crun"), "busybox", plain_busybox)


UNBINDING = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>
#include <unistd.h>

int main(int count, char** words) {
    cpu_set_t all;
    (void)count;
    memset(&all, 0xFF, sizeof all);
    return sched_setaffinity(0, sizeof all, &all) != 0 || execv("/usr/bin/crun", words);
}
"""


@pytest.mark.parametrize("mode", ["setuid", "rootless"])
def test_commands_keep_their_callers_cpus_with_a_runtime_that_gives_them_all(engines, image, make_setuid_prefix, make_rootless_prefix, opt, mode):
    """As crun does since 1.9.2. A command of `exec` has those of its own caller."""
    runtime = opt / f"unbinding-{mode}" / "crun"
    compile_c(runtime, UNBINDING, ["-static"])
    engine = engines(mode, "crun").variant(prefix=(make_setuid_prefix if mode == "setuid" else make_rootless_prefix)(f"unbound-{mode}", runcPath=str(runtime)))
    first, second = sorted(os.sched_getaffinity(0))[:2]
    script = "grep Cpus_allowed_list /proc/self/status; echo ready; exec sleep 1000"

    def bound(cpu, *arguments):
        return engine.start_by(["taskset", "-c", str(cpu)], *arguments)

    run = bound(first, "run", "--name=bound", image(mode), "sh", "-c", script)
    try:
        assert run.stdout.readline().split()[-1] == str(first)
        assert run.stdout.readline() == "ready\n", run.stderr.read()
        inside = bound(second, "exec", "bound", "grep", "Cpus_allowed_list", "/proc/self/status").communicate(timeout=300)
        assert inside[0].split()[-1] == str(second), inside
    finally:
        run.kill()
        run.communicate(timeout=300)


# As runc 1.3.6 refuses a mount on the root itself.
STRICT = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int count, char** words) {
    static char text[1 << 20];
    char path[4096];
    for (int i = 1; i + 1 < count; ++i) {
        if (strcmp(words[i], "--bundle") == 0) {
            snprintf(path, sizeof path, "%s/config.json", words[i + 1]);
            FILE* file = fopen(path, "r");
            if (file == NULL || fread(text, 1, sizeof text - 1, file) == 0 || strstr(text, "\"/.\"") != NULL) return 1;
        }
    }
    return execv("/usr/bin/runc", words);
}
"""


def test_a_read_only_root_needs_no_mount_on_itself_by_runc(engines, image, make_setuid_prefix, opt):
    runtime = opt / "strict" / "runc"
    compile_c(runtime, STRICT, ["-static"])
    engine = engines("setuid", "runc").variant(prefix=make_setuid_prefix("strict", runcPath=str(runtime)))
    script = "echo x > /new; grep ' / / ' /proc/self/mountinfo"
    result = engine.run(image("setuid"), "sh", "-c", script, options=["--read-only"])
    assert "Read-only file system" in result.stderr
    assert {"ro", "nosuid", "nodev"} <= set(result.stdout.split()[5].split(","))
