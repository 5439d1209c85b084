#pragma once

#include <string_view>

#include "container_root/container_view.hpp"

namespace sarus::container_root {

/// Copies what is in the directory `source` into the directory `target`, both paths inside, with the rights
/// of the container's user alone. The copies belong to `owner` and nobody else may read them; devices,
/// sockets and FIFOs are left out. Nothing if one of the directories is missing. False if only a part was
/// copied: it has more than 1000 entries, 16 MiB or 8 levels. Throws Error.
bool copyTreeAsUser(int root, std::string_view source, std::string_view target, const ContainerUser& owner);

}  // namespace sarus::container_root
