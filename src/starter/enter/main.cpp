// sarus-enter [--ids=UID:GID [--namespace=FD]] [--workdir=DIRECTORY] -- COMMAND [ARGUMENT...]
//
// Runs first in a container, as its user, and becomes the command. Linked statically, because it runs inside
// any image.
//
// --ids: rootless runc can create only containers whose user is 0. This program then creates one more user
// namespace in which its ids are the caller's again, or enters the one of descriptor FD. The command has no
// capabilities (user_namespaces(7): ids other than 0 lose them in execve).
//
// --workdir: root's runtime would enter the directory with root's rights, wherever the user's links lead at
// that moment.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace {

[[noreturn]] void fail(const char* doing) {
    ::dprintf(STDERR_FILENO, "sarus-enter: %s: %s\n", doing, ::strerror(errno));
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
    if (errno == ENOENT && ::strchr(command[0], '/') == nullptr) {
        ::dprintf(STDERR_FILENO, "exec: \"%s\": executable file not found in $PATH\n", command[0]);
    } else {
        ::dprintf(STDERR_FILENO, "exec: \"%s\": %s\n", command[0], ::strerror(errno));
    }
    ::_exit(1);
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
        fail("Failed to create a user namespace");
    }
    writeText("/proc/self/setgroups", "deny");
    writeMap("/proc/self/uid_map", ids.uid);
    writeMap("/proc/self/gid_map", ids.gid);
}

/// The place is examined where the path has led: whatever it was before, it may be something else by now.
void enterDirectory(const char* path) {
    char name[PATH_MAX];
    struct statfs filesystem {};
    if (::chdir(path) != 0) {
        fail("Failed to enter the working directory");
    }
    if (::statfs(".", &filesystem) == 0 && filesystem.f_type == PROC_SUPER_MAGIC) {
        errno = ELOOP;
        fail("The working directory must not be below /proc");
    }
    if (::getcwd(name, sizeof name) == nullptr && errno == ENOENT) {  // behind a link of another process
        fail("The working directory is outside of the container");
    }
}

/// The text behind "NAME=" if the argument is this option, else null.
const char* valueOf(const char* argument, const char* name) {
    const auto size = ::strlen(name);
    return ::strncmp(argument, name, size) == 0 ? argument + size : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
    bool changesIds = false;
    Ids ids;
    int descriptor = -1;
    const char* workdir = nullptr;
    int next = 1;
    for (; next < argc && ::strcmp(argv[next], "--") != 0; ++next) {
        if (const char* text = valueOf(argv[next], "--ids="); text != nullptr) {
            char* rest = nullptr;
            ids.uid = static_cast<unsigned>(::strtoul(text, &rest, 10));
            ids.gid = static_cast<unsigned>(::strtoul(rest + (*rest == ':' ? 1 : 0), nullptr, 10));
            changesIds = true;
        } else if (text = valueOf(argv[next], "--namespace="); text != nullptr) {
            descriptor = static_cast<int>(::strtol(text, nullptr, 10));
        } else if (text = valueOf(argv[next], "--workdir="); text != nullptr) {
            workdir = text;
        } else {
            break;
        }
    }
    if (next + 1 >= argc || ::strcmp(argv[next], "--") != 0) {
        ::dprintf(STDERR_FILENO,
                  "usage: sarus-enter [--ids=UID:GID [--namespace=FD]] [--workdir=DIRECTORY] -- COMMAND "
                  "[ARGUMENT...]\n");
        return 1;
    }
    if (changesIds) {
        takeIds(ids, descriptor);
    }
    if (workdir != nullptr) {
        enterDirectory(workdir);
    }
    execute(argv + next + 1);
}
