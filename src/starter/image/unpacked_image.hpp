#pragma once

#include <string>

#include "base/unique_fd.hpp"
#include "starter/entry/credentials.hpp"

namespace sarus::starter {

/// An unpacked image, ready to be the lower layer of an overlay.
struct UnpackedImage {
    UniqueFd directory;  ///< O_PATH
    UniqueFd lock;       ///< shared flock: while it is held, nobody may remove the directory
};

/// For rootless nodes without FUSE. Unpacks the image once into
/// `<tempDir>/sarus-<uid>/unpacked/<device>-<inode>-<size>-<mtime in ns>`, with `<imageBuilderPath> unpack
/// IMAGE DIRECTORY`. Beside it, `<the same>.lock` is locked: exclusively during removal, shared during
/// creation and use; `<the same>.unpacking` is locked during creation. The modification time of the lock file
/// is the time of the last use. The directories below tempDir belong to the caller and have mode 0700,
/// verified on their descriptors. Throws Error.
UnpackedImage openUnpackedImage(int imageFd, const std::string& imagePath, const std::string& tempDir,
                                const std::string& imageBuilderPath, const Credentials& credentials);

}  // namespace sarus::starter
