#pragma once

#include <string>

#include "podman_hpc/config/settings.hpp"
#include "podman_hpc/store/migration.hpp"

namespace sarus::podman_hpc {

/// Adds an image of a registry to the squash store without Podman's own store. Downloads nothing but the
/// manifest if the image is there. `reference`: without transport. Returns the result and the image's name.
/// Throws Error.
std::pair<MigrationResult, std::string> migrateFromRegistry(const std::string& reference,
                                                            const Settings& settings, const StorePaths& store,
                                                            const Surroundings& from);

}  // namespace sarus::podman_hpc
