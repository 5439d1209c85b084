#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sarus::node {

/// Whether the text of /sys/kernel/security/apparmor/profiles, with lines "name (mode)", has the profile.
bool listsProfile(std::string_view profiles, const std::string& name);

/// Throws Error if a profile, the value of `apparmorProfile` in sarus.json, is not loaded: the runtimes' own
/// message names neither the profile nor the key. If this process may not read the list (rootless), the
/// runtime decides.
void checkAppArmorProfile(const std::optional<std::string>& profile);

}  // namespace sarus::node
