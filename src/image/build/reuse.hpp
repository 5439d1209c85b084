#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "image/build/progress.hpp"
#include "image/build/write/owner_table.hpp"

namespace sarus::image::build {

/// A squashfs file that holds the converted layers already.
struct ReusedFile {
    std::string digest;      ///< of the copy
    std::uint64_t size = 0;  ///< in bytes
    std::uint64_t entries = 0;
    std::string compressor;
};

/// Copies the squashfs file `source`, which another program made of the layers `layersId`, into the empty
/// file `output`, with other owners. This takes no decompression: only the table of ids changes.
///
/// Accepts only files that belong to the caller or root, that nobody else can write, that name these layers
/// (OwnerRecord), and whose bytes their identity confirms. Otherwise, and if the copy fails, returns nullopt
/// and leaves `output` empty.
std::optional<ReusedFile> reuseSquashfs(const std::string& source, const std::string& layersId,
                                        const ForcedOwner& owner, int output, const ProgressOutput& progress);

}  // namespace sarus::image::build
