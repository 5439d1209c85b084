#pragma once

#include <sqfs/compressor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sarus::image::build {

/// How a squashfs is written. The defaults were chosen by measurement (docs/conversion.md).
struct SquashfsOptions {
    std::string compressor = "zstd";  ///< gzip, xz, lz4 or zstd
    std::uint32_t level = 3;          ///< of gzip and zstd
    /// Compress with parameters between zstd's levels 2 and 3 (BlockCompressor), which takes a fifth less time than level 3 for
    /// up to 1 % more bytes, 6 % where there are small files only. Not where a compressor, a level or a block size is asked for.
    bool ownZstdParameters = true;
    std::uint32_t blockSize = 128U << 10U;
    std::uint16_t compressorFlags = 0;              ///< SQFS_COMP_FLAG bits
    std::optional<std::uint32_t> dictionarySize{};  ///< of xz, in bytes
    std::optional<std::uint16_t> windowSize{};      ///< of gzip, log2
    std::optional<unsigned int> workers{};          ///< threads that compress; default: the CPUs of this process
    std::uint64_t memory = 24U << 20U;              ///< bytes of file content that may wait for compression
    std::optional<std::uint32_t> owner{};           ///< forced user id
    std::optional<std::uint32_t> group{};           ///< forced group id
    std::optional<std::uint32_t> allTimes{};        ///< forced modification time of all files
    std::uint32_t creationTime = 0;                 ///< of the filesystem
    bool xattrs = true;
    bool duplicates = true;  ///< look for equal files
    bool fragments = true;   ///< pack the ends of files together
    bool compressData = true;
    bool sparse = true;       ///< recognise blocks of zeros
    bool padding = true;      ///< to a multiple of 4096 bytes
    bool exportable = false;  ///< table of inodes for export through NFS

    /// The settings in libsquashfs's form, also for reading back (`uncompress`).
    sqfs_compressor_config_t compressorConfig(bool uncompress) const;
};

/// Translates options of mksquashfs (the value of `mksquashfsOptions` in sarus.json), which are split at white space. Options
/// that only concern its own user interface (-quiet, -no-progress, -info) or that describe what is always so (-noappend) are
/// accepted and change nothing. Everything else which the writer cannot do is an Error that names the option: an administrator's
/// setting is never silently ignored.
SquashfsOptions parseMksquashfsOptions(std::string_view text);

}  // namespace sarus::image::build
