#pragma once

#include <cstddef>
#include <vector>

#include "hooks/kit/hook_log.hpp"
#include "hooks/kit/ld_cache.hpp"
#include "hooks/kit/library_directories.hpp"

namespace sarus::hooks {

/// Finds the libraries that a cache of these directories lists, as ldconfig(8) does: names `lib*.so*` and `ld-*.so*`, by SONAME
/// or else by file name, the newest file of each SONAME in a directory, development links (`libx.so`) under their own name, and
/// the subdirectories of `glibc-hwcaps`. Unlike ldconfig it changes nothing: where the link named like the SONAME is missing, the
/// entry leads to the file itself. What is not a sound ELF library of a known machine is left out.
std::vector<LdCacheRecord> scanLibraries(int root, const std::vector<LibraryDirectory>& directories);

enum class LinkerCacheUpdate {
    unchanged,  ///< our own cache is there and still right
    written,    ///< <root>/etc/ld.so.cache was replaced
    notNeeded,  ///< the root filesystem has no glibc dynamic linker or no /etc: nothing reads such a cache
};

/// Makes <root>/etc/ld.so.cache list the libraries which are there now, in place of running `ldconfig -r`. Runs nothing, follows
/// no symbolic link out of the root filesystem, replaces the cache atomically. The cache carries a stamp of the directories and
/// of the mounts in them as they were, so that a second call is quick. A library that was overwritten in place (without a change
/// of its directory) is noticed only if a mount did it. Throws Error if the cache cannot be written.
LinkerCacheUpdate updateLinkerCache(int root);

/// The same, where the cache may be impossible to write (read-only, or mounted from elsewhere): that is a warning.
void updateLinkerCacheIfPossible(int root, const HookLog& log);

/// The libraries of the container: from its cache if it has a sound one, else by looking into the directories (musl, images
/// without cache). Entries whose file is missing are kept.
std::vector<LdCacheRecord> containerLibraries(int root);

}  // namespace sarus::hooks
