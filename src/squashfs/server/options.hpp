#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "squashfs/server/image.hpp"

namespace sarus::squashfs {

/// The command line of sarus-squashfs(1).
struct Options {
    std::string image;
    std::string mountPoint;
    int fuseFd = -1;  ///< "/dev/fd/N" as the mount point: the mount is somebody else's
    bool foreground = false;
    bool help = false;
    bool version = false;
    bool allowOther = false;
    std::optional<std::uint32_t> uid;
    std::optional<std::uint32_t> gid;
    int readyFd = -1;
    std::uint32_t threads = 0;  ///< 0: as many as suit the processors
    std::uint32_t readahead = 8;
    CacheSizes caches;
};

/// `arguments`: without the program's name. Throws Error.
Options parseOptions(std::span<char* const> arguments);

/// N of "/dev/fd/N" and "/proc/self/fd/N".
std::optional<int> descriptorOf(std::string_view path);

}  // namespace sarus::squashfs
