#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hooks/kit/hook_log.hpp"
#include "hooks/kit/ld_cache.hpp"

namespace sarus::hooks {

enum class LinkerCacheUpdate {
    unchanged,  ///< our own cache is there and still right
    written,    ///< <root>/etc/ld.so.cache was replaced
    notNeeded,  ///< the root filesystem has no glibc dynamic linker or no /etc: nothing reads such a cache
};

struct CacheFile {
    std::uint64_t size = 0;
    std::int64_t modified = 0;  ///< seconds since 1970
};

struct LinkerCacheResult {
    LinkerCacheUpdate update;
    std::optional<CacheFile> file;  ///< empty if there is no cache, and none is needed
};

/// Makes <root>/etc/ld.so.cache list the libraries which are there now, in place of running `ldconfig -r`. Runs nothing, follows
/// no symbolic link out of the root filesystem, replaces the cache atomically. The cache carries a stamp (cache_stamp.hpp) of
/// what it was made from, so that a second call is quick. A library that was overwritten in place, without a change of its
/// directory, is noticed unless its name begins with its SONAME. Throws Error if the cache cannot be written.
LinkerCacheResult updateLinkerCache(int root);

/// The same, where the cache may be impossible to write (read-only, or mounted from elsewhere): that is a warning.
void updateLinkerCacheIfPossible(int root, const HookLog& log);

/// The libraries of the container: from its cache if it has a sound one, else by looking into the directories (musl, images
/// without cache). Entries whose file is missing are kept.
std::vector<LdCacheRecord> containerLibraries(int root);

}  // namespace sarus::hooks
