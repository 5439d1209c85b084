#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/environment.hpp"

namespace sarus::engine {

/// NVIDIA_VISIBLE_DEVICES of a container with every GPU of the node, whose numbers are those of the node.
constexpr std::string_view allGpus = "all";

/// Rewrites the variables of the NVIDIA Container Toolkit in a container's environment. The host's
/// CUDA_VISIBLE_DEVICES selects the devices; its indices become those of the devices inside the container. If
/// it is not set, no CUDA or NVIDIA variable reaches the container. `present`: NVIDIA_VISIBLE_DEVICES of a
/// container with other devices than those: one that is shared, or that runs already.
void rewriteCudaVariables(const Environment& host, const std::optional<std::string>& present,
                          Environment& container);

/// The lists "" if they are empty.
struct Renumbered {
    std::string devices{};  ///< the numbers that are present, as positions among those
    std::string absent{};   ///< the others, as they were
};

/// "3,1,10" -> "1,0,2": for each device its position in the sorted list of those that are present. Lists with
/// anything else (the UUID of a GPU, the name of a MIG device, allGpus) leave the devices as they are: such
/// names are the same in a container.
Renumbered renumberDevices(std::string_view visibleDevices, std::string_view presentDevices);

}  // namespace sarus::engine
