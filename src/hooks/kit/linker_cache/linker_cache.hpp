#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hooks/kit/hook_logger.hpp"
#include "hooks/kit/linker_cache/ld_cache.hpp"

namespace sarus::hooks {

enum class LinkerCacheUpdate {
    unchanged,  ///< our own cache exists and is still valid
    written,    ///< <root>/etc/ld.so.cache was replaced
    notNeeded,  ///< the root filesystem has no glibc dynamic linker or no /etc: nothing reads such a cache
};

struct CacheFile {
    std::uint64_t size = 0;
    std::int64_t modified = 0;  ///< seconds since 1970
};

struct LinkerCacheResult {
    LinkerCacheUpdate update;
    std::optional<CacheFile> file;  ///< empty if there is no cache and none is needed
};

/// Makes <root>/etc/ld.so.cache list the libraries that exist now, in place of `ldconfig -r`. Runs nothing,
/// follows no symbolic link out of the root filesystem, and replaces the cache atomically. The cache carries
/// a stamp (cache_stamp.hpp) of its inputs, which makes a second call quick. A library overwritten in place,
/// without a change of its directory, is noticed unless its name begins with its SONAME. Throws Error if the
/// cache cannot be written.
LinkerCacheResult updateLinkerCache(int root);

/// The result of updateLinkerCache() without writing (LinkerCacheUpdate::written: it would write); for
/// --explain.
LinkerCacheUpdate predictLinkerCache(int root);

/// Like updateLinkerCache(), but only warns if the cache cannot be written (read-only, or mounted from
/// elsewhere).
void updateLinkerCacheIfPossible(int root, const HookLogger& log);

/// The libraries of the container: from its cache if that is valid, otherwise from the directories (musl,
/// images without cache). Keeps entries whose file is missing.
std::vector<LdCacheRecord> containerLibraries(int root);

}  // namespace sarus::hooks
