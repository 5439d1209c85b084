// sarus-hook exec|mark|wait INDEX TIMEOUT LOG [PROGRAM [ARGUMENT...]]
// sarus-hook inside INDEX TIMEOUT DESCRIPTION PROGRAM [ARGUMENT...]
// sarus-hook devices INDEX TIMEOUT CGROUP RULES
//
// Stands before each hook that an OCI runtime starts. It reads the container's state to the end, so that a hook which does not
// want it does no harm (the runtimes fail with a broken pipe then). Then, by its first argument:
//   exec    it tells the starter through the FIFO LOG which hook of the plan is about to run, and becomes this hook: process,
//           environment, directory, time-out and exit status are the hook's own;
//   mark    there is no hook: it tells that all those have run which are started on the host before the command;
//   wait    it runs the hook, which must not end the container if it fails: for stages after the start. The starter is told
//           about a failure, and about a hook that runs for more than TIMEOUT seconds (0: no limit), which is killed;
//   inside  it runs the hook, and names it if it fails: for hooks in the container, where there is no way to the starter.
// "devices" is a hook by itself: the rules of the container's device cgroup (version 1) are those of the file RULES, one a line,
// with "?" before those that may be refused.
// What it writes to LOG is described beside HookLog (starter/hooks.hpp). It is linked statically, because it may run inside of
// foreign images, and has no privileges of its own.

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

extern char** environ;

namespace {

constexpr long largestState = 64L << 20;
constexpr int cannotExecute = 127;

[[noreturn]] void fail(const char* doing, const char* what) {
    ::dprintf(STDERR_FILENO, "sarus-hook: %s %s: %s\n", doing, what, ::strerror(errno));
    ::_exit(1);
}

bool writeAll(int fd, const char* data, size_t size) {
    while (size > 0) {
        const ssize_t count = ::write(fd, data, size);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return false;
        }
        data += count;
        size -= static_cast<size_t>(count);
    }
    return true;
}

size_t readInput(char* buffer, size_t size) {
    size_t total = 0;
    while (total < size) {
        const ssize_t count = ::read(STDIN_FILENO, buffer + total, size - total);
        if (count == 0 || (count < 0 && errno == EBADF)) {
            break;
        }
        if (count < 0 && errno != EINTR) {
            fail("Failed to read", "the container's state");
        }
        total += count > 0 ? static_cast<size_t>(count) : 0;
    }
    return total;
}

void becomeInput(int fd) {
    if (::dup2(fd, STDIN_FILENO) < 0) {
        fail("Failed to pass on", "the container's state");
    }
    ::close(fd);
}

/// False if it is more than a pipe holds.
bool passThroughPipe(const char* data, size_t size) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    const bool fits = ::write(ends[1], data, size) == static_cast<ssize_t>(size);
    ::close(ends[1]);
    if (fits) {
        becomeInput(ends[0]);
    } else {
        ::close(ends[0]);
    }
    return fits;
}

/// Standard input is read to the end and replaced by what was read.
void keepState() {
    static char buffer[64U << 10U];
    size_t size = readInput(buffer, sizeof buffer);
    if (size < sizeof buffer && passThroughPipe(buffer, size)) {
        return;
    }
    int file = ::memfd_create("container-state", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (file < 0 && errno == EINVAL) {  // Linux before 6.3
        file = ::memfd_create("container-state", MFD_CLOEXEC);
    }
    long total = 0;
    while (size > 0) {
        total += static_cast<long>(size);
        if (total > largestState) {
            errno = EFBIG;
        }
        if (total > largestState || !writeAll(file, buffer, size)) {
            fail("Failed to keep", "the container's state");
        }
        size = readInput(buffer, sizeof buffer);
    }
    ::lseek(file, 0, SEEK_SET);
    becomeInput(file);
}

/// -1 if nobody reads the log: the starter was killed, and others end what is left of the container.
int openLog(const char* path) {
    const int log = ::open(path, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (log >= 0) {
        ::fcntl(log, F_SETFL, 0);
    }
    return log;
}

/// In one piece: nothing that a hook writes comes in between.
void tell(int log, const char* what, const char* index, int status) {
    char line[128];
    const int size = ::snprintf(line, sizeof line, "\001sarus-hook %s %.20s %d\n", what, index, status);
    if (log >= 0) {
        struct sigaction before {};
        struct sigaction ignored {};
        ignored.sa_handler = SIG_IGN;
        ::sigaction(SIGPIPE, &ignored, &before);
        writeAll(log, line, static_cast<size_t>(size));
        ::sigaction(SIGPIPE, &before, nullptr);
    }
}

[[noreturn]] void execute(char** command) {
    char* onlyName[] = {command[0], nullptr};
    ::execve(command[0], command[1] == nullptr ? onlyName : command + 1, environ);
    ::dprintf(STDERR_FILENO, "sarus-hook: Failed to execute %s: %s\n", command[0], ::strerror(errno));
    ::_exit(cannotExecute);
}

/// The wait status of the child, or -1 if its time was over.
int waitFor(pid_t child, long seconds) {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const time_t end = now.tv_sec + seconds;
    sigset_t childEnded;
    ::sigemptyset(&childEnded);
    ::sigaddset(&childEnded, SIGCHLD);
    int status = 0;
    while (::waitpid(child, &status, seconds > 0 ? WNOHANG : 0) != child) {
        ::clock_gettime(CLOCK_MONOTONIC, &now);
        if (seconds > 0 && now.tv_sec > end) {
            ::kill(child, SIGKILL);
            ::waitpid(child, &status, 0);
            return -1;
        }
        const timespec patience{.tv_sec = 0, .tv_nsec = 200'000'000};
        if (seconds > 0) {
            ::sigtimedwait(&childEnded, nullptr, &patience);
        }
    }
    return status;
}

/// Its wait status; -1 if it could not be started or its time was over. `output` (-1: none) is where it writes.
int run(int output, long seconds, char** command) {
    sigset_t childEnded;
    sigset_t before;
    ::sigemptyset(&childEnded);
    ::sigaddset(&childEnded, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &childEnded, &before);
    ::signal(SIGCHLD, SIG_DFL);
    const pid_t self = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
        ::sigprocmask(SIG_SETMASK, &before, nullptr);
        ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (::getppid() != self) {
            ::_exit(1);
        }
        if (output >= 0) {
            ::dup2(output, STDOUT_FILENO);
            ::dup2(output, STDERR_FILENO);
        }
        execute(command);
    }
    return child < 0 ? -1 : waitFor(child, seconds);
}

/// The exit status of a shell.
int runInside(const char* description, char** command) {
    const int status = run(-1, 0, command);
    if (status != 0) {
        ::dprintf(STDERR_FILENO, "The hook which failed is %s\n", description);
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int openControl(const char* cgroup, const char* name) {
    char path[4096];
    ::snprintf(path, sizeof path, "%s/%s", cgroup, name);
    const int control = ::open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (control < 0) {
        fail("Failed to open", path);
    }
    return control;
}

int makeDeviceRules(const char* cgroup, const char* rules) {
    if (!writeAll(openControl(cgroup, "devices.deny"), "a", 1)) {
        fail("Failed to restrict the device cgroup", cgroup);
    }
    const int allow = openControl(cgroup, "devices.allow");
    FILE* file = ::fopen(rules, "re");
    if (file == nullptr) {
        fail("Failed to open", rules);
    }
    char line[128];
    while (::fgets(line, sizeof line, file) != nullptr) {
        line[::strcspn(line, "\n")] = '\0';
        const bool usual = line[0] == '?';
        if (!writeAll(allow, line + usual, ::strlen(line + usual)) && !usual) {
            ::dprintf(STDERR_FILENO, "Failed to allow the device %s in the container's cgroup: %s\n", line, ::strerror(errno));
            return 1;
        }
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const auto is = [&](const char* how) { return argc > 5 && ::strcmp(argv[1], how) == 0; };
    const bool mark = argc == 5 && ::strcmp(argv[1], "mark") == 0;
    if (!mark && !is("exec") && !is("wait") && !is("inside") && !is("devices")) {
        ::dprintf(STDERR_FILENO,
                  "usage: sarus-hook exec|mark|wait|inside|devices INDEX TIMEOUT LOG|DESCRIPTION|CGROUP [PROGRAM|RULES "
                  "[ARGUMENT...]]\n");
        return 1;
    }
    keepState();
    if (is("devices")) {
        return makeDeviceRules(argv[4], argv[5]);
    }
    if (is("inside")) {
        return runInside(argv[4], argv + 5);
    }
    const int log = openLog(argv[4]);
    if (is("wait")) {  // its output goes to the log: one of the runtimes would drop it
        if (const int status = run(log, ::strtol(argv[3], nullptr, 10), argv + 5); status != 0) {
            tell(log, "failed", argv[2], status);
        }
        return 0;
    }
    tell(log, "begins", argv[2], 0);
    if (!mark) {
        execute(argv + 5);
    }
    return 0;
}
