#pragma once

#include <linux/loop.h>
#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace sarus::node {

/// Read-only devices, which the kernel detaches with their last user.
inline constexpr auto loopFlags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR;

struct LoopDevice {
    UniqueFd fd;  ///< keeps the image bound until the mount does
    unsigned number = 0;
};

/// Empty with errno; ENODEV if /dev/loop<number> is something else.
UniqueFd openLoopDevice(unsigned number);

/// Binds the image, which begins at `offset` of the file, to a free device, with loopFlags. Throws Error; its
/// hint ends with `alternative`: what to do without loop devices.
LoopDevice attachLoopDevice(int imageFd, std::string_view alternative, std::uint64_t offset = 0);

/// Whether the device, of which LOOP_GET_STATUS64 says `info`, has this file as attachLoopDevice() binds it.
bool hasWholeImage(const LoopDevice& device, const loop_info64& info, const struct stat& image,
                   std::uint64_t offset = 0);

/// A device that has the image, as attachLoopDevice() binds it. Asks only devices whose file has the same
/// path: a question for a file on a foreign server may never be answered.
std::optional<LoopDevice> findLoopDevice(int imageFd);

/// Mounts the squashfs image on the device, read-only, nosuid and nodev. False with errno.
/// Every starter must use the same options: those of the first mount apply to all that share the superblock.
/// (Except the label: the kernel refuses a second mount with another one.) Several decompressors let ranks
/// read in parallel; kernels without the option return EINVAL.
bool mountLoopDevice(const LoopDevice& device, const std::string& target,
                     const std::optional<std::string>& label);

}  // namespace sarus::node
