#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace sarus::starter {

struct LoopMountOptions {
    /// Hints which loop device holds which image; created if missing, must belong to root alone.
    std::string registryDir = "/run/sarus/loop";
    /// How long another starter may hold the lock of a hint before the next one is tried, and at last a device of our own used.
    std::chrono::milliseconds lockTimeout{2000};
    /// The SELinux label of all files of the image. Mounts with another one do not share a device.
    std::optional<std::string> label = std::nullopt;
};

/// Mounts a squashfs image through the kernel: read-only, nosuid, nodev, on the directory `target`.
///
/// Containers of the same file on a node share one loop device, and through it one superblock with its caches: a hint below
/// `registryDir`, named by device, inode, size and times of the file, holds the number of the device that was used last, and
/// counts only if the kernel confirms that this device still holds the same file in the same way. A lock is taken only to bind a
/// device. The kernel's reference counts detach the device after the last unmount; nothing is left after a kill at any point but
/// a hint that is no longer true.
///
/// Needs root in all ids (who holds a lock must not be stopped by the user); blocks all signals meanwhile. Throws Error: for what
/// is not a sound squashfs, for a compression which the kernel lacks, if there is no loop device.
void mountThroughLoopDevice(int imageFd, const std::string& imagePath, const std::string& target,
                            const LoopMountOptions& options = {});

}  // namespace sarus::starter
