#pragma once

#include <string_view>
#include <vector>

#include "oci/cdi/container_edits.hpp"
#include "oci/runtime/bundle_config.hpp"

namespace sarus::hooks::pce {

/// Parses a file of edits for a precreate hook: a JSON object whose optional array `containerEdits` contains
/// objects like CDI's `containerEdits`, in the order of application. Ignores unknown keys. But refuses CDI
/// keys that such a hook does not apply (`netDevices`, and those of `intelRdt` that OCI runtimes would
/// ignore), because silently omitting them would produce a wrong container. Throws Error; its message
/// contains "invalid JSON" if the text is not JSON, otherwise "invalid type or value", and the key's path.
std::vector<oci::ContainerEdits> parsePrecreateEdits(std::string_view text, std::string_view file);

/// Applies the edits to config.json. Mounts are appended in order, after those of the engine; for each
/// variable the last value counts. A device node takes attributes missing in its edit (type, numbers, mode)
/// from the host's device, and a missing owner from the container's user. In a user namespace, where nodes
/// cannot be created, the host's device is mounted unchanged. Never grants group 0. `inUserNamespace`:
/// whether this process, and hence the OCI runtime, is in one. Throws Error, also if a device is missing.
void applyPrecreateEdits(const std::vector<oci::ContainerEdits>& edits, bool inUserNamespace,
                         oci::BundleConfig& config);

}  // namespace sarus::hooks::pce
