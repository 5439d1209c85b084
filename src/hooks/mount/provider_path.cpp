#include "hooks/mount/provider_path.hpp"

#include <fcntl.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "hooks/kit/linker_cache/library_search.hpp"

namespace sarus::hooks::mount {

std::optional<std::string> firstProviderDirectory(std::string_view value) {
    for (const auto& entry : split(value, ':')) {
        if (entry.starts_with('/') && entry.find('\0') == std::string::npos) {
            return entry;
        }
    }
    return std::nullopt;
}

bool isLibfabric(std::string_view fileName) noexcept {
    constexpr std::string_view start = "libfabric.so.";
    if (!fileName.starts_with(start)) {
        return false;
    }
    const auto version = fileName.substr(start.size());
    return !version.empty() && version.find_first_not_of("0123456789.") == std::string_view::npos;
}

std::optional<std::string> findProviderDirectory(int root, std::string_view libraryPath) {
    // The container's programs run on the processor for which this program was built.
    const auto self = openFile("/proc/self/exe", O_RDONLY);
    const auto machine = readElf(self.get(), ElfDetail::soname);
    if (!machine) {
        throw Error("Failed to read the program of the hook itself");
    }
    const auto found = LibrarySearch(root, libraryPath).findAll(*machine, isLibfabric, ElfDetail::soname);
    if (found.empty()) {
        return std::nullopt;
    }
    const auto& path = found.front().path;
    return cat(directoryOf(path), "/libfabric");
}

}  // namespace sarus::hooks::mount
