#pragma once

#include <string>
#include <string_view>

#include "engine/site_config.hpp"

namespace sarus::starter {

/// Whether the text of /sys/kernel/security/apparmor/profiles, with lines "name (mode)", has the profile.
bool listsProfile(std::string_view profiles, const std::string& name);

/// Throws Error if the profile `apparmorProfile` of the configuration is not loaded: the runtimes say this in words of the kernel
/// that name neither the profile nor the key. Whoever may not read the list (rootless) leaves the question to the runtime.
void checkAppArmorProfile(const engine::SiteConfig& config);

}  // namespace sarus::starter
