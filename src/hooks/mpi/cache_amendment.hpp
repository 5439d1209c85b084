#pragma once

#include <vector>

#include "hooks/kit/ld_cache.hpp"
#include "hooks/mpi/injection_plan.hpp"

namespace sarus::hooks::mpi {

/// The entries that the injected libraries need in the linker cache: each name of each library, leading to where it is.
std::vector<LdCacheRecord> recordsOf(const std::vector<Injection>& injections);

/// Lets the container's linker cache name the injected libraries. A sound cache is amended: what an image's ldconfig found is
/// still true, and reading it again from hundreds of libraries would take longer than the rest of the start. Without one it is
/// made from the directories (updateLinkerCache). Nothing is written if the cache leads to the libraries already. Throws Error.
void amendLinkerCache(int root, const std::vector<Injection>& injections);

}  // namespace sarus::hooks::mpi
