#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oci/device_request.hpp"
#include "oci/mount_request.hpp"

namespace sarus::hooks::mount {

/// Stands in the destination of a mount for the directory where the container's libfabric looks for providers.
inline constexpr std::string_view kProviderWildcard = "<FI_PROVIDER_PATH>";

/// One --mount. The destination still holds the wildcard.
struct Mount {
    oci::MountRequest request;
    bool hasWildcard = false;

    /// The destination with `providerPath` (absolute) in the wildcard's place.
    std::string destination(std::string_view providerPath) const;
};

/// The command line of the hook, in order.
struct Requests {
    std::vector<Mount> mounts;
    std::vector<oci::DeviceRequest> devices;
};

/// Parses `--mount VALUE`, `--mount=VALUE` and the same of `--device`, with the values of `sarus run`; `arguments` are without
/// the program's name. The wildcard is no part of the grammar: what takes its place later is a path, whatever characters it has,
/// and only in a destination, because it comes from the container. Throws Error.
Requests parseRequests(std::span<const char* const> arguments);

}  // namespace sarus::hooks::mount
