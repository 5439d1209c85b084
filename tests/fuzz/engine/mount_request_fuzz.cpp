#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "base/path_in_root.hpp"
#include "engine/mount_rules.hpp"
#include "oci/runtime/device_request.hpp"
#include "oci/runtime/mount_request.hpp"

namespace {

/// Normalising is stable, and no spelling of a path below /etc passes the rules.
void examineDestination(const std::string& destination) {
    using namespace sarus::engine;
    using sarus::normalizePath;
    const auto path = normalizePath(destination);
    const UserMountRules rules{{"/etc"}, {}};
    const bool isBelowEtc = path == "/etc" || path.starts_with("/etc/");
    if (normalizePath(path) != path || !path.starts_with('/') ||
        (isBelowEtc && !whyNotMountable(rules, destination))) {
        std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
        const auto mount = sarus::oci::parseMountRequest(text);
        if (!mount.source.starts_with('/') || !mount.destination.starts_with('/')) {
            std::abort();
        }
        examineDestination(mount.destination);
    } catch (const sarus::Error&) {
        examineDestination(std::string(text));  // refused as a request; still some path
    }
    try {
        if (!sarus::oci::parseTmpfsRequest(text).destination.starts_with('/')) {
            std::abort();
        }
    } catch (const sarus::Error&) {
        examineDestination(std::string(text));
    }
    try {
        const auto device = sarus::oci::parseDeviceRequest(text);
        if (!device.source.starts_with('/') || !device.destination.starts_with('/') ||
            !sarus::oci::isDeviceAccess(device.access)) {
            std::abort();
        }
    } catch (const sarus::Error&) {
        return 0;  // refused, as most inputs should be
    }
    return 0;
}
