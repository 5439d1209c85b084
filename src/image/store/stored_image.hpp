#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "image/store/index.hpp"
#include "image/store/repository_paths.hpp"

namespace sarus::image {

/// The two matching files of a stored image.
struct StoredImage {
    UniqueFd file;  ///< the squashfs file, O_RDONLY
    std::uint64_t size = 0;
    std::string metadata;           ///< text of the `.meta` file
    std::optional<StoreInfo> info;  ///< nullopt if Sarus 1.7 wrote it
    std::string draft{};  ///< path of the draft from which the metadata come; "" for the `.meta` file
};

/// Whether metadata were written for a squashfs file.
enum class Match {
    no,
    yes,
    perhaps,  ///< the file has an identity, but the metadata record none
};
Match match(const std::optional<StoreInfo>& info, std::uint64_t squashfsSize, const std::string& identity);

/// Opens the squashfs file and reads its metadata, without any lock. A publication replaces the two files one
/// after the other. In between, or after an interruption, the metadata come from the draft created for the
/// squashfs file. nullopt if the image does not exist. Throws Error if its files do not match or cannot be
/// read.
std::optional<StoredImage> openStoredImage(const RepositoryPaths& paths, const ImageReference& reference);

}  // namespace sarus::image
