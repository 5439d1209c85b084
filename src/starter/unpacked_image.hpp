#pragma once

#include <string>

#include "base/unique_fd.hpp"
#include "starter/credentials.hpp"

namespace sarus::starter {

/// An unpacked image, ready to be the lower layer of an overlay.
struct UnpackedImage {
    UniqueFd directory;  ///< O_PATH
    UniqueFd lock;       ///< shared flock: as long as it is held, nobody may remove the directory
};

/// For rootless nodes without FUSE: unpacks the image, once, into `<tempDir>/sarus-<uid>/unpacked/<device>-<inode>-<size>-<mtime
/// in ns>` (by `<imageBuilderPath> unpack IMAGE DIRECTORY`). Beside it `<the same>.lock` is locked: exclusively while it is
/// removed, shared while it is used or made; and `<the same>.unpacking` while it is made. The modification time of the lock file
/// is the time of the last use. The directories below tempDir belong to the caller and have mode 0700, which is verified on their
/// descriptors. Throws Error.
UnpackedImage openUnpackedImage(int imageFd, const std::string& imagePath, const std::string& tempDir,
                                const std::string& imageBuilderPath, const Credentials& credentials);

}  // namespace sarus::starter
