#include "hooks/kit/linker_cache/cache_amendment.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "container_root/editor.hpp"
#include "container_root/root_files.hpp"
#include "hooks/kit/linker_cache/linker_cache.hpp"

namespace sarus::hooks {

namespace {

/// The records of a valid cache; nullopt if there is none.
std::optional<std::vector<LdCacheRecord>> readRecords(int root) {
    try {
        const auto bytes = container_root::tryReadFileInRoot(root, cachePath, maxCacheSize);
        if (!bytes) {
            return std::nullopt;
        }
        const auto cache = LdCache::parse(*bytes);
        std::vector<LdCacheRecord> records;
        for (const auto& entry : cache.entries()) {
            // Entries for particular processors in the format of old releases can no longer be written; the
            // generic ones remain.
            if (entry.hwcap == 0 || !entry.hwcapsSubdirectory.empty()) {
                records.push_back({std::string(entry.name), std::string(entry.path), entry.flags,
                                   std::string(entry.hwcapsSubdirectory)});
            }
        }
        return records;
    } catch (const Error&) {
        return std::nullopt;  // the dynamic linker ignores a damaged cache, too
    }
}

bool isForSame(const LdCacheRecord& a, const LdCacheRecord& b) {
    return a.name == b.name && a.flags == b.flags;
}

/// Removes the records that the cache already answers with the same file.
void dropPresent(int root, const std::vector<LdCacheRecord>& present, std::vector<LdCacheRecord>& records) {
    const container_root::ContainerView view;  // once, instead of for each path
    std::erase_if(records, [&](const LdCacheRecord& record) {
        const auto found = std::find_if(present.begin(), present.end(),
                                        [&](const auto& other) { return isForSame(record, other); });
        return found != present.end() && container_root::leadToTheSame(root, found->path, record.path);
    });
}

}  // namespace

void amendLinkerCache(int root, std::vector<LdCacheRecord> records, bool isBigEndian) {
    auto present = readRecords(root);
    if (!present) {
        updateLinkerCache(root);
        return;
    }
    dropPresent(root, *present, records);
    if (records.empty()) {
        return;
    }
    // Remove old entries of these names, including those for particular processors: they lead to libraries of
    // the image.
    std::erase_if(*present, [&](const LdCacheRecord& record) {
        return std::any_of(records.begin(), records.end(),
                           [&](const auto& other) { return isForSame(record, other); });
    });
    present->insert(present->begin(), records.begin(), records.end());
    container_root::Editor(root).replaceFile(cachePath, serializeLdCache(*present, {}, isBigEndian), 0644);
}

}  // namespace sarus::hooks
