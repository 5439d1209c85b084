#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "engine/container_plan.hpp"
#include "starter/entry/installation.hpp"

namespace sarus::starter {

/// Collects what plan() needs to know about the caller from the kernel and the installation.
engine::HostFacts gatherHostFacts(const Session& session);

/// The gid of the group `name` in the text of a group(5) file.
std::optional<gid_t> findGroup(std::string_view groupFile, std::string_view name);

/// The CPUs of the calling thread, ascending. Supports more than 1024 CPUs.
std::vector<int> cpuAffinity();

}  // namespace sarus::starter
