#pragma once

#include <cstdint>

namespace sarus::container_root {

/// Whether a mount inside the container's root is a memory filesystem created for this container, as by
/// `--tmpfs /run`: no part of it is mounted outside the container's root, so new entries in it affect nobody
/// else. `mount` and `rootMount` are mount ids (mountIdOf()) in this process's mount namespace. Throws Error.
bool isOwnTmpfs(std::uint64_t mount, std::uint64_t rootMount);

}  // namespace sarus::container_root
