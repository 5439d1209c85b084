#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hooks/kit/ld_cache.hpp"
#include "hooks/kit/library_directories.hpp"

namespace sarus::hooks {

/// What a linker cache lists.
struct LibraryScan {
    std::vector<LdCacheRecord> records;
    /// For a CacheStamp: the directories which were read, and below them the files whose content may come to mean another entry
    /// without a change of their directory.
    std::vector<std::string> examined;
    /// For the next scan: what was learnt from each file (library_table.hpp); empty if it is too much.
    std::string notes;
};

/// What is known from a scan of the same root filesystem at another time.
struct EarlierScan {
    /// A directory that is as it was: neither did its times change, nor what `examined` named in it.
    struct Folder {
        std::vector<LdCacheRecord> records;
        std::vector<std::string> names;      ///< what `examined` named below it
        std::vector<std::string> elsewhere;  ///< the paths of its links to files in no scanned directory
    };
    std::string notes;
    std::map<std::string, Folder, std::less<>> unchanged;  ///< by path
};

/// Finds the libraries that a cache of these directories lists, as ldconfig(8) does: names `lib*.so*` and `ld-*.so*`, by SONAME
/// or else by file name, the newest file of each SONAME in a directory, development links (`libx.so`) under their own name, and
/// the subdirectories of `glibc-hwcaps`. Unlike ldconfig it changes nothing: where the link named like the SONAME is missing, the
/// entry leads to the file itself. What is not a sound ELF library of a known machine is left out.
///
/// Directories that are as they were at the earlier scan are not looked at, and in others no file that is as it was is read again
/// (by inode, size and times), unless they lie on another filesystem than the root directory.
LibraryScan scanLibraries(int root, const std::vector<LibraryDirectory>& directories, const EarlierScan& earlier = {});

}  // namespace sarus::hooks
