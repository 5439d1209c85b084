#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "oci/runtime/mount_request.hpp"

namespace sarus::cli {

/// The options of `run` that mount something.
std::vector<Option> mountOptions();

/// What they ask for: first those of --mount, then --volume, --tmpfs, --home and --cwd.
/// Throws Error.
std::vector<oci::MountRequest> mountRequests(const Arguments& arguments);

/// The directory that --home names with a value; nullopt if it has none. Throws Error.
std::optional<oci::MountRequest> otherHome(const Arguments& arguments);

}  // namespace sarus::cli
