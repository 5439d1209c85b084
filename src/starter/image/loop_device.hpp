#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace sarus::starter {

struct LoopMountOptions {
    /// Stores which loop device holds which image. Created if missing; must belong to root alone.
    std::string registryDir = "/run/sarus/loop";
    /// How long to wait for the lock of a hint before trying the next one. After the last one, the starter
    /// uses a device of its own.
    std::chrono::milliseconds lockTimeout{500};
    /// SELinux label of all files of the image. Mounts with different labels do not share a device.
    std::optional<std::string> label = std::nullopt;
};

/// Mounts a squashfs image through the kernel: read-only, nosuid, nodev, on the directory `target`.
///
/// Containers of the same file on a node share one loop device, and so one superblock with its caches. A hint
/// below `registryDir`, named after device, inode, size and times of the file, holds the number of the last
/// device used. It counts only if the kernel confirms that this device still holds the same file in the same
/// way. Only binding a device takes a lock. The kernel's reference counts detach the device after the last
/// unmount. A kill at any point leaves at most an outdated hint; when many hints accumulate, the outdated
/// ones are removed.
///
/// Requires root in all ids. Blocks all signals meanwhile, so that no signal from the user stops the holder
/// of a lock. (The freezer of a delegated cgroup can, hence the timeout.) Throws Error if the image is not a
/// sound squashfs, the kernel lacks its compression, or there is no loop device.
void mountThroughLoopDevice(int imageFd, const std::string& imagePath, const std::string& target,
                            const LoopMountOptions& options = {});

}  // namespace sarus::starter
