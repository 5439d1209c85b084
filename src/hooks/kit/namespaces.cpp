#include "hooks/kit/namespaces.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::hooks {

namespace {

struct stat statusOf(int fd) {
    struct stat status {};
    checkErrno(::fstat(fd, &status), "Failed to examine a namespace");
    return status;
}

}  // namespace

bool procIsOurs() {
    char target[24];
    const auto length = ::readlink("/proc/self", target, sizeof target);
    checkErrno(length, "Failed to read /proc/self");
    return parseNumber({target, static_cast<std::size_t>(length)}) == static_cast<std::uint64_t>(::getpid());
}

bool enterNamespace(pid_t pid, NamespaceKind kind) {
    if (pid <= 1 || !procIsOurs()) {
        return false;
    }
    const bool isMount = kind == NamespaceKind::mount;
    const std::string name = isMount ? "mnt" : "pid";
    const auto theirs = openFile(cat("/proc/", pid, "/ns/", name), O_RDONLY);
    const auto ours = openFile(cat("/proc/self/ns/", isMount ? name : "pid_for_children"), O_RDONLY);
    const auto theirStatus = statusOf(theirs.get());
    const auto ourStatus = statusOf(ours.get());
    if (theirStatus.st_dev == ourStatus.st_dev && theirStatus.st_ino == ourStatus.st_ino) {
        return false;
    }
    if (::setns(theirs.get(), isMount ? CLONE_NEWNS : CLONE_NEWPID) != 0) {
        throwErrno(cat("Failed to enter the ", isMount ? "mount" : "pid", " namespace of the container's process ", pid));
    }
    return true;
}

bool isInitialUserNamespace() {
    const auto map = splitWords(readFile("/proc/self/uid_map", 1U << 16U));
    return map == std::vector<std::string>{"0", "0", "4294967295"};
}

}  // namespace sarus::hooks
