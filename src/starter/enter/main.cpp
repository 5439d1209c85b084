// sarus-enter [--root] [--ids=UID:GID [--namespace=FD]] [--ignore=SIGNAL[,SIGNAL...]]
//     [--oom-score-adj=NUMBER] [--cpus=LIST] [--locale=VARIABLE[,VARIABLE...]]
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
// --cpus: the CPUs to which the engine's caller is bound ("0-3,8"). crun gives a command all of its cgroup
// (since 1.9.2).
//
// --locale: of these variables, those are unset that name a locale which glibc does not find here. Otherwise
// programs complain about the caller's locale in each image that lacks it.
//
// --percent: all words behind it hold bytes as %XX, because the OCI runtime takes UTF-8 alone, and names of
// files consist of any bytes. --env replaces a variable that the runtime has changed for this reason.
//
// --default-workdir: / instead, if the user may not enter it.
//
// Where the directory of the PMIx server is missing, the variable PMIX_MCA_gds says so to its clients.
//
// sarus-enter --hold [WORD...]
//
// Runs no command, but holds a container open: writes a byte to its standard output when it runs, and ends
// when its standard input does.

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

/// "0-3,8". The command runs without them, too: its cgroup may have none of these CPUs.
void setCpus(const char* list) {
    constexpr unsigned long most = 8192;  // that Linux can have
    constexpr unsigned long bits = 8 * sizeof(unsigned long);
    static unsigned long wanted[most / bits];
    static unsigned long present[most / bits];
    while (*list != '\0') {
        char* rest = nullptr;
        auto cpu = ::strtoul(list, &rest, 10);
        const auto last = *rest == '-' ? ::strtoul(rest + 1, &rest, 10) : cpu;
        for (; cpu <= last && cpu < most; ++cpu) {
            wanted[cpu / bits] |= 1UL << (cpu % bits);
        }
        list = *rest == ',' ? rest + 1 : "";
    }
    if (::syscall(SYS_sched_getaffinity, 0, sizeof present, present) < 0 ||
        ::memcmp(present, wanted, sizeof wanted) != 0) {
        ::syscall(SYS_sched_setaffinity, 0, sizeof wanted, wanted);
    }
}

/// "en_US.UTF-8@x" -> "en_US.utf8@x", as glibc calls the files. False if it does not fit.
bool writeNormalized(const char* name, char* out, std::size_t size) {
    bool isCodeset = false;
    std::size_t length = 0;
    for (; *name != '\0' && length + 1 < size; ++name) {
        isCodeset = (isCodeset || *name == '.') && *name != '@';
        const bool isSmall = (*name >= 'a' && *name <= 'z') || (*name >= '0' && *name <= '9');
        const bool isLarge = *name >= 'A' && *name <= 'Z';
        if (!isCodeset || *name == '.' || isSmall) {
            out[length++] = *name;
        } else if (isLarge) {
            out[length++] = static_cast<char>(*name - 'A' + 'a');
        }
    }
    out[length] = '\0';
    return *name == '\0';
}

bool isLocaleDirectory(const char* name) {
    char path[PATH_MAX];
    const int size = ::snprintf(path, sizeof path, "/usr/lib/locale/%s/LC_CTYPE", name);
    return size > 0 && static_cast<std::size_t>(size) < sizeof path && ::access(path, R_OK) == 0;
}

/// Of the file in which glibc collects locales, reads only the names: their offset and size are the sixth and
/// the seventh number of its header.
bool isInLocaleArchive(const char* name) {
    constexpr unsigned magic = 0xde020109;
    static char names[1U << 18U];
    unsigned header[7] = {};
    const int fd = ::open("/usr/lib/locale/locale-archive", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool isFound = false;
    if (fd >= 0 && ::pread(fd, header, sizeof header, 0) == sizeof header && header[0] == magic) {
        const auto wanted = header[6] < sizeof names ? header[6] : sizeof names - 1;
        const auto count = ::pread(fd, names, wanted, header[5]);
        for (ssize_t at = 0; at < count && !isFound; at += static_cast<ssize_t>(::strlen(names + at)) + 1) {
            isFound = ::strcmp(names + at, name) == 0;
        }
    }
    ::close(fd);
    return isFound;
}

bool hasLocale(const char* name) {
    constexpr const char* everywhere[] = {"", "C", "POSIX", "C.UTF-8", "C.utf8"};
    for (const char* always : everywhere) {
        if (::strcmp(name, always) == 0) {
            return true;
        }
    }
    char normalized[256];
    return ::strchr(name, '/') == nullptr && writeNormalized(name, normalized, sizeof normalized) &&
           (isLocaleDirectory(name) || isLocaleDirectory(normalized) || isInLocaleArchive(normalized));
}

/// "LANG,LC_ALL". A container that says where its locales are knows best.
void unsetMissingLocales(const char* names) {
    if (::getenv("LOCPATH") != nullptr || ::getenv("LOCALE_ARCHIVE") != nullptr) {
        return;
    }
    while (*names != '\0') {
        char name[64];
        const auto length = ::strcspn(names, ",");
        ::snprintf(name, sizeof name, "%.*s", static_cast<int>(length), names);
        if (const char* value = ::getenv(name); value != nullptr && !hasLocale(value)) {
            ::unsetenv(name);
        }
        names += length + (names[length] == ',' ? 1 : 0);
    }
}

/// A job step that joins a container has its PMIx server's files outside of it. Its clients then find out one
/// by one, with an error message each: let them ask for everything over the connection.
void avoidMissingPmixFiles() {
    if (const char* directory = ::getenv("PMIX_SERVER_TMPDIR");
        directory != nullptr && ::access(directory, X_OK) != 0) {
        ::setenv("PMIX_MCA_gds", "hash", 0);
    }
}

/// Workload managers signal all processes of a job step, also this one: the commands in the container
/// decide when it ends.
int hold() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    ::signal(SIGCHLD, SIG_IGN);  // the kernel reaps
    [[maybe_unused]] const auto told = ::write(STDOUT_FILENO, "+", 1);
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && ::strcmp(argv[1], "--hold") == 0) {
        return hold();
    }
    bool isRoot = false;
    bool changesIds = false;
    Ids ids;
    int descriptor = -1;
    const char* locales = "";
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
        } else if (text = valueOf(argv[next], "--cpus="); text != nullptr) {
            setCpus(text);
        } else if (text = valueOf(argv[next], "--locale="); text != nullptr) {
            locales = text;
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
            "[--oom-score-adj=NUMBER] [--cpus=LIST] [--locale=VARIABLE[,VARIABLE...]] "
            "[--percent [--env=NAME=VALUE]...] [--[default-]workdir=DIRECTORY] -- COMMAND [ARGUMENT...]\n");
        return 1;
    }
    if (changesIds) {
        takeIds(ids, descriptor);
    }
    if (workdir != nullptr) {
        enterDirectory(workdir, isDefault);
    }
    unsetMissingLocales(locales);
    avoidMissingPmixFiles();
    if (isRoot && !emulateRoot(hasSingleId())) {
        fail("Failed to emulate root");
    }
    execute(argv + next + 1);
}
