#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.hpp"
#include "hooks/kit/linker_cache/cache_stamp.hpp"

/// A foreign stamp is read without harm, and the paths in it make a stamp that is right as long as nothing
/// changes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sarus;
    using namespace sarus::hooks;
    static const auto root = openFile("/usr", O_PATH | O_DIRECTORY);
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    checkStamp(root.get(), bytes);
    std::vector<std::string> paths;
    for (std::size_t start = 0; start < size;) {
        const auto end = std::min(bytes.find('\0', start), size);
        if (end > start) {
            paths.emplace_back(bytes.substr(start, end - start));
        }
        start = end + 1;
    }
    const auto stamp = makeCacheStamp(root.get(), paths, StampClock());
    if (stamp && !paths.empty() && !checkStamp(root.get(), *stamp).isCurrent) {
        std::abort();
    }
    return 0;
}
