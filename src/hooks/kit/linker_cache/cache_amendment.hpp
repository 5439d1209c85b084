#pragma once

#include <vector>

#include "hooks/kit/linker_cache/ld_cache.hpp"

namespace sarus::hooks {

/// Adds these libraries to the container's linker cache, in this byte order. Amends a valid cache: the
/// results of the image's ldconfig still hold, and reading hundreds of libraries again would take longer than
/// the rest of the start. Without one, creates the cache from the directories (updateLinkerCache). Writes
/// nothing if the cache already contains the libraries. Throws Error.
void amendLinkerCache(int root, std::vector<LdCacheRecord> records, bool isBigEndian);

}  // namespace sarus::hooks
