#pragma once

#include <string>

namespace sarus::image::build {

/// Extracts a squashfs into `directory`, for nodes that cannot mount it, with only the rights of the calling
/// user.
///
/// The image can only create entries below `directory`: names with slashes or dots are refused, every entry
/// is created exclusively, and no symbolic link is followed. Keeps hard links, skips devices and sockets, and
/// drops set-id bits. The owner can always read files and enter directories. Of the extended attributes, sets
/// only user.*, if the filesystem supports them.
///
/// `directory` appears complete, by a rename of its sibling `.<name>.unpack-<letters>`, or not at all. If
/// another process is faster, its result stays and this call succeeds too. Throws Error.
void unpackSquashfs(const std::string& imagePath, const std::string& directory);

}  // namespace sarus::image::build
