#pragma once

#include <string>
#include <string_view>

#include "engine/environment.hpp"

namespace sarus::engine {

/// Rewrites the variables of the NVIDIA Container Toolkit in a container's environment from the host's: the host's
/// CUDA_VISIBLE_DEVICES selects the devices, and where it lists indices, they become those of the devices inside the container.
/// Without it, no CUDA or NVIDIA variable reaches the container.
void rewriteCudaVariables(const Environment& host, Environment& container);

/// "3,1,10" -> "1,0,2": for each device its position in the sorted list of numbers. A list with anything else in it (the
/// UUID of a GPU, the name of a MIG device) stays as it is: such names are the same in a container.
std::string renumberDevices(std::string_view visibleDevices);

}  // namespace sarus::engine
