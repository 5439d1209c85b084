#include "hooks/mpi/cache_amendment.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "hooks/kit/linker_cache.hpp"
#include "hooks/kit/root_editor.hpp"
#include "hooks/kit/root_files.hpp"

namespace sarus::hooks::mpi {

namespace {

constexpr std::size_t kMaxCacheSize = 16U << 20U;

/// The records of a sound cache; nullopt if there is none.
std::optional<std::vector<LdCacheRecord>> readRecords(int root) {
    try {
        const auto bytes = tryReadFileInRoot(root, "/etc/ld.so.cache", kMaxCacheSize);
        if (!bytes) {
            return std::nullopt;
        }
        const auto cache = LdCache::parse(*bytes);
        std::vector<LdCacheRecord> records;
        for (const auto& entry : cache.entries()) {
            // Entries for particular processors in the way of old releases cannot be written any more; the common ones remain.
            if (entry.hwcap == 0 || !entry.hwcapsSubdirectory.empty()) {
                records.push_back(
                    {std::string(entry.name), std::string(entry.path), entry.flags, std::string(entry.hwcapsSubdirectory)});
            }
        }
        return records;
    } catch (const Error&) {
        return std::nullopt;  // a damaged cache is ignored by the dynamic linker, too
    }
}

bool leadToTheSame(int root, const std::string& a, const std::string& b) {
    struct stat first {};
    struct stat second {};
    const auto one = tryOpenInRoot(root, a);
    const auto other = tryOpenInRoot(root, b);
    return one && other && ::fstat(one.get(), &first) == 0 && ::fstat(other.get(), &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

bool isForSame(const LdCacheRecord& a, const LdCacheRecord& b) {
    return a.name == b.name && a.flags == b.flags;
}

}  // namespace

std::vector<LdCacheRecord> recordsOf(const std::vector<Injection>& injections) {
    std::vector<LdCacheRecord> records;
    for (const auto& injection : injections) {
        const auto flags = ldCacheFlags(injection.library.elf);
        for (const auto& name : injection.links) {
            if (flags) {
                records.push_back({name, injection.destinations.front(), *flags, {}});
            }
        }
    }
    return records;
}

void amendLinkerCache(int root, const std::vector<Injection>& injections) {
    auto present = readRecords(root);
    if (!present || injections.empty()) {
        updateLinkerCache(root);
        return;
    }
    auto missing = recordsOf(injections);
    std::erase_if(missing, [&](const LdCacheRecord& record) {
        const auto found =
            std::find_if(present->begin(), present->end(), [&](const auto& other) { return isForSame(record, other); });
        return found != present->end() && leadToTheSame(root, found->path, record.path);
    });
    if (missing.empty()) {
        return;
    }
    // The old entries of these names go, also those for particular processors: they lead to libraries of the image.
    std::erase_if(*present, [&](const LdCacheRecord& record) {
        return std::any_of(missing.begin(), missing.end(), [&](const auto& other) { return isForSame(record, other); });
    });
    present->insert(present->begin(), missing.begin(), missing.end());
    const bool isBigEndian = injections.front().library.elf.isBigEndian;
    RootEditor(root).replaceFile("/etc/ld.so.cache", serializeLdCache(*present, {}, isBigEndian), 0644);
}

}  // namespace sarus::hooks::mpi
