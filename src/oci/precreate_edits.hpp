#pragma once

#include <string_view>
#include <vector>

#include "oci/container_edits.hpp"

namespace sarus::oci {

/// Parses a file of edits for a precreate hook: a JSON object whose optional array `containerEdits` holds objects with `env` and
/// `mounts`, in the order in which they are applied. Unknown keys are ignored, but not those of the Container Device Interface
/// which such a hook does not apply (`deviceNodes`, `hooks`...): a container that lacks them silently would be the wrong one.
/// Throws Error; its message holds "invalid JSON" if the text is none, else "invalid type or value", and the key's path.
std::vector<ContainerEdits> parsePrecreateEdits(std::string_view text, std::string_view file);

}  // namespace sarus::oci
