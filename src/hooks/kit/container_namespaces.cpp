#include "hooks/kit/container_namespaces.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"

namespace sarus::hooks {

namespace {

/// The container's namespace; empty if this process is already in it or the pid is unusable.
UniqueFd namespaceToEnter(pid_t pid, NamespaceKind kind) {
    if (pid <= 1 || !procIsOurs()) {
        return {};
    }
    const bool isMount = kind == NamespaceKind::mount;
    const std::string name = isMount ? "mnt" : "pid";
    auto theirs = openFile(cat("/proc/", pid, "/ns/", name), O_RDONLY);
    const auto ours = openFile(cat("/proc/self/ns/", isMount ? name : "pid_for_children"), O_RDONLY);
    return isSameFile(statusOf(theirs.get(), "a namespace"), statusOf(ours.get(), "a namespace"))
               ? UniqueFd()
               : std::move(theirs);
}

}  // namespace

bool isInOtherNamespace(pid_t pid, NamespaceKind kind) {
    return static_cast<bool>(namespaceToEnter(pid, kind));
}

bool procIsOurs() {
    char target[24];
    const auto length = ::readlink("/proc/self", target, sizeof target);
    checkErrno(length, "Failed to read /proc/self");
    return parseNumber({target, static_cast<std::size_t>(length)}) == static_cast<std::uint64_t>(::getpid());
}

bool enterNamespace(pid_t pid, NamespaceKind kind) {
    const auto theirs = namespaceToEnter(pid, kind);
    if (!theirs) {
        return false;
    }
    const bool isMount = kind == NamespaceKind::mount;
    if (::setns(theirs.get(), isMount ? CLONE_NEWNS : CLONE_NEWPID) != 0) {
        throwErrno(cat("Failed to enter the ", isMount ? "mount" : "pid",
                       " namespace of the container's process ", pid));
    }
    return true;
}

UniqueFd topOfContainer(pid_t pid) {
    auto own = openFile("/", O_PATH | O_DIRECTORY);
    if (!isInOtherNamespace(pid, NamespaceKind::mount)) {
        return own;
    }
    auto theirs = openFile(cat("/proc/", pid, "/root"), O_PATH | O_DIRECTORY);
    if (!isSameFile(statusOf(own.get(), "/"), statusOf(theirs.get(), "the container's /"))) {
        throw Error("The container has its own root directory already",
                    "Hooks that change the root filesystem support the stages prestart, createRuntime and "
                    "createContainer");
    }
    return theirs;
}

bool isInitialUserNamespace() {
    const auto map = splitWords(readFile("/proc/self/uid_map", 1U << 16U));
    return map == std::vector<std::string>{"0", "0", "4294967295"};
}

}  // namespace sarus::hooks
