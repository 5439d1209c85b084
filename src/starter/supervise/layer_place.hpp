#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"
#include "starter/entry/credentials.hpp"

namespace sarus::starter {

/// Where a kept container has its layers if its user has chosen the directory (SARUS_CONTAINER_DIR): in one
/// directory there, which the user can rename or replace, but only root (rootless: the user) can enter.
///
/// It is always opened with the user's rights, and recognised by its inode. So whatever the user puts in its
/// place, root never enters it.
struct LayerPlace {
    std::string directory{};  ///< the user's; absolute
    std::string name{};       ///< of the entry there
    std::uint64_t inode = 0;  ///< 0: it may not have been made

    std::string path() const;
};

/// A new name in `directory`, which must be the user's alone and not on FUSE. `container`: its name. Throws
/// Error.
LayerPlace chooseLayerPlace(const Credentials& credentials, const std::string& directory,
                            const std::string& container);

/// Makes it with the user's rights, gives it to root (not if rootless) and notes its inode. Throws Error.
UniqueFd makeLayerPlace(const Credentials& credentials, LayerPlace& place);

/// O_PATH. Throws Error; with ENOENT if it is not there any more.
UniqueFd openLayerPlace(const Credentials& credentials, const LayerPlace& place);

/// Removes it once it is empty, with the user's rights. It may be gone. Throws Error.
void removeLayerPlace(const Credentials& credentials, const LayerPlace& place);

/// A text for a file. The directory has no control characters.
std::string describeLayerPlace(const LayerPlace& place);
/// Throws Error, which says that it is in the file `path`.
LayerPlace parseLayerPlace(const std::string& text, const std::string& path);

}  // namespace sarus::starter
