#include "starter/loop_device.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "starter/selinux.hpp"
#include "starter/squashfs_superblock.hpp"

namespace sarus::starter {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view subsystem = "LoopDevice";
constexpr unsigned loopMajor = 7;
constexpr auto loopFlags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR;
constexpr std::string_view freeDeviceHint =
    "free loop devices that are not in use (losetup --list), or set \"imageMount\" to \"fuse\" in sarus.json";

void pause(std::chrono::microseconds duration) {
    std::this_thread::sleep_for(duration);
}

/// No handler and no default action may end the process while it holds a lock that all starters of the node wait for.
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

struct stat statusOf(int imageFd, const std::string& imagePath) {
    struct stat status {};
    checkErrno(::fstat(imageFd, &status), cat("Failed to inspect image ", printable(imagePath)));
    return status;
}

/// The name of the hint: whatever changes the content of the file changes one of these.
std::string hintName(const struct stat& image) {
    return cat(static_cast<std::uint64_t>(image.st_dev), '-', static_cast<std::uint64_t>(image.st_ino), '-',
               static_cast<std::int64_t>(image.st_size), '-', image.st_mtim.tv_sec, '.', image.st_mtim.tv_nsec, '-',
               image.st_ctim.tv_sec, '.', image.st_ctim.tv_nsec);
}

/// Whether only root can put something else in place of what is in the directory.
bool isRootsAlone(int directory) {
    struct stat status {};
    return ::fstat(directory, &status) == 0 && status.st_uid == 0 &&
           ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (status.st_mode & S_ISVTX) != 0);
}

/// mkdir -p of the registry, none of whose components may be anybody's but root's. Empty if that is not so.
UniqueFd openRegistry(const std::string& path) {
    UniqueFd directory(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto components = split(path, '/');
    for (std::size_t i = 0; i < components.size() && directory; ++i) {
        if (components[i].empty()) {
            continue;
        }
        const mode_t mode = i + 1 == components.size() ? 0700 : 0755;
        const auto* const name = components[i].c_str();
        UniqueFd next(::openat(directory.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!next && errno == ENOENT && (::mkdirat(directory.get(), name, mode) == 0 || errno == EEXIST)) {
            next.reset(::openat(directory.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        }
        directory = next && isRootsAlone(next.get()) ? std::move(next) : UniqueFd();
    }
    struct stat status {};
    if (!directory || ::fstat(directory.get(), &status) != 0 || status.st_uid != 0 || (status.st_mode & 077) != 0) {
        logInfo(subsystem, cat("no registry of loop devices at ", path, ": they are not shared"));
        return UniqueFd();
    }
    return directory;
}

/// The hint for one image, locked.
class Hint {
public:
    /// The devices which the hints for this image name, read without a lock: whoever stops while he holds one keeps nobody from
    /// sharing what is bound already.
    static std::vector<unsigned> devices(const UniqueFd& registry, const std::string& name) {
        std::vector<unsigned> found;
        for (int slot = 0; registry && slot < slots; ++slot) {
            const UniqueFd file(::openat(registry.get(), slotName(name, slot).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
            if (!file) {
                break;
            }
            if (const auto number = readDevice(file.get())) {
                found.push_back(*number);
            }
        }
        return found;
    }

    /// An empty optional if there is no registry or others keep all locks. Where the owner of a lock does not go on within the
    /// time (because his job is suspended), all others meet at the next one, instead of taking a device each.
    static std::optional<Hint> lock(UniqueFd registry, const std::string& name, std::chrono::milliseconds timeout) {
        for (int slot = 0; registry && slot < slots; ++slot) {
            const auto end = Clock::now() + timeout;
            for (;;) {
                UniqueFd file(
                    ::openat(registry.get(), slotName(name, slot).c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
                if (!file || !lockUntil(file.get(), end)) {
                    break;
                }
                struct stat status {};
                if (::fstat(file.get(), &status) == 0 && status.st_nlink > 0) {  // 0: swept between the open and the lock
                    return Hint(std::move(registry), std::move(file));
                }
            }
        }
        logInfo(subsystem, "the loop device of the image is locked by other processes: using one of our own");
        return std::nullopt;
    }

    std::optional<unsigned> device() const { return readDevice(file.get()); }

    /// A hint that cannot be written only costs the next starter a device of its own.
    void record(unsigned number) const {
        const std::string text = cat(number, '\n');
        if (::ftruncate(file.get(), 0) == 0) {
            [[maybe_unused]] const auto written = ::pwrite(file.get(), text.data(), text.size(), 0);
        }
    }

    /// Removes hints which nobody has written for a week. If one is still true, the next start gets a device of its own and
    /// writes it again. Once a day is enough: a node may know thousands of images, and others wait for the lock meanwhile.
    void sweepOthers() const {
        if (!isSweepDue()) {
            return;
        }
        const std::unique_ptr<DIR, CloseDir> entries(::fdopendir(::fcntl(registryDirectory.get(), F_DUPFD_CLOEXEC, 0)));
        const auto oldest = ::time(nullptr) - 7 * 24 * 3600;
        while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr) {
            struct stat status {};
            const UniqueFd old(::openat(registryDirectory.get(), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
            if (old && ::fstat(old.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_mtime < oldest &&
                ::flock(old.get(), LOCK_EX | LOCK_NB) == 0) {
                ::unlinkat(registryDirectory.get(), entry->d_name, 0);
            }
        }
    }

private:
    struct CloseDir {
        void operator()(DIR* directory) const noexcept { ::closedir(directory); }
    };

    static constexpr int slots = 4;

    static std::string slotName(const std::string& name, int slot) { return slot == 0 ? name : cat(name, '.', slot); }

    static std::optional<unsigned> readDevice(int fd) {
        std::array<char, 16> text{};
        const auto count = ::pread(fd, text.data(), text.size() - 1, 0);
        if (count <= 0) {
            return std::nullopt;
        }
        const auto number = parseNumber(trim(std::string_view(text.data(), static_cast<std::size_t>(count))));
        return number && *number < (1U << 20U) ? std::optional(static_cast<unsigned>(*number)) : std::nullopt;
    }

    Hint(UniqueFd registry, UniqueFd lockedFile) : registryDirectory(std::move(registry)), file(std::move(lockedFile)) {}

    bool isSweepDue() const {
        constexpr time_t day = 24 * 3600;
        const UniqueFd stamp(
            ::openat(registryDirectory.get(), "last-sweep", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
        struct stat status {};
        if (!stamp || ::fstat(stamp.get(), &status) != 0 || (status.st_size > 0 && status.st_mtime + day > ::time(nullptr))) {
            return false;
        }
        return ::pwrite(stamp.get(), "\n", 1, 0) == 1;
    }

    static bool lockUntil(int fd, Clock::time_point end) {
        while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK || Clock::now() >= end) {
                return false;
            }
            pause(std::chrono::microseconds(200));
        }
        return true;
    }

    UniqueFd registryDirectory;
    UniqueFd file;
};

struct LoopDevice {
    UniqueFd fd;  ///< keeps the image bound until the mount does
    unsigned number = 0;
};

UniqueFd openNode(unsigned number) {
    UniqueFd fd(::open(cat("/dev/loop", number).c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (fd && (::fstat(fd.get(), &status) != 0 || !S_ISBLK(status.st_mode) || major(status.st_rdev) != loopMajor ||
               minor(status.st_rdev) != number)) {
        errno = ENODEV;
        return UniqueFd();
    }
    return fd;
}

/// The device with this number, if it holds the image exactly as bindToFreeDevice() would have bound it.
std::optional<LoopDevice> openBound(unsigned number, const struct stat& image) {
    LoopDevice device{.fd = openNode(number), .number = number};
    // Opened first, asked then: from the open on it cannot be detached.
    loop_info64 info{};
    std::uint64_t size = 0;
    if (!device.fd || ::ioctl(device.fd.get(), LOOP_GET_STATUS64, &info) != 0 ||
        ::ioctl(device.fd.get(), BLKGETSIZE64, &size) != 0) {
        return std::nullopt;
    }
    constexpr std::uint64_t sector = 512;
    const bool same = info.lo_device == image.st_dev && info.lo_inode == image.st_ino && info.lo_offset == 0 &&
                      info.lo_sizelimit == 0 && info.lo_encrypt_type == 0 && (info.lo_flags & loopFlags) == loopFlags &&
                      (info.lo_flags & LO_FLAGS_PARTSCAN) == 0 &&
                      size == static_cast<std::uint64_t>(image.st_size) / sector * sector;
    return same ? std::optional(std::move(device)) : std::nullopt;
}

/// LOOP_CONFIGURE, or the two calls of kernels before 5.8. False with errno.
bool bind(int device, int imageFd) {
    loop_config config{};
    config.fd = static_cast<__u32>(imageFd);
    config.info.lo_flags = loopFlags;
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
    info.lo_flags = LO_FLAGS_AUTOCLEAR;  // read-only follows from how the device and the image were opened
    if (::ioctl(device, LOOP_SET_STATUS64, &info) != 0) {
        const int error = errno;
        ::ioctl(device, LOOP_CLR_FD, 0);
        errno = error;
        return false;
    }
    return true;
}

/// A device which GET_FREE has just made may not be in /dev yet.
UniqueFd openNodeWhenThere(unsigned number) {
    constexpr int attempts = 200;
    UniqueFd fd = openNode(number);
    for (int attempt = 0; !fd && errno == ENOENT && attempt < attempts; ++attempt) {
        pause(std::chrono::milliseconds(1));
        fd = openNode(number);
    }
    return fd;
}

/// Root is refused a device by nothing but the device cgroup of the job.
std::string hintFor(int error, std::string_view otherwise) {
    return std::string(error == EPERM
                           ? "the job's device cgroup denies loop devices: have the workload manager allow /dev/loop-control and "
                             "/dev/loop* in jobs, or set \"imageMount\" to \"fuse\" in sarus.json"
                           : otherwise);
}

LoopDevice bindToFreeDevice(int imageFd) {
    const UniqueFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    if (!control) {
        throw Error::fromErrno("Failed to open /dev/loop-control", errno,
                               hintFor(errno,
                                       "load the kernel's loop module (modprobe loop), or set \"imageMount\" to \"fuse\" "
                                       "in sarus.json"));
    }
    constexpr int attempts = 500;
    for (int attempt = 0; attempt < attempts; ++attempt) {
        const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
        if (number < 0) {
            throw Error::fromErrno("Failed to find a free loop device", errno, std::string(freeDeviceHint));
        }
        LoopDevice device{.fd = openNodeWhenThere(static_cast<unsigned>(number)), .number = static_cast<unsigned>(number)};
        if (device.fd && bind(device.fd.get(), imageFd)) {
            return device;
        }
        // Somebody else was faster, or is just detaching it.
        if (errno != EBUSY && errno != ENXIO) {
            throw Error::fromErrno(cat("Failed to attach the image to /dev/loop", number), errno, hintFor(errno, freeDeviceHint));
        }
        pause(std::chrono::microseconds(50 + 50 * (attempt % 8)));
    }
    throw Error("Failed to find a free loop device: all that were free were taken meanwhile", std::string(freeDeviceHint));
}

/// The options must be the same in every starter: those of the first mount hold for all that share the superblock. (Not the
/// label: the kernel refuses a second mount with another one.) Several decompressors let ranks read in parallel; kernels that
/// cannot choose answer EINVAL.
bool mountDevice(const LoopDevice& device, const std::string& target, const std::optional<std::string>& label) {
    constexpr unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV;
    const auto source = descriptorPath(device.fd.get());
    const auto mountWith = [&](const char* options) {
        return ::mount(source.c_str(), target.c_str(), "squashfs", flags, withMountLabel(options, label).c_str()) == 0;
    };
    return mountWith("threads=percpu") || (errno == EINVAL && mountWith(""));
}

[[noreturn]] void throwMountError(int error, const std::string& imagePath, const std::string& compression) {
    std::string hint;
    if (error == ENODEV) {
        hint = "the kernel has no squashfs (modprobe squashfs); or set \"imageMount\" to \"fuse\" in sarus.json";
    } else if (error == EINVAL && compression != "gzip") {
        hint = cat("the image is damaged, or the kernel cannot read squashfs compressed with ", compression,
                   ": then set \"mksquashfsOptions\" to \"-comp gzip\" in sarus.json and pull the image again");
    } else {
        hint = "the image file is damaged: remove it with 'sarus rmi' and pull it again";
    }
    throw Error::fromErrno(cat("Failed to mount image ", printable(imagePath)), error, std::move(hint));
}

}  // namespace

void mountThroughLoopDevice(int imageFd, const std::string& imagePath, const std::string& target,
                            const LoopMountOptions& options) {
    const auto superblock = readSquashfsSuperblock(imageFd, imagePath);
    const SignalBlock noSignals;
    const auto& image = superblock.file;
    const auto name = hintName(image);
    const auto share = [&](unsigned number) {
        const auto device = openBound(number, image);
        return device && mountDevice(*device, target, options.label);
    };
    auto registry = openRegistry(options.registryDir);
    const auto known = Hint::devices(registry, name);
    if (std::any_of(known.begin(), known.end(), share)) {
        return;
    }
    // Nothing is logged while it is locked: the user's end of stderr may be full.
    const auto hint = Hint::lock(std::move(registry), name, options.lockTimeout);
    if (const auto number = hint ? hint->device() : std::nullopt; number && share(*number)) {
        return;
    }
    const auto device = bindToFreeDevice(imageFd);
    if (!mountDevice(device, target, options.label)) {
        throwMountError(errno, imagePath, superblock.compression);
    }
    // A file that was changed meanwhile has another name in the registry; what this one would lead to is not known.
    if (hint && hintName(statusOf(imageFd, imagePath)) == name) {
        hint->record(device.number);
        hint->sweepOthers();
    }
}

}  // namespace sarus::starter
