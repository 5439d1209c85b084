#pragma once

#include <cstdint>
#include <string_view>

namespace sarus::squashfs {

/// Whether a file begins as one of the Singularity Image Format, which Apptainer writes. `start`: its first
/// bytes, at least 42.
bool isSif(std::string_view start) noexcept;

/// A part of a file, in bytes.
struct FilePart {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
};

/// Where a regular file holds its squashfs filesystem: of a SIF file in the primary system partition, or
/// without one in the only partition with squashfs; of any other file everywhere. Every byte of the file may
/// be hostile; what is returned lies within it. Throws Error.
FilePart findSquashfs(int fd, std::uint64_t fileSize, std::string_view path);

}  // namespace sarus::squashfs
