#include "engine/mount_request.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::engine {

namespace {

Error invalid(std::string_view request, std::string_view why) {
    return Error(cat("Invalid mount request '", printable(request), "': ", why));
}

using Options = std::map<std::string, std::string, std::less<>>;

Options parseOptions(std::string_view request) {
    const auto unparsable = [&](std::string_view why) { return Error(cat("Error parsing '", printable(request), "'. ", why)); };
    if (request.find('\0') != std::string_view::npos) {
        throw unparsable("It holds a NUL character");
    }
    Options options;
    for (const auto& pair : split(request, ',')) {
        const auto parts = split(pair, '=');
        if (parts[0].empty()) {
            throw unparsable("Expected a non-empty key");
        }
        if (parts.size() > 2) {
            throw unparsable(cat("The value of key '", printable(parts[0]), "' must not contain '='"));
        }
        if (!options.emplace(parts[0], parts.size() == 2 ? parts[1] : std::string()).second) {
            throw unparsable(cat("Found duplicate key '", printable(parts[0]), "'"));
        }
    }
    return options;
}

/// Takes the only one of the aliases that was given, which must be an absolute path.
std::string readPath(const Options& options, std::span<const std::string_view> aliases, std::string_view request) {
    const std::string* path = nullptr;
    std::string_view used;
    for (const auto alias : aliases) {
        const auto found = options.find(alias);
        if (found == options.end()) {
            continue;
        }
        if (path != nullptr) {
            throw invalid(request, cat("'", used, "' and '", alias, "' cannot be used together"));
        }
        path = &found->second;
        used = alias;
    }
    if (path == nullptr) {
        throw invalid(request, cat("no ", aliases.front(), " specified"));
    }
    if (path->empty()) {
        throw invalid(request, cat("the value of '", used, "' is empty"));
    }
    if (!path->starts_with('/')) {
        throw invalid(request, cat(aliases.front(), " '", printable(*path), "' must be an absolute path"));
    }
    return *path;
}

}  // namespace

MountRequest parseMountRequest(std::string_view request) {
    static constexpr std::array<std::string_view, 2> sourceKeys{"source", "src"};
    static constexpr std::array<std::string_view, 3> destinationKeys{"destination", "dst", "target"};
    static constexpr std::array<std::string_view, 7> knownKeys{"type", "source", "src",     "destination",
                                                               "dst",  "target", "readonly"};
    if (request.empty()) {
        throw Error("Invalid mount request: no values provided");
    }
    const auto options = parseOptions(request);
    const auto type = options.find("type");
    if (type == options.end()) {
        throw invalid(request, "'type' must be specified");
    }
    if (type->second != "bind") {
        throw invalid(request, cat("'", printable(type->second), "' is not a valid mount type"));
    }
    for (const auto& [key, value] : options) {
        if (std::find(knownKeys.begin(), knownKeys.end(), key) == knownKeys.end()) {
            throw invalid(request, cat("'", printable(key), "' is not a valid bind mount option"));
        }
    }
    return {readPath(options, sourceKeys, request), readPath(options, destinationKeys, request), options.contains("readonly")};
}

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
        throw invalid(request, *why);
    }
}

}  // namespace sarus::engine
