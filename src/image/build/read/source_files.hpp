#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/unique_fd.hpp"

namespace sarus::image::build {

/// A regular file, or a part of one, for pread(2).
struct StoredFile {
    std::shared_ptr<const UniqueFd> file;
    std::uint64_t offset;
    std::uint64_t size;  ///< in bytes
};

/// The files of an image in place: in the directory of an OCI layout, or in an archive, which is never
/// unpacked.
class SourceFiles {
public:
    virtual ~SourceFiles() = default;
    /// `name` is relative, as in "blobs/sha256/<hex>". Throws Error if there is no regular file of that name.
    virtual StoredFile open(const std::string& name) const = 0;
    virtual bool contains(const std::string& name) const = 0;
};

std::shared_ptr<const SourceFiles> openSourceDirectory(UniqueFd directory);

/// Reads a small file. Throws Error, before reading, if it is larger than `limit`.
std::string readSmallFile(const SourceFiles& files, const std::string& name, std::uint64_t limit);

/// pread(2) until `size` bytes or the end of the file; returns the number of bytes read. Throws Error.
std::size_t readAt(int file, unsigned char* data, std::size_t size, std::uint64_t offset,
                   const std::string& nameForMessages);

}  // namespace sarus::image::build
