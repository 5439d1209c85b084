#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hooks/kit/linker_cache/ld_cache.hpp"
#include "hooks/kit/linker_cache/library_directories.hpp"

namespace sarus::hooks {

/// The content of a linker cache.
struct LibraryScan {
    std::vector<LdCacheRecord> records;
    /// For a CacheStamp: the directories read, and below them the files whose change may affect an entry
    /// without changing their directory.
    std::vector<std::string> examined;
    /// For the next scan: the results for each file (library_table.hpp); empty if they are too large.
    std::string notes;
};

/// Results of an earlier scan of the same root filesystem.
struct EarlierScan {
    /// A directory that is unchanged: neither its times nor the state of what `examined` lists in it.
    struct Folder {
        std::vector<LdCacheRecord> records;
        std::vector<std::string> names;  ///< what `examined` listed below it
        /// The paths of its links to files outside the scanned directories.
        std::vector<std::string> elsewhere;
    };
    std::string notes;
    std::map<std::string, Folder, std::less<>> unchanged;  ///< by path
};

/// Finds the libraries that a cache of these directories lists, as ldconfig(8) does: names `lib*.so*` and
/// `ld-*.so*`, by SONAME or otherwise by file name, the newest file of each SONAME in a directory,
/// development links (`libx.so`) under their own name, and the subdirectories of `glibc-hwcaps`. Unlike
/// ldconfig it changes nothing: if the link named after the SONAME is missing, the entry leads to the file
/// itself. Omits files that are not valid ELF libraries of a known machine.
///
/// Skips directories that have not changed since the earlier scan. In others, does not read unchanged files
/// again (by inode, size and times), unless they lie on a filesystem other than the root directory's.
LibraryScan scanLibraries(int root, const std::vector<LibraryDirectory>& directories,
                          const EarlierScan& earlier = {});

}  // namespace sarus::hooks
