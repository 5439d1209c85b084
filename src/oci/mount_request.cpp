#include "oci/mount_request.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::oci {

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

}  // namespace sarus::oci
