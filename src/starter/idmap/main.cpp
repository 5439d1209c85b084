// sarus-idmap [--enter=FD] UID GID COMMAND [ARGUMENT...]
//
// Rootless runc can create only containers whose user is 0. This program runs first in such a container: it
// creates one more user namespace in which its ids are the caller's again, or enters the one of descriptor
// FD, and becomes the command. The command has no capabilities (user_namespaces(7): ids other than 0 lose
// them in execve). Linked statically, because it runs inside any image.

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace {

[[noreturn]] void fail(const char* doing) {
    ::dprintf(STDERR_FILENO, "sarus-idmap: %s: %s\n", doing, ::strerror(errno));
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

void writeMap(const char* path, const char* id) {
    char text[64];
    ::snprintf(text, sizeof text, "%.20s 0 1\n", id);
    writeText(path, text);
}

bool isNumber(const char* text) {
    return *text != '\0' && text[::strspn(text, "0123456789")] == '\0';
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

/// Failure is harmless: without access to the shared namespace the caller creates a new one.
bool enter(const char* descriptor) {
    const int fd = static_cast<int>(::strtol(descriptor, nullptr, 10));
    const bool entered = ::setns(fd, CLONE_NEWUSER) == 0;
    ::close(fd);
    return entered;
}

void makeNamespace(const char* uid, const char* gid) {
    if (::unshare(CLONE_NEWUSER) != 0) {
        fail("Failed to create a user namespace");
    }
    writeText("/proc/self/setgroups", "deny");
    writeMap("/proc/self/uid_map", uid);
    writeMap("/proc/self/gid_map", gid);
}

}  // namespace

int main(int argc, char** argv) {
    const char* descriptor = nullptr;
    constexpr char option[] = "--enter=";
    if (argc > 1 && ::strncmp(argv[1], option, sizeof option - 1) == 0) {
        descriptor = argv[1] + sizeof option - 1;
        --argc;
        ++argv;
    }
    if (argc < 4 || !isNumber(argv[1]) || !isNumber(argv[2])) {
        ::dprintf(STDERR_FILENO, "usage: sarus-idmap [--enter=FD] UID GID COMMAND [ARGUMENT...]\n");
        return 1;
    }
    if (descriptor == nullptr || !isNumber(descriptor) || !enter(descriptor)) {
        makeNamespace(argv[1], argv[2]);
    }
    execute(argv + 3);
}
