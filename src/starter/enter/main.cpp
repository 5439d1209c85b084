// sarus-enter [--root] [--ids=UID:GID [--namespace=FD]] [--ignore=SIGNAL[,SIGNAL...]]
// [--oom-score-adj=NUMBER]
//     [--percent [--env=NAME=VALUE]...] [--[default-]workdir=DIRECTORY] -- COMMAND [ARGUMENT...]
//
// Runs in a container in front of each command, as its user, and becomes the command. Linked statically,
// because it runs inside any image.
//
// The OCI runtime would look up the directory and the command with its own rights, which are root's: wherever
// the user's links lead at that moment, and in file servers of the user that never answer.
//
// --root: the command's user is root in a user namespace. What package managers do as root, and the kernel
// does not allow there, succeeds without effect (root_emulation.hpp).
//
// --ids: rootless runc can create only containers whose user is 0. This program then creates one more user
// namespace in which its ids are the caller's again, or enters the one of descriptor FD. The command has no
// capabilities (user_namespaces(7): ids other than 0 lose them in execve).
//
// --ignore: the command ignores these signals, as the caller of the engine does. (runc handles them in the
// meantime, and hooks must not find them ignored.)
//
// --oom-score-adj: how early the kernel ends the command when memory is full. crun sets it for a container's
// first process only, and a failure would be an error.
//
// --percent: all words behind it hold bytes as %XX, because the OCI runtime takes UTF-8 alone, and names of
// files consist of any bytes. --env replaces a variable that the runtime has changed for this reason.
//
// --default-workdir: / instead, if the user may not enter it.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "starter/enter/root_emulation.hpp"

namespace {

[[noreturn]] void fail(const char* doing) {
    ::dprintf(STDERR_FILENO, "sarus-enter: %s: %s\n", doing, ::strerror(errno));
    ::_exit(1);
}

/// Prints `format` with a text of the user's or the image's, which may hold commands for the terminal.
[[noreturn]] void refuse(const char* format, const char* text, const char* reason = "") {
    char shown[PATH_MAX];
    ::snprintf(shown, sizeof shown, "%s", text);
    for (char* next = shown; *next != '\0'; ++next) {
        *next = static_cast<unsigned char>(*next) < ' ' || *next == '\177' ? '?' : *next;
    }
    ::dprintf(STDERR_FILENO, format, shown, reason);
    ::_exit(1);
}

void writeText(const char* path, const char* text) {
    const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
    const auto size = ::strlen(text);
    if (fd < 0 || ::write(fd, text, size) != static_cast<ssize_t>(size)) {
        fail(path);
    }
    ::close(fd);
}

void writeMap(const char* path, unsigned id) {
    char text[64];
    ::snprintf(text, sizeof text, "%u 0 1\n", id);
    writeText(path, text);
}

/// Like execvp(3), but never runs a file through the image's shell: no OCI runtime does that.
void tryToExecute(char** command) {
    if (::strchr(command[0], '/') != nullptr) {
        ::execv(command[0], command);
        return;
    }
    const char* directory = ::getenv("PATH");
    directory = directory == nullptr ? "/bin:/usr/bin" : directory;
    int error = ENOENT;
    while (directory != nullptr) {
        const auto length = static_cast<int>(::strcspn(directory, ":"));
        char path[4096];
        const int size =
            ::snprintf(path, sizeof path, "%.*s%s%s", length, directory, length == 0 ? "" : "/", command[0]);
        if (size > 0 && static_cast<std::size_t>(size) < sizeof path) {
            ::execv(path, command);
        }
        if (errno != ENOENT && errno != ENOTDIR) {
            error = errno;
        }
        if (error != ENOENT && error != EACCES) {
            break;
        }
        directory = directory[length] == ':' ? directory + length + 1 : nullptr;
    }
    errno = error;
}

[[noreturn]] void execute(char** command) {
    tryToExecute(command);
    const bool isSearched = errno == ENOENT && ::strchr(command[0], '/') == nullptr;
    refuse("exec: \"%s\": %s\n", command[0],
           isSearched ? "executable file not found in $PATH" : ::strerror(errno));
}

struct Ids {
    unsigned uid = 0;
    unsigned gid = 0;
};

/// Without access to the shared namespace of `descriptor`, creates a new one.
void takeIds(const Ids& ids, int descriptor) {
    const bool entered = descriptor >= 0 && ::setns(descriptor, CLONE_NEWUSER) == 0;
    ::close(descriptor);
    if (entered) {
        return;
    }
    if (::unshare(CLONE_NEWUSER) != 0) {
        if (errno == EPERM && ::prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER) {
            refuse(
                "sarus-enter: Failed to create a user namespace: %s. The seccomp profile must allow it (use "
                "etc/seccomp/rootless.json)\n",
                ::strerror(errno));
        }
        fail("Failed to create a user namespace");
    }
    writeText("/proc/self/setgroups", "deny");
    writeMap("/proc/self/uid_map", ids.uid);
    writeMap("/proc/self/gid_map", ids.gid);
}

/// Follows no link in /proc to what a process has open (before Linux 5.6, enterDirectory() notices).
int openDirectory(const char* path) {
    constexpr int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    open_how how{};
    how.flags = flags;
    how.resolve = RESOLVE_NO_MAGICLINKS;
    const auto fd = ::syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    return fd >= 0 || (errno != ENOSYS && errno != EPERM) ? static_cast<int>(fd) : ::open(path, flags);
}

void enterDirectory(const char* path, bool isDefault) {
    char name[PATH_MAX];
    struct statfs filesystem {};
    const int fd = openDirectory(path);
    if (fd < 0 ? errno == ELOOP : ::fstatfs(fd, &filesystem) == 0 && filesystem.f_type == PROC_SUPER_MAGIC) {
        refuse("The working directory '%s' is invalid, it must not be below /proc.\n", path);
    }
    if (fd < 0 || ::fchdir(fd) != 0) {
        if (isDefault && errno == EACCES) {
            return;
        }
        refuse("Failed to enter the working directory %s: %s\n", path, ::strerror(errno));
    }
    ::close(fd);
    if (::getcwd(name, sizeof name) == nullptr && errno == ENOENT) {
        refuse("The working directory '%s' is invalid, it is outside of the container.\n", path);
    }
}

/// The text behind "NAME=" if the argument is this option, else null.
const char* valueOf(const char* argument, const char* name) {
    const auto size = ::strlen(name);
    return ::strncmp(argument, name, size) == 0 ? argument + size : nullptr;
}

/// In place.
void decode(char* word) {
    char* end = word;
    for (; *word != '\0'; ++word) {
        const char digits[] = {word[0] == '%' ? word[1] : '\0', word[1] == '\0' ? '\0' : word[2], '\0'};
        char* rest = nullptr;
        const auto byte = ::strtoul(digits, &rest, 16);
        const bool isEncoded = rest == digits + 2;
        *end++ = isEncoded ? static_cast<char>(byte) : *word;
        word += isEncoded ? 2 : 0;
    }
    *end = '\0';
}

/// "1,15"
void ignoreSignals(const char* numbers) {
    char* rest = nullptr;
    while (*numbers != '\0') {
        ::signal(static_cast<int>(::strtol(numbers, &rest, 10)), SIG_IGN);
        numbers = *rest == ',' ? rest + 1 : "";
    }
}

/// The command runs without it, too.
void setOomScore(const char* number) {
    const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    [[maybe_unused]] const auto written = ::write(fd, number, ::strlen(number));
    ::close(fd);
}

}  // namespace

int main(int argc, char** argv) {
    bool isRoot = false;
    bool changesIds = false;
    Ids ids;
    int descriptor = -1;
    const char* workdir = nullptr;
    bool isDefault = false;
    int next = 1;
    for (; next < argc && ::strcmp(argv[next], "--") != 0; ++next) {
        if (::strcmp(argv[next], "--percent") == 0) {
            for (int word = next + 1; word < argc; ++word) {
                decode(argv[word]);
            }
        } else if (::strcmp(argv[next], "--root") == 0) {
            isRoot = true;
        } else if (const char* text = valueOf(argv[next], "--ids="); text != nullptr) {
            char* rest = nullptr;
            ids.uid = static_cast<unsigned>(::strtoul(text, &rest, 10));
            ids.gid = static_cast<unsigned>(::strtoul(rest + (*rest == ':' ? 1 : 0), nullptr, 10));
            changesIds = true;
        } else if (text = valueOf(argv[next], "--namespace="); text != nullptr) {
            descriptor = static_cast<int>(::strtol(text, nullptr, 10));
        } else if (text = valueOf(argv[next], "--ignore="); text != nullptr) {
            ignoreSignals(text);
        } else if (text = valueOf(argv[next], "--oom-score-adj="); text != nullptr) {
            setOomScore(text);
        } else if (text = valueOf(argv[next], "--env="); text != nullptr) {
            ::putenv(const_cast<char*>(text));
        } else if (text = valueOf(argv[next], "--workdir="); text != nullptr) {
            workdir = text;
        } else if (text = valueOf(argv[next], "--default-workdir="); text != nullptr) {
            workdir = text;
            isDefault = true;
        } else {
            break;
        }
    }
    if (next + 1 >= argc || ::strcmp(argv[next], "--") != 0) {
        ::dprintf(
            STDERR_FILENO,
            "usage: sarus-enter [--root] [--ids=UID:GID [--namespace=FD]] [--ignore=SIGNAL[,SIGNAL...]] "
            "[--oom-score-adj=NUMBER] [--percent [--env=NAME=VALUE]...] "
            "[--[default-]workdir=DIRECTORY] -- COMMAND [ARGUMENT...]\n");
        return 1;
    }
    if (changesIds) {
        takeIds(ids, descriptor);
    }
    if (workdir != nullptr) {
        enterDirectory(workdir, isDefault);
    }
    if (isRoot && !emulateRoot(hasSingleId())) {
        fail("Failed to emulate root");
    }
    execute(argv + next + 1);
}
