#pragma once

#include <string>
#include <string_view>

namespace sarus::oci {

/// A platform as in image indexes (OCI image specification, image-index.md), in Go's terms: "linux", "arm64",
/// "v8".
struct Platform {
    std::string os;
    std::string architecture;
    std::string variant;  ///< may be empty

    bool operator==(const Platform&) const = default;
};

/// The platform that this program was compiled for.
Platform hostPlatform();

/// Reads "os/architecture[/variant]", in lower case. Throws Error "Invalid platform '<text>'".
Platform parsePlatformName(std::string_view text);

/// "os/architecture[/variant]".
std::string toString(const Platform& platform);

/// How well the machine `wanted` runs an image for `offered`: -1 not at all, otherwise the higher the better.
/// Operating system and architecture must be equal. The same variant is best, an older one is next. A missing
/// variant means v8 for arm64, v7 for arm and v1 for amd64 (image-index.md, "Platform Variants").
int suitability(const Platform& wanted, const Platform& offered);

}  // namespace sarus::oci
