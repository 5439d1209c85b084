#include "oci/runtime/runtime_devices.hpp"

#include <algorithm>

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

}  // namespace sarus::oci
