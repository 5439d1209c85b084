#include "starter/system_calls.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <string_view>

#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "starter/entry/entry.hpp"

#ifndef BLKGETDISKSEQ
#define BLKGETDISKSEQ _IOR(0x12, 128, __u64)
#endif

extern "C" {
int __real_mount(const char* source, const char* target, const char* type, unsigned long flags,
                 const void* data);
int __real_umount2(const char* target, int flags);
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
int __real_mkdirat(int directory, const char* name, mode_t mode);
int __real_mknodat(int directory, const char* name, mode_t mode, dev_t number);
int __real_fchownat(int directory, const char* name, uid_t user, gid_t group, int flags);
int __real_fchown(int fd, uid_t user, gid_t group);
int __real_fchmodat(int directory, const char* name, mode_t mode, int flags);
int __real_unlinkat(int directory, const char* name, int flags);
int __real_ioctl(int fd, unsigned long request, void* argument);
int __real_open64(const char* path, int flags, mode_t mode);
int __real_openat64(int directory, const char* path, int flags, mode_t mode);
int __real_fstat64(int fd, struct stat* status);
int __real_setresuid(uid_t real, uid_t effective, uid_t saved);
int __real_setresgid(gid_t real, gid_t effective, gid_t saved);
uid_t __real_getuid();
gid_t __real_getgid();
int __real_setxattr(const char* path, const char* name, const void* value, std::size_t size, int flags);
int __real_unshare(int flags);
}

namespace sarus::test {

SystemCalls* SystemCalls::active = nullptr;

namespace {

constexpr unsigned loopControl = ~0U;

struct Flag {
    unsigned long bit;
    std::string_view name;
};

template <std::size_t count>
std::string textOf(unsigned long flags, const std::array<Flag, count>& names) {
    std::string text;
    for (const auto& [bit, name] : names) {
        if ((flags & bit) != 0) {
            text += cat(text.empty() ? "" : ",", name);
        }
    }
    return text;
}

std::string mountFlags(unsigned long flags) {
    return textOf<10>(flags, {{{MS_REMOUNT, "remount"},
                               {MS_BIND, "bind"},
                               {MS_REC, "recursive"},
                               {MS_RDONLY, "ro"},
                               {MS_NOSUID, "nosuid"},
                               {MS_NODEV, "nodev"},
                               {MS_NOEXEC, "noexec"},
                               {MS_SLAVE, "slave"},
                               {MS_PRIVATE, "private"},
                               {MS_UNBINDABLE, "unbindable"}}});
}

std::string attributes(unsigned long set) {
    return textOf<4>(set, {{{MOUNT_ATTR_RDONLY, "ro"},
                            {MOUNT_ATTR_NOSUID, "nosuid"},
                            {MOUNT_ATTR_NODEV, "nodev"},
                            {MOUNT_ATTR_NOEXEC, "noexec"}}});
}

std::pair<dev_t, ino_t> fileOf(int fd) {
    struct stat status {};
    return __real_fstat64(fd, &status) == 0 ? std::pair(status.st_dev, status.st_ino)
                                            : std::pair<dev_t, ino_t>();
}

}  // namespace

SystemCalls::SystemCalls(std::string directory)
    : root(std::move(directory)), workingDirectory(__real_open64(".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0)) {
    active = this;
}

SystemCalls::~SystemCalls() {
    active = nullptr;
    EXPECT_EQ(::fchdir(workingDirectory.get()), 0);
}

bool SystemCalls::isRefused(const std::string& text) {
    const auto index = calls.size();
    calls.push_back(text);
    if (refusedAt && refusedAt->first == index) {
        errno = refusedAt->second;
        return true;
    }
    for (const auto& [beginning, error] : refused) {
        if (text.starts_with(beginning)) {
            errno = error;
            return true;
        }
    }
    return false;
}

std::string SystemCalls::nameOf(std::string path) const {
    constexpr std::string_view memory = "/memfd:";
    if (path.starts_with("/proc/self/fd/")) {
        std::array<char, 4096> target{};
        const auto length = ::readlink(path.c_str(), target.data(), target.size());
        path.assign(target.data(), length < 0 ? 0 : static_cast<std::size_t>(length));
    }
    if (path.starts_with(memory)) {
        return path.substr(memory.size(), path.find(' ') - memory.size());
    }
    return path.starts_with(root + '/') ? path.substr(root.size() + 1) : path;
}

std::string SystemCalls::nameOf(int directory, const char* name) const {
    if (directory == AT_FDCWD || *name == '/') {
        return nameOf(std::string(name));
    }
    const auto above = nameOf(descriptorPath(directory));
    return *name == '\0' ? above : cat(above, '/', name);
}

int SystemCalls::mount(const char* source, const char* target, const char* type, unsigned long flags,
                       const char* data) {
    const auto shown = nameOf(std::string(target));
    const auto options = cat(mountFlags(flags), data != nullptr && *data != '\0' ? cat(';', data) : "");
    const auto what = type != nullptr     ? std::string(type)
                      : source != nullptr ? nameOf(std::string(source))
                                          : "-";
    if (isRefused(cat("mount ", what, " on ", shown, " (", options, ")"))) {
        return -1;
    }
    if (source != nullptr) {
        mounts.push_back(shown);
    }
    return 0;
}

int SystemCalls::unmount(const char* target) {
    const auto shown = nameOf(std::string(target));
    if (isRefused(cat("umount ", shown))) {
        return -1;
    }
    std::erase(mounts, shown);
    return 0;
}

int SystemCalls::openTree(int source) {
    return isRefused(cat("open_tree ", nameOf(source, ""))) ? -1 : ::fcntl(source, F_DUPFD_CLOEXEC, 0);
}

int SystemCalls::setMountAttributes(const std::string& target, unsigned long set) {
    return isRefused(cat("mount_setattr ", nameOf(target), " (", attributes(set), ")")) ? -1 : 0;
}

int SystemCalls::moveMount(int from, int to) {
    const auto target = nameOf(to, "");
    if (isRefused(cat("move_mount ", nameOf(from, ""), " on ", target))) {
        return -1;
    }
    mounts.push_back(target);
    return 0;
}

/// An ordinary file stands for the node.
int SystemCalls::makeNode(int directory, const char* name, mode_t mode, dev_t number) {
    const char type = S_ISBLK(mode) ? 'b' : S_ISCHR(mode) ? 'c' : 'p';
    if (isRefused(
            cat("mknod ", nameOf(directory, name), ' ', type, ' ', major(number), ':', minor(number)))) {
        return -1;
    }
    return __real_mknodat(directory, name, S_IFREG | (mode & 07777U), 0);
}

/// A file in memory stands for the device.
int SystemCalls::openLoop(const std::string& name, unsigned number) {
    if (isRefused(cat("open /dev/", name))) {
        return -1;
    }
    if (!loopNodes.contains(number)) {
        loopNodes[number] = UniqueFd(::memfd_create(name.c_str(), MFD_CLOEXEC));
    }
    return ::fcntl(loopNodes[number].get(), F_DUPFD_CLOEXEC, 0);
}

int SystemCalls::open(const std::string& path, int flags, mode_t mode) {
    constexpr std::string_view loop = "/dev/loop";
    if (path == "/dev/loop-control") {
        return openLoop("loop-control", loopControl);
    }
    if (path.starts_with(loop)) {
        return openLoop(path.substr(5), static_cast<unsigned>(parseNumber(path.substr(loop.size())).value()));
    }
    for (const std::string_view own :
         {"/", "/proc/self/setgroups", "/proc/self/uid_map", "/proc/self/gid_map"}) {
        if (path == own) {
            return __real_open64(cat(root, "/host", path).c_str(), flags, mode);
        }
    }
    return ordinaryFile;
}

std::optional<unsigned> SystemCalls::loopOf(int fd) const {
    const auto found = std::find_if(loopNodes.begin(), loopNodes.end(), [&](const auto& node) {
        return fileOf(node.second.get()) == fileOf(fd);
    });
    return found == loopNodes.end() ? std::nullopt : std::optional(found->first);
}

void SystemCalls::show(int fd, struct stat& status) const {
    if (const auto number = loopOf(fd)) {
        status.st_mode = S_IFBLK | 0660;
        status.st_rdev = makedev(7, *number);
    }
    if (status.st_uid == __real_getuid()) {
        status.st_uid = 0;
    }
}

int SystemCalls::bindLoop(unsigned number, int image, unsigned flags) {
    loops[number] = {
        .image = UniqueFd(::fcntl(image, F_DUPFD_CLOEXEC, 0)), .sequence = ++sequences, .flags = flags};
    return 0;
}

int SystemCalls::control(int fd, unsigned long request, void* argument) {
    if (request == FS_IOC_MEASURE_VERITY && !verity.empty()) {
        auto* const digest = static_cast<fsverity_digest*>(argument);
        digest->digest_algorithm = FS_VERITY_HASH_ALG_SHA256;
        std::copy(verity.begin(), verity.end(), digest->digest);
        return 0;
    }
    const auto found = loopOf(fd);
    if (!found) {
        return __real_ioctl(fd, request, argument);
    }
    const auto number = *found;
    const auto name = nameOf(fd, "");
    const auto bound = loops.find(number);
    switch (request) {
        case LOOP_CTL_GET_FREE: {
            unsigned unused = 0;
            while (loops.contains(unused)) {
                ++unused;
            }
            return isRefused("LOOP_CTL_GET_FREE") ? -1 : static_cast<int>(unused);
        }
        case LOOP_CONFIGURE: {
            const auto& config = *static_cast<loop_config*>(argument);
            return isRefused(cat("LOOP_CONFIGURE ", name))
                       ? -1
                       : bindLoop(number, static_cast<int>(config.fd), config.info.lo_flags);
        }
        case LOOP_SET_FD:
            return isRefused(cat("LOOP_SET_FD ", name))
                       ? -1
                       : bindLoop(number, static_cast<int>(reinterpret_cast<std::intptr_t>(argument)),
                                  LO_FLAGS_READ_ONLY);
        case LOOP_SET_STATUS64:
            if (isRefused(cat("LOOP_SET_STATUS64 ", name))) {
                return -1;
            }
            bound->second.flags |= static_cast<loop_info64*>(argument)->lo_flags;
            return 0;
        case LOOP_CLR_FD:
            loops.erase(bound);
            return isRefused(cat("LOOP_CLR_FD ", name)) ? -1 : 0;
        default:
            break;
    }
    if (isRefused(cat(request == BLKGETDISKSEQ  ? "BLKGETDISKSEQ "
                      : request == BLKGETSIZE64 ? "BLKGETSIZE64 "
                                                : "LOOP_GET_STATUS64 ",
                      name))) {
        return -1;
    }
    struct stat image {};
    if (bound == loops.end() || __real_fstat64(bound->second.image.get(), &image) != 0) {
        errno = ENXIO;
        return -1;
    }
    if (request == BLKGETDISKSEQ) {
        *static_cast<std::uint64_t*>(argument) = bound->second.sequence;
    } else if (request == BLKGETSIZE64) {
        *static_cast<std::uint64_t*>(argument) = static_cast<std::uint64_t>(image.st_size) / 512 * 512;
    } else {
        auto& info = *static_cast<loop_info64*>(argument);
        info.lo_device = image.st_dev;
        info.lo_inode = image.st_ino;
        info.lo_flags = bound->second.flags;
    }
    return 0;
}

void failEachCall(
    const std::function<std::string()>& prepare, const std::function<void()>& work,
    const std::function<void(const std::string& call, const Error* error, const SystemCalls& calls)>& check) {
    std::vector<std::string> expected;
    for (std::size_t index = 0; index == 0 || index <= expected.size(); ++index) {  // 0: nothing fails
        const auto directory = prepare();
        const auto before = starter::openDescriptors();
        {
            SystemCalls calls(directory);
            std::optional<Error> thrown;
            if (index > 0) {
                calls.refuseAt(index - 1, EIO);
            }
            try {
                work();
            } catch (const Error& error) {
                thrown = error;
            }
            EXPECT_TRUE(calls.isRoot());
            if (index == 0) {
                expected = calls.made();
                ASSERT_FALSE(thrown) << thrown->what();
                continue;
            }
            const auto& call = expected[index - 1];
            SCOPED_TRACE(cat("refused: ", call));
            ASSERT_GE(calls.made().size(), index);
            EXPECT_EQ(calls.made()[index - 1], call);
            check(call, thrown ? &*thrown : nullptr, calls);
        }
        EXPECT_EQ(starter::openDescriptors(), before) << "after the refusal of " << expected[index - 1];
    }
}

}  // namespace sarus::test

using sarus::cat;
using sarus::test::SystemCalls;

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): names of the linker
extern "C" {

int __wrap_mount(const char* source, const char* target, const char* type, unsigned long flags,
                 const void* data) {
    auto* const calls = SystemCalls::active;
    return calls != nullptr ? calls->mount(source, target, type, flags, static_cast<const char*>(data))
                            : __real_mount(source, target, type, flags, data);
}

int __wrap_umount2(const char* target, int flags) {
    return SystemCalls::active != nullptr ? SystemCalls::active->unmount(target)
                                          : __real_umount2(target, flags);
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
    if (auto* const calls = SystemCalls::active) {
        switch (number) {
            case SYS_open_tree:
                return calls->openTree(static_cast<int>(a));
            case SYS_move_mount:
                return calls->moveMount(static_cast<int>(a), static_cast<int>(c));
            case SYS_mount_setattr: {
                const auto* const path = reinterpret_cast<const char*>(b);
                const auto target =
                    *path == '\0' ? sarus::descriptorPath(static_cast<int>(a)) : std::string(path);
                return calls->setMountAttributes(target, reinterpret_cast<const mount_attr*>(d)->attr_set);
            }
            default:
                break;
        }
    }
    return __real_syscall(number, a, b, c, d, e, f);
}

int __wrap_mkdirat(int directory, const char* name, mode_t mode) {
    auto* const calls = SystemCalls::active;
    return calls != nullptr && calls->isRefused(cat("mkdir ", calls->nameOf(directory, name)))
               ? -1
               : __real_mkdirat(directory, name, mode);
}

int __wrap_mknodat(int directory, const char* name, mode_t mode, dev_t number) {
    return SystemCalls::active != nullptr ? SystemCalls::active->makeNode(directory, name, mode, number)
                                          : __real_mknodat(directory, name, mode, number);
}

int __wrap_fchownat(int directory, const char* name, uid_t user, gid_t group, int flags) {
    auto* const calls = SystemCalls::active;
    if (calls == nullptr) {
        return __real_fchownat(directory, name, user, group, flags);
    }
    return calls->isRefused(cat("chown ", calls->nameOf(directory, name), ' ', user, ':', group)) ? -1 : 0;
}

int __wrap_fchown(int fd, uid_t user, gid_t group) {
    return SystemCalls::active != nullptr ? __wrap_fchownat(fd, "", user, group, 0)
                                          : __real_fchown(fd, user, group);
}

int __wrap_fchmodat(int directory, const char* name, mode_t mode, int flags) {
    auto* const calls = SystemCalls::active;
    return calls != nullptr && calls->isRefused(cat("chmod ", calls->nameOf(directory, name)))
               ? -1
               : __real_fchmodat(directory, name, mode, flags);
}

int __wrap_unlinkat(int directory, const char* name, int flags) {
    auto* const calls = SystemCalls::active;
    return calls != nullptr && calls->isRefused(cat("unlink ", calls->nameOf(directory, name)))
               ? -1
               : __real_unlinkat(directory, name, flags);
}

int __wrap_ioctl(int fd, unsigned long request, void* argument) {
    return SystemCalls::active != nullptr ? SystemCalls::active->control(fd, request, argument)
                                          : __real_ioctl(fd, request, argument);
}

int __wrap_open64(const char* path, int flags, mode_t mode) {
    auto* const calls = SystemCalls::active;
    const int fd = calls != nullptr ? calls->open(path, flags, mode) : SystemCalls::ordinaryFile;
    return fd == SystemCalls::ordinaryFile ? __real_open64(path, flags, mode) : fd;
}

int __wrap_openat64(int directory, const char* path, int flags, mode_t mode) {
    auto* const calls = SystemCalls::active;
    const int fd = calls != nullptr ? calls->open(path, flags, mode) : SystemCalls::ordinaryFile;
    return fd == SystemCalls::ordinaryFile ? __real_openat64(directory, path, flags, mode) : fd;
}

int __wrap_fstat64(int fd, struct stat* status) {
    const int result = __real_fstat64(fd, status);
    if (result == 0 && SystemCalls::active != nullptr) {
        SystemCalls::active->show(fd, *status);
    }
    return result;
}

int __wrap_setresuid(uid_t real, uid_t effective, uid_t saved) {
    if (SystemCalls::active == nullptr) {
        return __real_setresuid(real, effective, saved);
    }
    SystemCalls::active->become(effective);
    return 0;
}

int __wrap_setresgid(gid_t real, gid_t effective, gid_t saved) {
    return SystemCalls::active != nullptr ? 0 : __real_setresgid(real, effective, saved);
}

uid_t __wrap_getuid() {
    return SystemCalls::active != nullptr ? 1000 : __real_getuid();
}

gid_t __wrap_getgid() {
    return SystemCalls::active != nullptr ? 100 : __real_getgid();
}

int __wrap_setxattr(const char* path, const char* name, const void* value, std::size_t size, int flags) {
    auto* const calls = SystemCalls::active;
    if (calls == nullptr) {
        return __real_setxattr(path, name, value, size, flags);
    }
    return calls->isRefused(cat("setxattr ", calls->nameOf(AT_FDCWD, path), ' ', name)) ? -1 : 0;
}

int __wrap_unshare(int flags) {
    auto* const calls = SystemCalls::active;
    if (calls == nullptr) {
        return __real_unshare(flags);
    }
    return calls->isRefused(cat("unshare ", (flags & CLONE_NEWUSER) != 0 ? "user" : "mount", " namespace"))
               ? -1
               : 0;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
