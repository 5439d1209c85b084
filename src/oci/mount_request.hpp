#pragma once

#include <string>
#include <string_view>

namespace sarus::oci {

/// The value of one --mount option.
struct MountRequest {
    std::string source;
    std::string destination;
    bool readonly = false;
};

/// Parses `key[=value]` pairs joined by commas: `type=bind`, `source`|`src`, `destination`|`dst`|`target`, `readonly`.
/// No escaping, no trimming; both paths must be absolute. Throws Error with the documented messages.
MountRequest parseMountRequest(std::string_view request);

}  // namespace sarus::oci
