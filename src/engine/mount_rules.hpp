#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/site_config.hpp"

namespace sarus::engine {

/// Why nobody, not even the site, may mount on `destination`, or nullopt. The engine owns the root, /dev,
/// everything at or below /proc and /sys, and what the runtime creates in /dev (oci/runtime_devices.hpp).
std::optional<std::string> whyEnginesOwn(std::string_view destination);

/// Why a user may not mount on `destination`, or nullopt. Compares the lexically normalised form component by
/// component, so `//etc` and `/a/../etc` count as `/etc`, but `/scratch` does not cover `/scratch2`. Refuses
/// the engine's own places too. late_rules.hpp handles symbolic links of the image.
std::optional<std::string> whyNotMountable(const UserMountRules& rules, std::string_view destination);

/// What to do about a refusal by `rules`; empty if the place is the engine's own.
std::string hintForRefusal(std::string_view destination);

/// Throws Error "Invalid mount request ..." if there is a reason.
void checkUserMountDestination(const UserMountRules& rules, std::string_view destination,
                               std::string_view request);

}  // namespace sarus::engine
