#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "engine/container_plan.hpp"
#include "starter/credentials.hpp"
#include "starter/entry.hpp"

namespace sarus::starter {

/// Asks the kernel and the installation for everything that plan() needs to know about the caller. `internal` are descriptors
/// of the caller which serve the starter (request, image) and which the container can therefore not be given.
engine::HostFacts gatherHostFacts(const Entry& entry, const Credentials& credentials, const engine::SiteConfig& config,
                                  const std::vector<int>& internal);

/// The gid of the group `name` in the text of a group(5) file.
std::optional<gid_t> findGroup(std::string_view groupFile, std::string_view name);

/// The CPUs of the calling thread, ascending, also on machines with more than 1024 of them.
std::vector<int> cpuAffinity();

}  // namespace sarus::starter
