#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sarus::squashfs {

/// The image builder writes a 128-bit identity into each squashfs file, by which the image's metadata
/// recognise the file: the start of the fs-verity digest that the file has with zeros in place of the
/// identity. Two files share an identity only if their bytes are equal. Copies and hard links keep it, and
/// reading it does not touch the rest of the file.
///
/// It follows the superblock and the compressor's options, after the mark. Squashfs readers use the offsets
/// in the superblock and never look there. Every mount reads the file's first kilobyte anyway.
constexpr std::string_view identityMark = "sarus image id: ";
constexpr std::size_t identitySize = 16;

/// As 32 hexadecimal digits; "" for a file without one, as written by Sarus 1.7 and mksquashfs. Throws Error
/// if it cannot be read.
std::string squashfsIdentity(int fd, std::string_view nameForMessages);

/// A name of the file's content, never empty: the identity; of a file without one, what its superblock says
/// of it (sizes, places and the time of its making). Throws Error if it cannot be read.
std::string contentOf(int fd, std::string_view nameForMessages);

/// The offset of the mark in front of it; 0 for a file without one. Throws Error if it cannot be read.
std::uint64_t squashfsIdentityOffset(int fd, std::string_view nameForMessages);

}  // namespace sarus::squashfs
