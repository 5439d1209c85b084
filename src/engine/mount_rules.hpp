#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/site_config.hpp"

namespace sarus::engine {

/// Why nobody may mount on `destination`, not even the site, or nullopt: the root, /dev, /proc and /sys with all that is below
/// them, and what the runtime makes in /dev (oci/runtime_devices.hpp) are the engine's own.
std::optional<std::string> whyEnginesOwn(std::string_view destination);

/// Why a user may not mount on `destination`, or nullopt. Compares component by component of the lexically normalised form, so
/// that
/// `//etc` and `/a/../etc` count as `/etc` while `/scratch` does not cover `/scratch2`. Besides what `userMounts` lists,
/// the engine's own places are refused. What symbolic links of the image make of a path is the starter's business: it
/// asks again with the path that it resolved.
std::optional<std::string> whyNotMountable(const UserMountRules& rules, std::string_view destination);

/// Throws Error "Invalid mount request ..." if there is a reason.
void checkUserMountDestination(const UserMountRules& rules, std::string_view destination, std::string_view request);

/// The absolute path without empty, `.` and `..` components ("/" for the root); `..` at the root stays there.
std::string normalizePath(std::string_view path);

/// Whether `path` is `directory` or below it; both normalised.
bool isSameOrBelow(std::string_view path, std::string_view directory);

}  // namespace sarus::engine
