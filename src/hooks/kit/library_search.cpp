#include "hooks/kit/library_search.hpp"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <set>
#include <unordered_set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "hooks/kit/host_library.hpp"
#include "hooks/kit/ld_cache.hpp"
#include "hooks/kit/root_files.hpp"

namespace sarus::hooks {

namespace {

constexpr std::size_t kMaxCacheSize = 16U << 20U;
constexpr std::size_t kMaxUserDirectories = 100;

struct CloseDir {
    void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

std::vector<std::string> listNames(int root, const std::string& directory,
                                   const std::function<bool(std::string_view)>& isWanted) {
    std::vector<std::string> names;
    UniqueFd fd = tryOpenDirectoryInRoot(root, directory);
    const std::unique_ptr<DIR, CloseDir> stream(fd ? ::fdopendir(fd.get()) : nullptr);
    if (stream) {
        fd.release();  // now the stream's
    }
    while (const dirent* entry = stream ? ::readdir(stream.get()) : nullptr) {
        if (isWanted(entry->d_name)) {
            names.emplace_back(entry->d_name);
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::string_view lastComponent(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}

}  // namespace

LibrarySearch::LibrarySearch(int rootFd, std::string_view libraryPath)
    : root(rootFd), dynamicLinkers(findDynamicLinkers(rootFd)) {
    std::set<std::pair<dev_t, ino_t>> seen;
    for (const auto& name : split(libraryPath, ':')) {
        if (!name.starts_with('/') || directories.size() == kMaxUserDirectories) {
            continue;
        }
        auto fd = tryOpenDirectoryInRoot(root, name);
        struct stat status {};
        if (fd && ::fstat(fd.get(), &status) == 0 && seen.emplace(status.st_dev, status.st_ino).second) {
            directories.push_back({name, std::move(fd), status.st_dev, status.st_ino});
        }
    }
    for (auto& directory : librarySearchDirectories(root, dynamicLinkers)) {
        if (seen.emplace(directory.device, directory.inode).second) {
            directories.push_back(std::move(directory));
        }
    }
    if (hasGlibc()) {
        readCache();
    }
}

bool LibrarySearch::hasGlibc() const {
    return std::any_of(dynamicLinkers.begin(), dynamicLinkers.end(),
                       [](const DynamicLinker& linker) { return linker.library == CLibrary::glibc; });
}

void LibrarySearch::readCache() {
    try {
        const auto bytes = tryReadFileInRoot(root, "/etc/ld.so.cache", kMaxCacheSize);
        if (!bytes) {
            return;
        }
        const auto cache = LdCache::parse(*bytes);
        for (const auto& entry : cache.entries()) {
            // Libraries for particular processors never stand alone, and their names are those of the common ones.
            if (entry.path.starts_with('/') && entry.hwcap == 0 && entry.hwcapsSubdirectory.empty()) {
                cachedPaths.emplace_back(entry.path);
            }
        }
        isCached = true;
    } catch (const Error&) {
        // A damaged cache is ignored by the dynamic linker, too.
    }
}

std::optional<FoundLibrary> LibrarySearch::open(const ElfFile& like, const std::string& path, ElfDetail detail) const {
    const auto file = tryOpenFileInRoot(root, path);
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0) {
        return std::nullopt;
    }
    try {
        auto elf = readElf(file.get(), detail);
        if (!elf || !elf->isDynamic || !isSameMachine(*elf, like)) {
            return std::nullopt;
        }
        return FoundLibrary{path, status.st_dev, status.st_ino, std::move(*elf)};
    } catch (const Error&) {
        return std::nullopt;  // the dynamic linker could not use it either
    }
}

std::vector<FoundLibrary> LibrarySearch::findAll(const ElfFile& like, const std::function<bool(std::string_view)>& isWanted,
                                                 ElfDetail detail) const {
    std::vector<std::string> paths;
    for (const auto& directory : directories) {
        for (const auto& name : listNames(root, directory.path, isWanted)) {
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
    for (const auto& directory : directories) {
        if (auto library = open(like, cat(directory.path, '/', name), ElfDetail::everything)) {
            return library;
        }
    }
    for (const auto& path : cachedPaths) {
        if (lastComponent(path) == name) {
            if (auto library = open(like, path, ElfDetail::everything)) {
                return library;
            }
        }
    }
    return std::nullopt;
}

}  // namespace sarus::hooks
