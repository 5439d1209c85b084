#pragma once

#include <string>

#include "podman_hpc/config/settings.hpp"

namespace sarus::podman_hpc {

/// Replaces `{{ uid }}`, `{{ user }}` and `{{ env.NAME }}`. Throws Error for an unset variable and for an
/// unknown placeholder.
std::string expandTemplate(const std::string& text, const Surroundings& from);

}  // namespace sarus::podman_hpc
