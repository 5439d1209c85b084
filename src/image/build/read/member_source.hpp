#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "image/build/bytes/chunk.hpp"

namespace sarus::image::build {

/// One member of a layer, with names exactly as in its source: nothing is resolved, cleaned or followed here.
struct TarEntry {
    enum class Type { regular, hardLink, symlink, charDevice, blockDevice, directory, fifo };

    Type type = Type::regular;
    std::string path;
    std::string linkTarget;  ///< of hard and symbolic links
    std::uint16_t mode = 0;  ///< permission, set-id and sticky bits
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::int64_t mtime = 0;  ///< seconds since the epoch, may be negative
    std::uint64_t size = 0;  ///< of the content of a regular file, including holes
    std::uint32_t deviceMajor = 0;
    std::uint32_t deviceMinor = 0;
    std::vector<std::pair<std::string, std::string>> xattrs;  ///< name and value, in the source's order
};

/// The members of a layer, in the form of a tar archive's: whiteouts are members with reserved names.
class MemberSource {
public:
    virtual ~MemberSource() = default;
    /// Advances to the next member and skips unread content. False at the end.
    virtual bool next(TarEntry& entry) = 0;
    /// Passes the content of the current regular file to `sink` in parts; holes are zeros.
    virtual void readContent(const std::function<void(std::span<const unsigned char>)>& sink) = 0;
    /// The owner of the bytes last passed to a sink, or null.
    virtual ChunkPtr chunk() const = 0;
};

}  // namespace sarus::image::build
