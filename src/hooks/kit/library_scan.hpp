#pragma once

#include <string>
#include <string_view>
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

/// Finds the libraries that a cache of these directories lists, as ldconfig(8) does: names `lib*.so*` and `ld-*.so*`, by SONAME
/// or else by file name, the newest file of each SONAME in a directory, development links (`libx.so`) under their own name, and
/// the subdirectories of `glibc-hwcaps`. Unlike ldconfig it changes nothing: where the link named like the SONAME is missing, the
/// entry leads to the file itself. What is not a sound ELF library of a known machine is left out. Files which are as they were
/// when `oldNotes` were made, by inode, size and times, are not read again.
LibraryScan scanLibraries(int root, const std::vector<LibraryDirectory>& directories, std::string_view oldNotes = {});

}  // namespace sarus::hooks
