#pragma once

#include <sqfs/compressor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sarus::image::build {

/// Settings for writing a squashfs. The defaults were chosen by measurement
/// (docs/measurements/conversion.md).
struct SquashfsOptions {
    std::string compressor = "zstd";  ///< one of the list in squashfs_options.cpp
    std::uint32_t level = 3;          ///< for compressors with levels
    /// Compress with parameters between zstd's levels 2 and 3 (BlockCompressor). This takes a fifth less time
    /// than level 3 for up to 1 % more bytes, 6 % if there are only small files. Not used if a compressor,
    /// level or block size is set.
    bool ownZstdParameters = true;
    std::uint32_t blockSize = 128U << 10U;
    std::uint16_t compressorFlags = 0;              ///< SQFS_COMP_FLAG bits
    std::optional<std::uint32_t> dictionarySize{};  ///< of xz, in bytes
    std::optional<std::uint16_t> windowSize{};      ///< of gzip, log2
    std::optional<unsigned int> workers{};    ///< compressing threads; default: the CPUs of this process
    std::uint64_t memory = 24U << 20U;        ///< bytes of file content that may wait for compression
    std::optional<std::uint32_t> owner{};     ///< forced user id
    std::optional<std::uint32_t> group{};     ///< forced group id
    std::optional<std::uint32_t> allTimes{};  ///< forced modification time of all files
    std::uint32_t creationTime = 0;           ///< of the filesystem
    bool xattrs = true;
    bool duplicates = true;  ///< look for equal files
    bool fragments = true;   ///< pack the ends of files together
    bool compressData = true;
    bool sparse = true;       ///< recognise blocks of zeros
    bool padding = true;      ///< to a multiple of 4096 bytes
    bool exportable = false;  ///< table of inodes for export through NFS

    /// The library behind the compressor, with its run-time version: "zstd 1.5.4". Another version may
    /// produce other bytes for the same content.
    std::string compressorLibrary() const;

    /// The settings as libsquashfs's structure.
    sqfs_compressor_config_t compressorConfig() const;
};

/// Parses options of mksquashfs (the value of `mksquashfsOptions` in sarus.json), split at white space.
/// Accepts without effect options for its user interface (-quiet, -no-progress, -info) and for what is always
/// the case (-noappend). Throws Error naming any other unsupported option: an administrator's setting is
/// never silently ignored.
SquashfsOptions parseMksquashfsOptions(std::string_view text);

}  // namespace sarus::image::build
