#include "starter/image/loop_device.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/path_in_root.hpp"
#include "base/pipe.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "node/loop_device.hpp"
#include "squashfs/superblock.hpp"
#include "starter/entry/entry.hpp"
#include "starter/image/loop_hints.hpp"

namespace sarus::starter {

namespace {

#ifndef BLKGETDISKSEQ
#define BLKGETDISKSEQ _IOR(0x12, 128, __u64)
#endif
constexpr std::string_view useFuse = "set \"imageMount\" to \"fuse\" in sarus.json";

/// Signals must not end the process while it holds a lock that all starters of the node wait for.
class SignalBlock {
public:
    SignalBlock() {
        sigset_t all;
        ::sigfillset(&all);
        ::sigprocmask(SIG_SETMASK, &all, &before);
    }
    SignalBlock(const SignalBlock&) = delete;
    SignalBlock& operator=(const SignalBlock&) = delete;
    ~SignalBlock() { ::sigprocmask(SIG_SETMASK, &before, nullptr); }

private:
    sigset_t before{};
};

/// 0 if the kernel does not support it.
std::uint64_t sequenceOf(int device) {
    std::uint64_t sequence = 0;
    return ::ioctl(device, BLKGETDISKSEQ, &sequence) == 0 ? sequence : 0;
}

/// Whether LOOP_GET_STATUS64 answers in time. The kernel queries the filesystem of the backing file. A
/// foreign server may never answer, and a process waiting for it cannot be killed. So a child that nobody
/// waits for asks, and it holds only the device.
bool askInTime(int device, loop_info64& info) {
    constexpr int deadlineMilliseconds = 500;
    auto [reader, writer] = makePipe();
    const pid_t child = ::fork();
    if (child == 0) {
        if (::fork() != 0) {
            ::_exit(0);
        }
        const UniqueFd host(::open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC));
        ::setns(host.get(), CLONE_NEWNS);  // the container's mounts are released when it ends
        for (const int fd : openDescriptors()) {
            if (fd != device && fd != writer.get()) {
                ::close(fd);
            }
        }
        const bool answered = ::ioctl(device, LOOP_GET_STATUS64, &info) == 0;
        ::_exit(answered && ::write(writer.get(), &info, sizeof info) == sizeof info ? 0 : 1);
    }
    writer.reset();
    while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    pollfd answer{.fd = reader.get(), .events = POLLIN, .revents = 0};
    return child > 0 && ::poll(&answer, 1, deadlineMilliseconds) == 1 &&
           ::read(reader.get(), &info, sizeof info) == sizeof info;
}

/// The device, if it holds the image exactly as node::attachLoopDevice() would have bound it.
std::optional<node::LoopDevice> openBound(const LoopBinding& known,
                                          const squashfs::SquashfsSuperblock& superblock) {
    node::LoopDevice device{.fd = node::openLoopDevice(known.number), .number = known.number};
    // Open before asking: an open device cannot be detached.
    if (!device.fd || sequenceOf(device.fd.get()) != known.sequence) {
        return std::nullopt;
    }
    const auto ask = [&](loop_info64& info) {
        // An unchanged sequence number implies that the file behind the device is on the image's own
        // filesystem.
        return known.sequence != 0 ? ::ioctl(device.fd.get(), LOOP_GET_STATUS64, &info) == 0
                                   : askInTime(device.fd.get(), info);
    };
    loop_info64 info{};
    return ask(info) && node::hasWholeImage(device, info, superblock.file, superblock.offset)
               ? std::optional(std::move(device))
               : std::nullopt;
}

[[noreturn]] void throwMountError(int error, const std::string& imagePath, const std::string& compression) {
    std::string hint;
    if (error == ENODEV) {
        hint = cat("The kernel has no squashfs (modprobe squashfs); or ", useFuse);
    } else if (error == EINVAL && compression != "gzip") {
        hint =
            cat("The image is damaged, or the kernel cannot read squashfs compressed with ", compression,
                ": then set \"mksquashfsOptions\" to \"-comp gzip\" in sarus.json and pull the image again");
    } else {
        hint = squashfs::pullAgain;
    }
    throw Error::fromErrno(cat("Failed to mount image ", printable(imagePath)), error, std::move(hint));
}

}  // namespace

void mountThroughLoopDevice(int imageFd, const std::string& imagePath, const std::string& target,
                            const LoopMountOptions& options) {
    const auto superblock = squashfs::readSquashfsSuperblock(imageFd, imagePath);
    const SignalBlock noSignals;
    const auto share = [&](const LoopBinding& known) {
        const auto device = openBound(known, superblock);
        return device && node::mountLoopDevice(*device, target, options.label);
    };
    LoopHints hints(options.registryDir, superblock.file);
    const auto known = hints.read();
    if (std::any_of(known.begin(), known.end(), share)) {
        return;
    }
    hints.lock(options.lockTimeout);  // log nothing from here on: the user's end of stderr may be full
    const auto now = hints.locked();
    if (now && std::find(known.begin(), known.end(), *now) == known.end() && share(*now)) {
        return;
    }
    const auto device = node::attachLoopDevice(imageFd, useFuse, superblock.offset);
    if (!node::mountLoopDevice(device, target, options.label)) {
        throwMountError(errno, imagePath, superblock.compression);
    }
    struct stat status {};
    if (::fstat(imageFd, &status) == 0) {
        hints.record({.number = device.number, .sequence = sequenceOf(device.fd.get())}, status);
    }
}

}  // namespace sarus::starter
