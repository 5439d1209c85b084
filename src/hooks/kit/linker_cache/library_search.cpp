#include "hooks/kit/linker_cache/library_search.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "container_root/root_files.hpp"
#include "hooks/kit/host_library.hpp"
#include "hooks/kit/linker_cache/ld_cache.hpp"

namespace sarus::hooks {

namespace {

constexpr std::size_t maxUserDirectories = 100;

std::vector<std::string> listNames(const LibraryDirectory& directory,
                                   const std::function<bool(std::string_view)>& isWanted) {
    std::vector<std::string> names;
    auto entries = Directory::of(directory.fd.get(), directory.path);
    while (const char* name = entries.next()) {
        if (isWanted(name)) {
            names.emplace_back(name);
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::string_view lastComponent(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}

bool isNamed(std::string_view path, std::string_view name) {
    return path.size() > name.size() && path.ends_with(name) && path[path.size() - name.size() - 1] == '/';
}

/// The absolute paths that are directories not seen yet.
std::vector<LibraryDirectory> openAll(int root, const std::vector<std::string>& paths,
                                      std::set<std::pair<dev_t, ino_t>>& seen) {
    std::vector<LibraryDirectory> result;
    for (const auto& path : paths) {
        if (!path.starts_with('/') || result.size() == maxUserDirectories) {
            continue;
        }
        auto fd = container_root::tryOpenDirectoryInRoot(root, path);
        struct stat status {};
        if (fd && ::fstat(fd.get(), &status) == 0 && seen.emplace(status.st_dev, status.st_ino).second) {
            result.push_back({path, std::move(fd), status.st_dev, status.st_ino});
        }
    }
    return result;
}

}  // namespace

LibrarySearch::LibrarySearch(int rootFd, std::string_view libraryPath)
    : root(rootFd), dynamicLinkers(findDynamicLinkers(rootFd)) {
    const container_root::ContainerView view;
    std::set<std::pair<dev_t, ino_t>> seen;
    directories = openAll(root, split(libraryPath, ':'), seen);
    directoriesBeforeCache = directories.size();
    for (auto& directory : librarySearchDirectories(root, dynamicLinkers)) {
        if (seen.emplace(directory.device, directory.inode).second) {
            directories.push_back(std::move(directory));
        }
    }
    if (hasGlibc()) {
        readCache();
    }
}

void LibrarySearch::prepend(const std::vector<std::string>& paths) {
    std::set<std::pair<dev_t, ino_t>> seen;
    auto first = openAll(root, paths, seen);
    const auto isRepeated = [&](const LibraryDirectory& other) {
        return seen.contains({other.device, other.inode});
    };
    const auto boundary = directories.begin() + static_cast<std::ptrdiff_t>(directoriesBeforeCache);
    directoriesBeforeCache -=
        static_cast<std::size_t>(std::count_if(directories.begin(), boundary, isRepeated));
    std::erase_if(directories, isRepeated);
    directoriesBeforeCache += first.size();
    directories.insert(directories.begin(), std::make_move_iterator(first.begin()),
                       std::make_move_iterator(first.end()));
}

std::vector<std::string> LibrarySearch::directoryPaths() const {
    std::vector<std::string> paths;
    for (const auto& directory : directories) {
        paths.push_back(directory.path);
    }
    return paths;
}

bool LibrarySearch::hasGlibc() const {
    return std::any_of(dynamicLinkers.begin(), dynamicLinkers.end(),
                       [](const DynamicLinker& linker) { return linker.library == CLibrary::glibc; });
}

void LibrarySearch::readCache() {
    try {
        const auto bytes = container_root::tryReadFileInRoot(root, cachePath, maxCacheSize);
        if (!bytes) {
            return;
        }
        const auto cache = LdCache::parse(*bytes);
        for (const auto& entry : cache.entries()) {
            // Libraries for particular processors always accompany a generic one of the same name.
            if (entry.path.starts_with('/') && entry.hwcap == 0 && entry.hwcapsSubdirectory.empty()) {
                cachedPaths.emplace_back(entry.path);
            }
        }
        isCached = true;
    } catch (const Error&) {
        // The dynamic linker ignores a damaged cache, too.
    }
}

const LibrarySearch::KnownFile& LibrarySearch::examine(int place, struct stat& status,
                                                       ElfDetail detail) const {
    const auto [position, isNew] =
        knownFiles.emplace(std::pair(status.st_dev, status.st_ino), KnownFile{detail, std::nullopt});
    auto& known = position->second;
    if (isNew || (known.detail == ElfDetail::soname && detail == ElfDetail::everything)) {
        known = {detail, std::nullopt};
        try {
            const auto file = container_root::tryOpenFound(place, status);
            known.elf = file ? readElf(file.get(), detail) : std::nullopt;
        } catch (const Error&) {
            // the dynamic linker could not use it either
        }
    }
    return known;
}

std::optional<FoundLibrary> LibrarySearch::open(const ElfFile& like, const std::string& path,
                                                ElfDetail detail) const {
    const container_root::ContainerView view;
    const auto place = container_root::tryFindInRoot(root, path);
    struct stat status {};
    if (!place || ::fstat(place.get(), &status) != 0) {
        return std::nullopt;
    }
    const auto& elf = examine(place.get(), status, detail).elf;
    if (!elf || !elf->isDynamic || !isSameMachine(*elf, like)) {
        return std::nullopt;
    }
    return FoundLibrary{path, status.st_dev, status.st_ino, *elf};
}

std::vector<FoundLibrary> LibrarySearch::findAll(const ElfFile& like,
                                                 const std::function<bool(std::string_view)>& isWanted,
                                                 ElfDetail detail) const {
    const container_root::ContainerView view;
    std::vector<std::string> paths;
    for (const auto& directory : directories) {
        for (const auto& name : listNames(directory, isWanted)) {
            paths.push_back(cat(directory.path, '/', name));
        }
    }
    std::unordered_set<std::string> known(paths.begin(), paths.end());
    for (const auto& path : cachedPaths) {
        if (isWanted(lastComponent(path)) && known.insert(path).second) {
            paths.push_back(path);
        }
    }
    std::vector<FoundLibrary> result;
    for (const auto& path : paths) {
        if (auto library = open(like, path, detail)) {
            result.push_back(std::move(*library));
        }
    }
    return result;
}

std::optional<FoundLibrary> LibrarySearch::find(const ElfFile& like, const std::string& name) const {
    const container_root::ContainerView view;
    const auto inDirectories = [&](std::size_t first, std::size_t end) -> std::optional<FoundLibrary> {
        for (auto i = first; i < end; ++i) {
            if (auto library = open(like, cat(directories[i].path, '/', name), ElfDetail::everything)) {
                return library;
            }
        }
        return std::nullopt;
    };
    if (auto library = inDirectories(0, directoriesBeforeCache)) {
        return library;
    }
    for (const auto& path : cachedPaths) {
        if (isNamed(path, name)) {
            if (auto library = open(like, path, ElfDetail::everything)) {
                return library;
            }
        }
    }
    return inDirectories(directoriesBeforeCache, directories.size());
}

}  // namespace sarus::hooks
