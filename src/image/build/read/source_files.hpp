#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/unique_fd.hpp"

namespace sarus::image::build {

/// A download that still writes blobs. It holds the other end of a pipe as long as it lasts.
class Download {
public:
    explicit Download(UniqueFd pipe) : end(std::move(pipe)) {}

    /// Also true if the download failed or died.
    bool hasEnded() const;
    /// Waits a moment: for more data, or for its end.
    void wait() const;

private:
    bool endsWithin(int milliseconds) const;

    UniqueFd end;
};

/// A regular file, or a part of one, for pread(2).
struct StoredFile {
    std::shared_ptr<const UniqueFd> file;
    std::uint64_t offset;
    std::uint64_t size;  ///< in bytes
    /// Set if the file may still grow; `size` is then what it has already.
    std::shared_ptr<const Download> download{};
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

/// `download`, if any, may still write the blobs that are called growingBlobName() in the directory.
std::shared_ptr<const SourceFiles> openSourceDirectory(UniqueFd directory,
                                                       std::shared_ptr<const Download> download = nullptr);

/// Reads a small file. Throws Error, before reading, if it is larger than `limit`.
std::string readSmallFile(const SourceFiles& files, const std::string& name, std::uint64_t limit);

/// pread(2) until `size` bytes or the end of the file; returns the number of bytes read. Throws Error.
std::size_t readAt(int file, unsigned char* data, std::size_t size, std::uint64_t offset,
                   const std::string& nameForMessages);

}  // namespace sarus::image::build
