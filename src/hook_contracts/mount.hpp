#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hook_contracts/hook_call.hpp"
#include "oci/runtime/device_request.hpp"
#include "oci/runtime/mount_request.hpp"

namespace sarus::hook_contracts {

/// Placeholder in a mount's destination for the directory in which the container's libfabric looks for
/// providers.
inline constexpr std::string_view providerWildcard = "<FI_PROVIDER_PATH>";

/// One --mount of mount_hook. The destination still contains the wildcard.
struct RequestedMount {
    oci::MountRequest request;
    bool hasWildcard = false;

    /// The destination with `providerPath` (absolute) in place of the wildcard.
    std::string destination(std::string_view providerPath) const;
};

/// The command line of mount_hook, in order.
struct MountRequests {
    std::vector<RequestedMount> mounts;
    std::vector<oci::DeviceRequest> devices;
};

/// Parses `--mount VALUE`, `--mount=VALUE` and the same of `--device`, with the values of `sarus run`;
/// `arguments` are without the program's name. The wildcard is not part of the grammar: a path with arbitrary
/// characters replaces it later, and only in a destination, because the path comes from the container. Throws
/// Error.
MountRequests parseMountRequests(std::span<const std::string> arguments);

std::vector<HookDevice> devicesOfMountHook(const HookCall& call);

}  // namespace sarus::hook_contracts
