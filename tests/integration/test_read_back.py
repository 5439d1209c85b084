"""Apply, then read back: a container which the OCI runtime has not confined as planned is ended."""


import pytest
from helpers import system
from helpers.compiler import compile_c
from helpers.installation import set_configuration


# Stands for an OCI runtime that starts a program as somebody else than asked; what is wrong is in its file's name.
RUNTIME = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static int is(const char* name, const char* what) { return strstr(name, what) != 0; }
static void keepCapability(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{1 << CAP_NET_RAW, 1 << CAP_NET_RAW, 1 << CAP_NET_RAW}};
    syscall(SYS_capset, &header, data);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_RAW, 0, 0);
}
int main(int count, char** words) {
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        int outside = open("/tmp", O_PATH | O_CLOEXEC);
        if (is(NAME, "cwd") && (unshare(CLONE_NEWNS) != 0 || fchdir(outside) != 0)) return 5;
        usleep(50000);  /* a runtime has things to do between its pid file and the program */
        if (!is(NAME, "uid")) {
            prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
            if (setresgid(GROUP, GROUP, GROUP) != 0 || setresuid(USER, USER, USER) != 0) return 2;
        }
        if (is(NAME, "cap")) keepCapability();
        if (!is(NAME, "nnp")) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        execl("/bin/sh", "sh", "-c", is(NAME, "right") ? "sleep 2; echo done" : "exec sleep 6543", (char*)0);
        return 3;
    }
    for (int i = 1; i + 1 < count; ++i) {
        if (strcmp(words[i], "--pid-file") == 0) {
            FILE* file = fopen(words[i + 1], "w");
            if (!file || fprintf(file, "%d", child) < 0 || fclose(file) != 0) return 4;
        }
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
"""


@pytest.fixture(scope="module")
def engine_with(engines, make_setuid_prefix, opt):
    """engine_with(name) -> the set-user-ID engine with that runtime."""
    prefix = make_setuid_prefix("read-back")
    engine = engines("setuid", "crun").variant(prefix=prefix)

    def make(name, **settings):
        runtime = opt / "read-back" / "var" / f"crun-{name}"
        compile_c(runtime, RUNTIME, ["-static", f'-DNAME="{name}"', f"-DUSER={engine.user.uid}", f"-DGROUP={engine.user.gid}"])
        set_configuration(prefix, runcPath=str(runtime), **settings)
        return engine

    return make


@pytest.fixture
def image(engines, load_image, plain_busybox):
    return load_image(engines("setuid", "crun"), "busybox", plain_busybox)


def test_a_container_that_is_as_planned_goes_on(engine_with, image):
    result = engine_with("right").run(image, "true")
    assert (result.stdout, result.stderr) == ("done\n", "")


@pytest.mark.parametrize("name, difference", [("nnp", "NoNewPrivs is 0 instead of 1"), ("uid", "Uid is 0 0 0 0 instead of {0} {0} {0} {0}"),
                                              ("cap", "CapEff is 0000000000002000 instead of 0000000000000000"),
                                              ("cwd", "the working directory is outside of the container")])
def test_a_container_with_more_rights_than_planned_is_ended(engine_with, image, name, difference):
    engine = engine_with(name)
    result = engine.run(image, "true", check=False)
    assert (result.returncode, result.stdout) == (1, "")
    first, second = result.stderr.splitlines()
    assert first.startswith(f"The OCI runtime {engine.prefix}/var/crun-{name} did not confine the container as planned: ")
    assert difference.format(engine.user.uid) in first
    assert second == "The container was ended. Set `runcPath` in sarus.json to a runtime that is known to work"
    assert system.eventually(lambda: not any("sleep 6543" in command for _, _, command in system.processes()))


def test_a_missing_seccomp_filter_is_noticed(engine_with, image, opt):
    engine = engine_with("unfiltered", seccompProfile=f"{opt}/read-back/etc/seccomp/default.json")
    result = engine.run(image, "true", check=False)
    assert result.returncode == 1 and "as planned: Seccomp " in result.stderr.splitlines()[0]


@pytest.mark.parametrize("command", ["exec unshare --user --map-root-user cat /proc/self/status", "taskset 1 sleep 0.1", "exit 0"])
def test_what_a_program_does_with_itself_is_no_difference(engine, busybox, command):
    """The usual runtimes, and programs which change at once what they may change."""
    for _ in range(5):
        result = engine.run(busybox, "sh", "-c", command, check=False)
        assert "as planned" not in result.stderr and result.returncode in (0, 1), result.stderr
