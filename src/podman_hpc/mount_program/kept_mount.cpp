#include "podman_hpc/mount_program/kept_mount.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <functional>
#include <utility>
#include <vector>

#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/mount_table.hpp"
#include "base/process_tree.hpp"
#include "base/text.hpp"
#include "podman_hpc/mount_program/server.hpp"
#include "served_image/server.hpp"
#include "served_image/shared_mount.hpp"

namespace sarus::podman_hpc {

namespace {

/// Descriptors of a keeper.
enum Kept : int { keptDirectory = 3, keptFile, keptServer, usedTree };

unsigned secondsToKeep() {
    constexpr unsigned usual = 60;
    const auto seconds = parseNumber(hostVariable("PODMANHPC_MOUNT_KEEP").value_or(""));
    return seconds && *seconds < 86400 ? static_cast<unsigned>(*seconds) : usual;
}

/// Podman waits for the end of its pipes, and nobody for this process. The descriptors become 3, 4, ...
bool keepOnly(std::vector<int> kept) {
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    kept.insert(kept.begin(), {null, null, null});
    return arrangeDescriptors(std::move(kept)) && ::setsid() > 0;
}

/// Equal positions are compared again.
off_t positionOf(const struct stat& status) {
    struct stat user {};
    checkErrno(::stat("/proc/self/ns/user", &user), "Failed to examine the user namespace");
    constexpr std::size_t greatest = std::size_t{LLONG_MAX} >> 1U;
    return static_cast<off_t>(std::hash<std::string>()(cat(fileVersion(status), '\n', user.st_ino, '\n',
                                                           readFile("/proc/self/cgroup", 64U << 10U))) &
                              greatest);
}

struct flock lockAt(off_t position, short type) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = position;
    lock.l_len = 1;
    return lock;
}

bool hasFile(int process, int file) {
    struct stat theirs {};
    struct stat own {};
    return ::fstatat(process, cat("fd/", int{keptFile}).c_str(), &theirs, 0) == 0 &&
           ::fstat(file, &own) == 0 && fileVersion(theirs) == fileVersion(own);
}

bool serverRuns(int process) {
    const UniqueFd info(::openat(process, cat("fdinfo/", int{keptServer}).c_str(), O_RDONLY | O_CLOEXEC));
    constexpr std::size_t limit = 4096;
    for (const auto& line : split(info ? readAll(info.get(), limit, "fdinfo") : "", '\n')) {
        constexpr std::string_view name = "Pid:";
        const auto pid = parseNumber(line.starts_with(name) ? trim(line.substr(name.size())) : "");
        if (pid && *pid > 0 && *pid <= INT_MAX) {
            return served_image::canAnswer(Process(static_cast<pid_t>(*pid)));
        }
    }
    return false;
}

/// Whether its mount namespace is that of a keeper.
bool hasOnlyFuseMount(int process) {
    const auto file = openFileAt(process, "mountinfo", O_RDONLY);
    const auto mounts = parseMountTable(readAll(file.get(), 1U << 20U, "mountinfo"));
    return mounts.size() == 1 && mounts.front().type.starts_with("fuse.");
}

}  // namespace

void keepMount(const UniqueFd& directory) {
    const auto seconds = secondsToKeep();
    if (seconds != 0 && ::fork() == 0) {
        if (keepOnly({directory.get()}) && ::chdir("/") == 0) {
            ::sleep(seconds);
        }
        ::_exit(0);
    }
}

std::optional<SharedServer> SharedServer::find(const SquashLayer& layer, const std::string& directory) {
    if (secondsToKeep() == 0 || served_image::hasTimeLimit() || nonEmptyHostVariable("SQUASHFUSE_BIN")) {
        return std::nullopt;
    }
    struct stat status {};
    SharedServer shared;
    shared.directory.reset(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    shared.file = layer.file.get();
    if (!shared.directory || ::fstat(shared.file, &status) != 0) {
        return std::nullopt;
    }
    shared.position = positionOf(status);
    return shared;
}

pid_t SharedServer::keeper() const {
    auto lock = lockAt(position, F_WRLCK);
    return ::fcntl(directory.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? lock.l_pid : 0;
}

UniqueFd SharedServer::join() const try {
    const pid_t pid = keeper();
    if (pid <= 0) {
        return UniqueFd();
    }
    const auto process = openFile(cat("/proc/", pid), O_PATH | O_DIRECTORY);
    // In this order: a process with the lock has the directory.
    if (keeper() != pid || !hasFile(process.get(), file) || !serverRuns(process.get()) ||
        !hasOnlyFuseMount(process.get())) {
        return UniqueFd();
    }
    const auto theirs = openFileAt(process.get(), "ns/mnt", O_RDONLY);
    const auto root = openFileAt(process.get(), "root", O_PATH | O_DIRECTORY);
    auto tree = served_image::copyMount(theirs.get(), root.get());
    return served_image::askServer(tree.get(), patienceWithServers()) == served_image::Answer::yes
               ? std::move(tree)
               : UniqueFd();
} catch (const Error&) {
    return UniqueFd();  // costs a server of its own
}

void SharedServer::keep(const UniqueFd& tree, pid_t server) const {
    if (::fork() == 0) {
        becomeKeeper(tree, server);
        ::_exit(0);
    }
}

void SharedServer::becomeKeeper(const UniqueFd& tree, pid_t server) const {
    const UniqueFd serverFd(static_cast<int>(::syscall(SYS_pidfd_open, server, 0)));
    if (!serverFd || !keepOnly({directory.get(), file, serverFd.get(), tree.get()}) ||
        ::fchdir(keptDirectory) != 0 || ::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0 ||
        ::syscall(SYS_move_mount, usedTree, "", AT_FDCWD, ".", MOVE_MOUNT_F_EMPTY_PATH) != 0 ||
        ::fchdir(usedTree) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0 ||
        ::umount2(".", MNT_DETACH) != 0 || ::chdir("/") != 0) {
        return;
    }
    closeRange(usedTree);
    auto lock = lockAt(position, F_RDLCK);
    if (::fcntl(keptDirectory, F_SETLK, &lock) != 0) {
        return;
    }
    lock.l_type = F_WRLCK;
    if (::fcntl(keptDirectory, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK) {  // no other one
        pollfd end{.fd = keptServer, .events = POLLIN, .revents = 0};
        ::poll(&end, 1, static_cast<int>(secondsToKeep()) * 1000);
    }
}

}  // namespace sarus::podman_hpc
