#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
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
        auto again = sarus::oci::parseMountRequest(sarus::oci::toText(mount));
        again.text = mount.text;
        if ((!mount.tmpfsSize && !mount.source.starts_with('/')) || !mount.destination.starts_with('/') ||
            again != mount) {
            std::abort();
        }
        examineDestination(mount.destination);
    } catch (const sarus::Error&) {
        examineDestination(std::string(text));  // refused as a request; still some path
    }
    try {
        const auto mount = sarus::oci::parseVolume(text, "-v", "/");
        using sarus::oci::volumeWord;
        const auto word = sarus::cat(volumeWord(mount.source), ':', volumeWord(mount.destination),
                                     mount.readonly ? ":ro" : "");
        auto again = sarus::oci::parseVolume(word, "-v", "/");
        again.text = mount.text;
        if (sarus::oci::splitVolumes(word).size() != 1 || again != mount) {
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
