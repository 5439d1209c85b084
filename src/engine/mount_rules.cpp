#include "engine/mount_rules.hpp"

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "oci/runtime/runtime_devices.hpp"

namespace sarus::engine {

namespace {

std::string refuse(std::string_view path) {
    return cat("'", printable(path), "' is not allowed as mount destination");
}

std::string refuseBelow(std::string_view prefix) {
    return cat("destination cannot be a subdirectory of '", printable(prefix), "'");
}

}  // namespace

std::optional<std::string> whyEnginesOwn(std::string_view destination) {
    return oci::whyReserved(normalizePath(destination));
}

std::optional<std::string> whyNotMountable(const UserMountRules& rules, std::string_view destination) {
    if (auto why = whyEnginesOwn(destination)) {
        return why;
    }
    const auto path = normalizePath(destination);
    if (std::any_of(rules.notAllowedPaths.begin(), rules.notAllowedPaths.end(),
                    [&](const auto& listed) { return path == normalizePath(listed); })) {
        return refuse(path);
    }
    for (const auto& prefix : rules.notAllowedPrefixesOfPath) {
        if (isSameOrBelow(path, normalizePath(prefix))) {
            return refuseBelow(prefix);
        }
    }
    return std::nullopt;
}

std::string hintForRefusal(std::string_view destination) {
    return whyEnginesOwn(destination) ? std::string()
                                      : "userMounts in the site's sarus.json reserves this place: choose "
                                        "another destination, such as a directory below /mnt";
}

void checkUserMountDestination(const UserMountRules& rules, std::string_view destination,
                               std::string_view request) {
    if (const auto why = whyNotMountable(rules, destination)) {
        throw Error(cat("Invalid mount request '", printable(request), "': ", *why),
                    hintForRefusal(destination));
    }
}

}  // namespace sarus::engine
