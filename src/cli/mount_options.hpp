#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "oci/runtime/mount_request.hpp"

namespace sarus::cli {

/// The options of `run` that mount something.
std::vector<Option> mountOptions();

/// What they ask for, as values of --mount: first those of --mount, then --volume, --tmpfs, --home and --cwd.
/// Throws Error.
std::vector<std::string> mountRequests(const Arguments& arguments);

/// The directory that --home names with a value; nullopt if it has none. Throws Error.
std::optional<oci::MountRequest> otherHome(const Arguments& arguments);

/// The request to mount a directory at the same path, as the value of --mount. `option` is for messages.
std::string mountInPlace(const std::string& directory, const std::string& option);

}  // namespace sarus::cli
