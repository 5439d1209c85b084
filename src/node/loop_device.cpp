#include "node/loop_device.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <thread>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "node/selinux.hpp"

namespace sarus::node {

namespace {

constexpr unsigned loopMajor = 7;

/// LOOP_CONFIGURE, or two calls for kernels before 5.8. False with errno.
bool bind(int device, int imageFd, std::uint64_t offset) {
    loop_config config{};
    config.fd = static_cast<__u32>(imageFd);
    config.info.lo_flags = loopFlags;
    config.info.lo_offset = offset;
    if (::ioctl(device, LOOP_CONFIGURE, &config) == 0) {
        return true;
    }
    if (errno != EINVAL && errno != ENOTTY && errno != ENOSYS && errno != EPERM) {
        return false;
    }
    if (::ioctl(device, LOOP_SET_FD, imageFd) != 0) {
        return false;
    }
    loop_info64 info{};
    info.lo_offset = offset;
    info.lo_flags = LO_FLAGS_AUTOCLEAR;  // the open modes of device and image make it read-only
    if (::ioctl(device, LOOP_SET_STATUS64, &info) != 0) {
        const int error = errno;
        ::ioctl(device, LOOP_CLR_FD, 0);
        errno = error;
        return false;
    }
    return true;
}

/// A device that GET_FREE has just created may not be in /dev yet.
UniqueFd openNodeWhenThere(unsigned number) {
    constexpr int attempts = 200;
    UniqueFd fd = openLoopDevice(number);
    for (int attempt = 0; !fd && errno == ENOENT && attempt < attempts; ++attempt) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        fd = openLoopDevice(number);
    }
    return fd;
}

/// Only the job's device cgroup can refuse root a device.
std::string hintFor(int error, std::string_view alternative,
                    std::string_view otherwise = "free loop devices that are not in use (losetup --list)") {
    constexpr std::string_view denied =
        "the job's device cgroup denies loop devices: have the workload manager allow /dev/loop-control and "
        "/dev/loop* in jobs";
    return cat(error == EPERM ? denied : otherwise, ", or ", alternative);
}

}  // namespace

UniqueFd openLoopDevice(unsigned number) {
    UniqueFd fd(::open(cat("/dev/loop", number).c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (fd && (::fstat(fd.get(), &status) != 0 || !S_ISBLK(status.st_mode) ||
               major(status.st_rdev) != loopMajor || minor(status.st_rdev) != number)) {
        errno = ENODEV;
        return UniqueFd();
    }
    return fd;
}

LoopDevice attachLoopDevice(int imageFd, std::string_view alternative, std::uint64_t offset) {
    const UniqueFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    if (!control) {
        throw Error::fromErrno("Failed to open /dev/loop-control", errno,
                               hintFor(errno, alternative, "Load the kernel's loop module (modprobe loop)"))
            .setId("loop-devices-unavailable");
    }
    constexpr int attempts = 500;
    for (int attempt = 0; attempt < attempts; ++attempt) {
        const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
        if (number < 0) {
            throw Error::fromErrno("Failed to find a free loop device", errno, hintFor(0, alternative))
                .setId("loop-devices-unavailable");
        }
        LoopDevice device{.fd = openNodeWhenThere(static_cast<unsigned>(number)),
                          .number = static_cast<unsigned>(number)};
        if (device.fd && bind(device.fd.get(), imageFd, offset)) {
            return device;
        }
        // Another process was faster, or is just detaching it.
        if (errno != EBUSY && errno != ENXIO) {
            throw Error::fromErrno(cat("Failed to attach the image to /dev/loop", number), errno,
                                   hintFor(errno, alternative));
        }
        std::this_thread::sleep_for(std::chrono::microseconds(50 + 50 * (attempt % 8)));
    }
    throw Error("Failed to find a free loop device: all that were free were taken meanwhile",
                hintFor(0, alternative));
}

bool hasWholeImage(const LoopDevice& device, const loop_info64& info, const struct stat& image,
                   std::uint64_t offset) {
    constexpr std::uint64_t sector = 512;
    std::uint64_t size = 0;
    return info.lo_device == image.st_dev && info.lo_inode == image.st_ino && info.lo_offset == offset &&
           info.lo_sizelimit == 0 && info.lo_encrypt_type == 0 && (info.lo_flags & loopFlags) == loopFlags &&
           (info.lo_flags & LO_FLAGS_PARTSCAN) == 0 && ::ioctl(device.fd.get(), BLKGETSIZE64, &size) == 0 &&
           size == (static_cast<std::uint64_t>(image.st_size) - offset) / sector * sector;
}

std::optional<LoopDevice> findLoopDevice(int imageFd) {
    struct stat image {};
    checkErrno(::fstat(imageFd, &image), "Failed to examine the image");
    const auto file = pathOfDescriptor(imageFd);
    Directory blockDevices("/sys/block", Missing::isEmpty);
    while (const char* name = blockDevices.next()) {
        constexpr std::string_view kind = "loop";
        const auto number = parseNumber(std::string_view(name).starts_with(kind) ? name + kind.size() : "");
        const UniqueFd shown(
            number ? ::open(cat("/sys/block/", name, "/loop/backing_file").c_str(), O_RDONLY | O_CLOEXEC)
                   : -1);
        if (!shown || trim(readAll(shown.get(), PATH_MAX, name)) != file) {
            continue;
        }
        LoopDevice device{.fd = openLoopDevice(static_cast<unsigned>(*number)),
                          .number = static_cast<unsigned>(*number)};
        loop_info64 info{};
        // Open before asking: an open device cannot be detached.
        if (device.fd && ::ioctl(device.fd.get(), LOOP_GET_STATUS64, &info) == 0 &&
            hasWholeImage(device, info, image)) {
            return device;
        }
    }
    return std::nullopt;
}

bool mountLoopDevice(const LoopDevice& device, const std::string& target,
                     const std::optional<std::string>& label) {
    constexpr unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV;
    const auto source = descriptorPath(device.fd.get());
    const auto mountWith = [&](const char* options) {
        return ::mount(source.c_str(), target.c_str(), "squashfs", flags,
                       withMountLabel(options, label).c_str()) == 0;
    };
    return mountWith("threads=percpu") || (errno == EINVAL && mountWith(""));
}

}  // namespace sarus::node
