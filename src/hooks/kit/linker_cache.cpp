#include "hooks/kit/linker_cache.hpp"

#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "hooks/kit/atomic_root_file.hpp"
#include "hooks/kit/cache_stamp.hpp"
#include "hooks/kit/library_scan.hpp"
#include "hooks/kit/root_files.hpp"

namespace sarus::hooks {

namespace {

constexpr std::size_t kMaxCacheSize = 16U << 20U;
constexpr std::string_view kCache = "/etc/ld.so.cache";

std::optional<std::string> readCache(int root) {
    try {
        return tryReadFileInRoot(root, std::string(kCache), kMaxCacheSize);
    } catch (const Error&) {
        return std::nullopt;  // too large to be one: as good as none
    }
}

LinkerCacheResult describe(LinkerCacheUpdate update, const struct stat& status) {
    return {update, CacheFile{static_cast<std::uint64_t>(status.st_size), status.st_mtim.tv_sec}};
}

/// The cache if it is ours and still right.
std::optional<LinkerCacheResult> findCurrentCache(int root) {
    const auto file = tryOpenFileInRoot(root, kCache);
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0) {
        return std::nullopt;
    }
    ByteSource source(file.get());
    const auto stamp = readLdCacheStamp(source, static_cast<std::uint64_t>(status.st_size));
    return stamp && isStampCurrent(root, *stamp) ? std::optional(describe(LinkerCacheUpdate::unchanged, status)) : std::nullopt;
}

LinkerCacheResult existingCache(int root) {
    const auto file = tryOpenFileInRoot(root, kCache);
    struct stat status {};
    return file && ::fstat(file.get(), &status) == 0 ? describe(LinkerCacheUpdate::notNeeded, status)
                                                     : LinkerCacheResult{LinkerCacheUpdate::notNeeded, std::nullopt};
}

}  // namespace

LinkerCacheResult updateLinkerCache(int root) {
    if (const auto current = findCurrentCache(root)) {
        return *current;
    }
    const StampClock clock;
    auto linkers = findDynamicLinkers(root);
    std::erase_if(linkers, [](const DynamicLinker& linker) { return linker.library != CLibrary::glibc; });
    if (linkers.empty() || !tryOpenDirectoryInRoot(root, "/etc")) {
        return existingCache(root);
    }
    // Programs for another dynamic linker make other directories matter.
    std::vector<std::string> names{"/lib", "/lib64"};
    for (const auto& linker : linkers) {
        names.emplace_back(linker.path);
    }
    const auto directories = librarySearchDirectories(root, linkers, &names);
    auto scan = scanLibraries(root, directories);
    std::set<std::string_view> known(scan.examined.begin(), scan.examined.end());
    std::copy_if(names.begin(), names.end(), std::back_inserter(scan.examined),
                 [&known](const std::string& name) { return known.insert(name).second; });
    const auto stamp = makeCacheStamp(root, scan.examined, clock);
    const auto content = serializeLdCache(scan.records, stamp.value_or(""));
    replaceFileInRoot(root, kCache, content, 0644);
    return {LinkerCacheUpdate::written, CacheFile{content.size(), ::time(nullptr)}};
}

void updateLinkerCacheIfPossible(int root, const HookLog& log) {
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
    const bool isGlibc =
        std::any_of(linkers.begin(), linkers.end(), [](const auto& linker) { return linker.library == CLibrary::glibc; });
    if (const auto bytes = isGlibc ? readCache(root) : std::nullopt) {
        try {
            const auto cache = LdCache::parse(*bytes);
            std::vector<LdCacheRecord> records;
            records.reserve(cache.entries().size());
            for (const auto& entry : cache.entries()) {
                records.push_back(
                    {std::string(entry.name), std::string(entry.path), entry.flags, std::string(entry.hwcapsSubdirectory)});
            }
            return records;
        } catch (const Error&) {
            // A damaged cache is ignored by the dynamic linker, too.
        }
    }
    return scanLibraries(root, librarySearchDirectories(root, linkers)).records;
}

}  // namespace sarus::hooks
