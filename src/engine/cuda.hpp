#pragma once

#include <string>
#include <string_view>

#include "engine/environment.hpp"

namespace sarus::engine {

/// Rewrites the variables of the NVIDIA Container Toolkit in a container's environment. The host's
/// CUDA_VISIBLE_DEVICES selects the devices; its indices become those of the devices inside the container. If
/// it is not set, no CUDA or NVIDIA variable reaches the container.
void rewriteCudaVariables(const Environment& host, Environment& container);

/// "3,1,10" -> "1,0,2": for each device its position in the sorted list of numbers. Lists with anything else
/// (the UUID of a GPU, the name of a MIG device) stay as they are: such names are the same in a container.
std::string renumberDevices(std::string_view visibleDevices);

}  // namespace sarus::engine
