#pragma once

#include <string>

namespace sarus::image::build {

/// Extracts a squashfs into `directory`, for nodes where it cannot be mounted, as the calling user and with no more rights than
/// hers.
///
/// What is in the image can only make entries below `directory`: names with slashes or dots are refused, every entry is created
/// exclusively, and no symbolic link is followed. Hard links are kept; devices and sockets are left out; set-id bits are dropped;
/// the owner may always read files and enter directories; of the extended attributes only user.* are set, where the filesystem
/// has them.
///
/// `directory` appears complete, by a rename of the sibling `.<name>.unpack-<letters>`, or not at all; if another process is
/// faster, its result stays and this call succeeds too. Throws Error.
void unpackSquashfs(const std::string& imagePath, const std::string& directory);

}  // namespace sarus::image::build
