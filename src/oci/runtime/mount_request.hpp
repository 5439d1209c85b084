#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sarus::oci {

/// The value of one --mount option.
struct MountRequest {
    std::string source;
    std::string destination;
    bool readonly = false;
};

/// Parses `key[=value]` pairs joined by commas: `type=bind`, `source`|`src`, `destination`|`dst`|`target`,
/// `readonly`|`ro`, `rw`. No escaping, no trimming; both paths must be absolute. Throws Error with the
/// documented messages.
MountRequest parseMountRequest(std::string_view request);

/// A memory file system.
struct TmpfsRequest {
    std::string destination;
    std::uint64_t size = 0;  ///< in bytes; 0: the kernel's limit, half of the memory
};

/// Whether the value of a --mount option has `type=tmpfs`.
bool isTmpfsRequest(std::string_view request);

/// Parses `type=tmpfs`, `destination`|`dst`|`target` and `size` (a number of bytes, or with k, m or g).
/// Throws Error.
TmpfsRequest parseTmpfsRequest(std::string_view request);

/// The text that parseMountRequest turns into `mount`. Neither path may contain ',' or '='.
std::string toText(const MountRequest& mount);

}  // namespace sarus::oci
