#include "engine/mount_rules.hpp"

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::engine {

std::string normalizePath(std::string_view path) {
    std::vector<std::string> kept;
    for (auto& component : split(path, '/')) {
        if (component == "..") {
            if (!kept.empty()) {
                kept.pop_back();
            }
        } else if (!component.empty() && component != ".") {
            kept.push_back(std::move(component));
        }
    }
    return cat("/", join(kept, "/"));
}

bool isSameOrBelow(std::string_view path, std::string_view directory) {
    if (directory == "/") {
        return true;
    }
    return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

std::optional<std::string> whyNotMountable(const UserMountRules& rules, std::string_view destination) {
    const auto path = normalizePath(destination);
    // The runtime creates device nodes in /dev, with the rights of root: never in a directory of the user.
    const bool isEnginesOwn = path == "/" || path == "/dev";
    const bool isListed = std::any_of(rules.notAllowedPaths.begin(), rules.notAllowedPaths.end(),
                                      [&](const auto& listed) { return path == normalizePath(listed); });
    if (isEnginesOwn || isListed) {
        return cat("'", printable(path), "' is not allowed as mount destination");
    }
    const auto refuseBelow = [](std::string_view prefix) {
        return cat("destination cannot be a subdirectory of '", printable(prefix), "'");
    };
    for (const std::string_view kernels : {"/proc", "/sys"}) {
        if (isSameOrBelow(path, kernels)) {
            return refuseBelow(kernels);
        }
    }
    for (const auto& prefix : rules.notAllowedPrefixesOfPath) {
        if (isSameOrBelow(path, normalizePath(prefix))) {
            return refuseBelow(prefix);
        }
    }
    return std::nullopt;
}

void checkUserMountDestination(const UserMountRules& rules, std::string_view destination, std::string_view request) {
    if (const auto why = whyNotMountable(rules, destination)) {
        throw Error(cat("Invalid mount request '", printable(request), "': ", *why));
    }
}

}  // namespace sarus::engine
