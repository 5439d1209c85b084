#pragma once

#include <string_view>
#include <vector>

#include "oci/bundle_config.hpp"
#include "oci/container_edits.hpp"

namespace sarus::oci {

/// Parses a file of edits for a precreate hook: a JSON object whose optional array `containerEdits` holds objects like CDI's
/// `containerEdits`, in the order in which they are applied. Unknown keys are ignored, but not those of CDI which such a hook
/// does not apply (`netDevices`, and of `intelRdt` what OCI runtimes would pass over): a container that lacks them silently would
/// be the wrong one. Throws Error; its message holds "invalid JSON" if the text is none, else "invalid type or value", and the
/// key's path.
std::vector<ContainerEdits> parsePrecreateEdits(std::string_view text, std::string_view file);

/// Changes config.json accordingly. Mounts are appended in order, after those of the engine; of a variable the last value counts.
/// A device node takes what its edit leaves open (type, numbers, mode) from the host's device, and its owner, if not given, from
/// the container's user; in a user namespace, where no node can be made, the host's device is mounted as it is. Group 0 is never
/// given. `inUserNamespace`: whether this process, and hence the OCI runtime, is in one. Throws Error, also if a device is
/// missing.
void applyPrecreateEdits(const std::vector<ContainerEdits>& edits, bool inUserNamespace, BundleConfig& config);

}  // namespace sarus::oci
