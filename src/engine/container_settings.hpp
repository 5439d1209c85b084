#pragma once

#include <map>
#include <string>
#include <string_view>

#include "engine/launch_request.hpp"

namespace sarus::engine {

/// What a container was started with and keeps while it runs, in words for people: name and value, or
/// `settingIsOn` for a flag. What is missing or has the value "" is off, or not there.
using ContainerSettings = std::map<std::string, std::string>;

inline constexpr std::string_view settingIsOn = "yes";
// The settings that a caller can also ask not to have.
inline constexpr std::string_view readonlyRootSetting = "read-only root filesystem";
inline constexpr std::string_view remapRootSetting = "root in the container";

/// Of a container that the request starts; or what a caller asks for that joins one.
ContainerSettings settingsOf(const LaunchRequest& request);

/// Where a container does not have what a caller asks for, in words; "" if it has everything.
std::string describeDifferences(const ContainerSettings& found, const ContainerSettings& wanted);

}  // namespace sarus::engine
