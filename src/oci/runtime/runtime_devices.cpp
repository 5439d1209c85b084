#include "oci/runtime/runtime_devices.hpp"

#include <algorithm>

#include "base/path_in_root.hpp"
#include "base/text.hpp"

namespace sarus::oci {

bool isRuntimeDevice(std::string_view path) {
    constexpr std::string_view devices = "/dev/";
    if (!path.starts_with(devices)) {
        return false;
    }
    path.remove_prefix(devices.size());
    const auto name = path.substr(0, path.find('/'));
    return std::find(runtimeDevices.begin(), runtimeDevices.end(), name) != runtimeDevices.end();
}

std::string_view kernelDirectoryOf(std::string_view path) {
    for (const std::string_view directory : {"/proc", "/sys"}) {
        if (isSameOrBelow(path, directory)) {
            return directory;
        }
    }
    return {};
}

bool isReserved(std::string_view path) {
    return path == "/" || path == "/dev" || isRuntimeDevice(path) || !kernelDirectoryOf(path).empty();
}

std::optional<std::string> whyReserved(std::string_view path) {
    if (const auto kernels = kernelDirectoryOf(path); !kernels.empty()) {
        return cat("destination cannot be a subdirectory of '", kernels, "'");
    }
    return isReserved(path)
               ? std::optional(cat("'", printable(path), "' is not allowed as mount destination"))
               : std::nullopt;
}

}  // namespace sarus::oci
