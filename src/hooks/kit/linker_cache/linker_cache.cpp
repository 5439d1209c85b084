#include "hooks/kit/linker_cache/linker_cache.hpp"

#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "container_root/editor.hpp"
#include "container_root/root_files.hpp"
#include "hooks/kit/linker_cache/cache_stamp.hpp"
#include "hooks/kit/linker_cache/library_files.hpp"
#include "hooks/kit/linker_cache/library_scan.hpp"

namespace sarus::hooks {

namespace {

std::optional<std::string> readCache(int root) {
    try {
        return container_root::tryReadFileInRoot(root, cachePath, maxCacheSize);
    } catch (const Error&) {
        return std::nullopt;  // too large: treat it as missing
    }
}

/// The existing cache, whoever wrote it.
class PresentCache {
public:
    explicit PresentCache(int root)
        : file(container_root::tryOpenFileInRoot(root, cachePath)), source(file.get()) {
        if (file && ::fstat(file.get(), &status) != 0) {
            file.reset();
        }
    }

    LinkerCacheResult describe(LinkerCacheUpdate update) const {
        return {update, file ? std::optional(CacheFile{size(), status.st_mtim.tv_sec}) : std::nullopt};
    }

    /// Empty if the cache is not ours.
    std::string note(std::string_view LdCacheNotes::*which) {
        return (file ? readLdCacheNote(source, size(), which) : std::nullopt).value_or("");
    }

    /// Its bytes; throws Error if it is too large for a cache.
    std::string content() const { return readAll(file.get(), maxCacheSize, cachePath); }

private:
    std::uint64_t size() const { return static_cast<std::uint64_t>(status.st_size); }

    UniqueFd file;
    ElfBytes source;
    struct stat status {};
};

/// Adds the cache's records to the unchanged directories.
void addRecords(EarlierScan& scan, std::string_view content) {
    const auto cache = LdCache::parse(content);
    for (const auto& entry : cache.entries()) {
        const auto found = scan.unchanged.find(entry.path.substr(0, entry.path.rfind('/')));
        if (found != scan.unchanged.end()) {
            found->second.records.push_back({std::string(entry.name), std::string(entry.path), entry.flags,
                                             std::string(entry.hwcapsSubdirectory)});
        }
    }
}

/// The cache's information about the scan from which it was made.
EarlierScan readEarlierScan(PresentCache& cache, const StampCheck& check) {
    EarlierScan scan{cache.note(&LdCacheNotes::libraries), {}};
    for (const auto& group : check.groups) {
        if (group.isUnchanged) {
            auto& names = scan.unchanged[std::string(group.path)].names;
            names.assign(group.names.begin(), group.names.end());
        }
    }
    // A link that leads elsewhere may now mean another library although its directory is unchanged.
    for (const auto& group : check.groups) {
        const auto slash = std::min(group.path.rfind('/'), group.path.size());
        const auto folder = scan.unchanged.find(group.path.substr(0, slash));
        if (folder == scan.unchanged.end() ||
            !isLibraryName(group.path.substr(std::min(slash + 1, group.path.size())))) {
            continue;
        }
        if (group.isUnchanged) {
            folder->second.elsewhere.emplace_back(group.path);
        } else {
            scan.unchanged.erase(folder);
        }
    }
    try {
        if (!scan.unchanged.empty()) {
            addRecords(scan, cache.content());
        }
    } catch (const Error&) {
        scan.unchanged.clear();
    }
    return scan;
}

/// The dynamic linkers that read such a cache; none if it has no place.
std::vector<DynamicLinker> readersOfCache(int root) {
    auto linkers = findDynamicLinkers(root);
    std::erase_if(linkers, [](const DynamicLinker& linker) { return linker.library != CLibrary::glibc; });
    if (!linkers.empty() && !container_root::tryOpenDirectoryInRoot(root, "/etc")) {
        linkers.clear();
    }
    return linkers;
}

}  // namespace

LinkerCacheUpdate predictLinkerCache(int root) {
    PresentCache present(root);
    const auto stamp = present.note(&LdCacheNotes::stamp);
    if (checkStamp(root, stamp).isCurrent) {
        return LinkerCacheUpdate::unchanged;
    }
    return readersOfCache(root).empty() ? LinkerCacheUpdate::notNeeded : LinkerCacheUpdate::written;
}

LinkerCacheResult updateLinkerCache(int root) {
    PresentCache present(root);
    const auto oldStamp = present.note(&LdCacheNotes::stamp);
    const auto check = checkStamp(root, oldStamp);
    if (check.isCurrent) {
        return present.describe(LinkerCacheUpdate::unchanged);
    }
    const StampClock clock;
    const auto linkers = readersOfCache(root);
    if (linkers.empty()) {
        return present.describe(LinkerCacheUpdate::notNeeded);
    }
    // Programs for another dynamic linker would make other directories relevant.
    std::vector<std::string> names{"/lib", "/lib64"};
    for (const auto& linker : linkers) {
        names.emplace_back(linker.path);
    }
    const auto directories = librarySearchDirectories(root, linkers, &names);
    auto scan = scanLibraries(root, directories, readEarlierScan(present, check));
    scan.examined.reserve(scan.examined.size() + names.size());  // otherwise the views would become invalid
    std::set<std::string_view> known(scan.examined.begin(), scan.examined.end());
    std::copy_if(names.begin(), names.end(), std::back_inserter(scan.examined),
                 [&known](const std::string& name) { return known.insert(name).second; });
    const auto stamp = makeCacheStamp(root, scan.examined, clock);
    const auto content =
        serializeLdCache(scan.records, {stamp ? std::string_view(*stamp) : std::string_view(), scan.notes});
    container_root::Editor(root).replaceFile(cachePath, content, 0644);
    return {LinkerCacheUpdate::written, CacheFile{content.size(), ::time(nullptr)}};
}

void updateLinkerCacheIfPossible(int root, const HookLogger& log) {
    try {
        updateLinkerCache(root);
    } catch (const Error& error) {
        if (error.errnum() != EROFS && error.errnum() != EXDEV) {
            throw;
        }
        log.warn(error.what());
    }
}

std::vector<LdCacheRecord> containerLibraries(int root) {
    const auto linkers = findDynamicLinkers(root);
    const bool isGlibc = std::any_of(linkers.begin(), linkers.end(),
                                     [](const auto& linker) { return linker.library == CLibrary::glibc; });
    if (const auto bytes = isGlibc ? readCache(root) : std::nullopt) {
        try {
            const auto cache = LdCache::parse(*bytes);
            std::vector<LdCacheRecord> records;
            records.reserve(cache.entries().size());
            for (const auto& entry : cache.entries()) {
                records.push_back({std::string(entry.name), std::string(entry.path), entry.flags,
                                   std::string(entry.hwcapsSubdirectory)});
            }
            return records;
        } catch (const Error&) {
            // The dynamic linker ignores a damaged cache, too.
        }
    }
    return scanLibraries(root, librarySearchDirectories(root, linkers)).records;
}

}  // namespace sarus::hooks
