#include "podman_hpc/mount_program/kept_mount.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <functional>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/process_tree.hpp"
#include "base/text.hpp"
#include "podman_hpc/mount_program/server.hpp"

namespace sarus::podman_hpc {

namespace {

/// Descriptors of a keeper.
enum Kept : int { keptDirectory = 3, keptFile, keptServer, usedTree };

unsigned secondsToKeep() {
    constexpr unsigned usual = 60;
    const char* text = std::getenv("PODMANHPC_MOUNT_KEEP");
    const auto seconds = parseNumber(text == nullptr ? "" : text);
    return seconds && *seconds < 86400 ? static_cast<unsigned>(*seconds) : usual;
}

bool closeFrom(int first) {
    return ::syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U) == 0;
}

/// Podman waits for the end of its pipes, and nobody for this process. The descriptors become 3, 4, ...
bool letGoOfEverythingElse(std::vector<int> kept) {
    constexpr int outOfTheWay = 64;
    for (int& source : kept) {
        source = ::fcntl(source, F_DUPFD, outOfTheWay);
    }
    const int null = ::open("/dev/null", O_RDWR);
    kept.insert(kept.begin(), {null, null, null});
    for (std::size_t target = 0; target < kept.size(); ++target) {
        if (kept[target] < 0 || ::dup2(kept[target], static_cast<int>(target)) < 0) {
            return false;
        }
    }
    return closeFrom(static_cast<int>(kept.size())) && ::setsid() > 0;
}

/// The server would spend the processor time of one container for all of them, until the kernel ends it.
bool hasTimeLimit() {
    rlimit limit{};
    return ::getrlimit(RLIMIT_CPU, &limit) != 0 || limit.rlim_max != RLIM_INFINITY;
}

/// What changes with the file's content.
std::string versionOf(const struct stat& status) {
    return cat(status.st_dev, ' ', status.st_ino, ' ', status.st_size, ' ', status.st_mtim.tv_sec, ' ',
               status.st_mtim.tv_nsec, ' ', status.st_ctim.tv_sec, ' ', status.st_ctim.tv_nsec);
}

/// Equal positions are compared again.
off_t positionOf(const struct stat& status) {
    struct stat user {};
    checkErrno(::stat("/proc/self/ns/user", &user), "Failed to examine the user namespace");
    constexpr std::size_t greatest = std::size_t{LLONG_MAX} >> 1U;
    return static_cast<off_t>(std::hash<std::string>()(cat(versionOf(status), '\n', user.st_ino, '\n',
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
           ::fstat(file, &own) == 0 && versionOf(theirs) == versionOf(own);
}

/// A detached copy of the root of another mount namespace. Empty if that cannot be entered.
UniqueFd copyRoot(int mountNamespace) {
    const auto home = openFile("/proc/self/ns/mnt", O_RDONLY);
    const auto here = openFile(".", O_PATH | O_DIRECTORY);
    if (::setns(mountNamespace, CLONE_NEWNS) != 0) {
        return UniqueFd();
    }
    UniqueFd tree(
        static_cast<int>(::syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
    checkErrno(::setns(home.get(), CLONE_NEWNS), "Failed to return to Podman's mount namespace");
    checkErrno(::fchdir(here.get()), "Failed to return to Podman's directory");
    return tree;
}

/// Neither stopped nor ended.
bool serverRuns(int process) {
    const UniqueFd info(::openat(process, cat("fdinfo/", int{keptServer}).c_str(), O_RDONLY | O_CLOEXEC));
    constexpr std::size_t limit = 4096;
    for (const auto& line : split(info ? readAll(info.get(), limit, "fdinfo") : "", '\n')) {
        constexpr std::string_view name = "Pid:";
        const auto pid = parseNumber(line.starts_with(name) ? trim(line.substr(name.size())) : "");
        if (pid && *pid > 0 && *pid <= INT_MAX) {
            const char state = Process(static_cast<pid_t>(*pid)).state();
            return state != '\0' && std::string_view("TtZX").find(state) == std::string_view::npos;
        }
    }
    return false;
}

/// A dead connection answers at once. If a server does not, now or in what follows, only a deadly signal
/// wakes this process.
bool answers(int mount) {
    struct statfs status {};
    ::alarm(static_cast<unsigned>(patienceInSeconds()));
    return ::fstatfs(mount, &status) == 0 && status.f_type == FUSE_SUPER_MAGIC;
}

}  // namespace

void keepMount(const UniqueFd& directory) {
    const auto seconds = secondsToKeep();
    if (seconds != 0 && ::fork() == 0) {
        if (letGoOfEverythingElse({directory.get()}) && ::chdir("/") == 0) {
            ::sleep(seconds);
        }
        ::_exit(0);
    }
}

std::optional<SharedServer> SharedServer::find(const SquashLayer& layer, const std::string& directory) {
    const char* named = std::getenv("SQUASHFUSE_BIN");
    if (secondsToKeep() == 0 || hasTimeLimit() || (named != nullptr && *named != '\0')) {
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

UniqueFd SharedServer::join() const {
    const pid_t pid = keeper();
    if (pid <= 0) {
        return UniqueFd();
    }
    const UniqueFd process(::open(cat("/proc/", pid).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    // In this order: a process with the lock has the directory.
    if (!process || keeper() != pid || !hasFile(process.get(), file) || !serverRuns(process.get())) {
        return UniqueFd();
    }
    const UniqueFd theirs(::openat(process.get(), "ns/mnt", O_RDONLY | O_CLOEXEC));
    auto tree = theirs ? copyRoot(theirs.get()) : UniqueFd();
    return tree && answers(tree.get()) ? std::move(tree) : UniqueFd();
}

void SharedServer::keep(const UniqueFd& tree, pid_t server) const {
    if (::fork() == 0) {
        becomeKeeper(tree, server);
        ::_exit(0);
    }
}

void SharedServer::becomeKeeper(const UniqueFd& tree, pid_t server) const {
    const UniqueFd serverFd(static_cast<int>(::syscall(SYS_pidfd_open, server, 0)));
    if (!serverFd || !letGoOfEverythingElse({directory.get(), file, serverFd.get(), tree.get()}) ||
        ::fchdir(keptDirectory) != 0 || ::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0 ||
        ::syscall(SYS_move_mount, usedTree, "", AT_FDCWD, ".", MOVE_MOUNT_F_EMPTY_PATH) != 0 ||
        ::fchdir(usedTree) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0 ||
        ::umount2(".", MNT_DETACH) != 0 || ::chdir("/") != 0 || !closeFrom(usedTree)) {
        return;
    }
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
