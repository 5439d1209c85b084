#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooks/kit/elf.hpp"
#include "hooks/kit/linker_cache/library_directories.hpp"

namespace sarus::hooks {

/// A library found inside the root filesystem.
struct FoundLibrary {
    std::string path;  ///< absolute, as seen inside; may be a symbolic link
    dev_t device = 0;  ///< of the file behind it
    ino_t inode = 0;
    ElfFile elf;
};

/// Finds libraries of a container as its programs would: in the directories of their LD_LIBRARY_PATH, then
/// through the linker cache and in the dynamic linker's own directories. Omits missing and damaged files and
/// dangling symbolic links. Runs and writes nothing. Lists the directories, but does not open each file.
class LibrarySearch {
public:
    /// `libraryPath`: the container's LD_LIBRARY_PATH; only absolute directories count.
    LibrarySearch(int rootFd, std::string_view libraryPath);

    /// Adds directories to search before all others; omits those that do not exist.
    void prepend(const std::vector<std::string>& paths);

    /// The searched directories, in order.
    std::vector<std::string> directoryPaths() const;
    /// The dynamic linkers of the root filesystem.
    const std::vector<DynamicLinker>& linkers() const noexcept { return dynamicLinkers; }
    bool hasGlibc() const;
    /// Whether there is a readable linker cache.
    bool hasCache() const noexcept { return isCached; }

    /// The libraries for the machine of `like` whose file names `isWanted` accepts, in search order.
    std::vector<FoundLibrary> findAll(const ElfFile& like,
                                      const std::function<bool(std::string_view fileName)>& isWanted,
                                      ElfDetail detail) const;
    /// The library that a program that needs `name` (without a slash) would load.
    std::optional<FoundLibrary> find(const ElfFile& like, const std::string& name) const;
    /// The library `path`, an absolute path inside the root filesystem.
    std::optional<FoundLibrary> open(const ElfFile& like, const std::string& path, ElfDetail detail) const;

private:
    void readCache();

    /// What a file was when it was first read: many names lead to it.
    struct KnownFile {
        ElfDetail detail;
        std::optional<ElfFile> elf;  ///< nullopt: the dynamic linker could not use it
    };
    const KnownFile& examine(int place, struct stat& status, ElfDetail detail) const;

    int root;
    std::vector<DynamicLinker> dynamicLinkers;
    std::vector<LibraryDirectory> directories;
    std::size_t directoriesBeforeCache = 0;
    std::vector<std::string> cachedPaths;
    bool isCached = false;
    mutable std::map<std::pair<dev_t, ino_t>, KnownFile> knownFiles;
};

}  // namespace sarus::hooks
