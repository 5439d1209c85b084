#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "hooks/kit/linker_cache/ld_cache.hpp"

/// What was read can be written, and reads back with as many entries; in its order once it has been sorted.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sarus::hooks;
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const auto records = [](const LdCache& cache) {
        std::vector<LdCacheRecord> result;
        for (const auto& entry : cache.entries()) {
            result.push_back({std::string(entry.name), std::string(entry.path), entry.flags,
                              std::string(entry.hwcapsSubdirectory)});
        }
        return result;
    };
    const auto noteOf = [](std::string_view text, std::string_view LdCacheNotes::*note) {
        ElfBytes source(text);
        return readLdCacheNote(source, text.size(), note);
    };
    noteOf(bytes, &LdCacheNotes::stamp);  // which is read from what may be no cache otherwise
    try {
        const auto cache = LdCache::parse(bytes);
        const auto first = records(cache);
        const auto stamp = noteOf(bytes, &LdCacheNotes::stamp).value_or("a stamp");
        const auto libraries = noteOf(bytes, &LdCacheNotes::libraries).value_or("libraries");
        const auto written = serializeLdCache(first, {stamp, libraries});
        if (records(LdCache::parse(written)).size() != first.size() ||
            noteOf(written, &LdCacheNotes::stamp) != stamp ||
            noteOf(written, &LdCacheNotes::libraries) != libraries) {
            std::abort();
        }
    } catch (const sarus::Error&) {
        return 0;  // refused, as most inputs should be
    }
    return 0;
}
