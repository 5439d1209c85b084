#pragma once

#include <string_view>

#include "container_root/container_view.hpp"

namespace sarus::container_root {

/// Copies what is in `source`, a directory inside, into the open directory `target`, with the rights of the
/// container's user alone. The copies belong to `owner` and nobody else may read them; devices, sockets and
/// FIFOs are left out. Nothing if there is no such source. False if only a part was copied: it has more than
/// 1000 entries, 16 MiB or 8 levels. Throws Error.
bool copyTreeAsUser(int root, std::string_view source, int target, const ContainerUser& owner);

}  // namespace sarus::container_root
