#include "oci/runtime/mount_request.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <span>

#include "base/boolean.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::oci {

namespace {

Error invalid(std::string_view request, std::string_view why) {
    return Error(cat("Invalid mount request '", printable(request), "': ", why));
}

constexpr std::array<std::string_view, 3> destinationKeys{"destination", "dst", "target"};

/// "512m" in bytes; nullopt for anything else, also for 0.
std::optional<std::uint64_t> parseSize(std::string_view text) {
    unsigned shift = 0;
    if (!text.empty()) {
        const auto unit = std::string_view("kmg").find(static_cast<char>(text.back() | 0x20));
        if (unit != std::string_view::npos) {
            shift = 10U * (static_cast<unsigned>(unit) + 1U);
            text.remove_suffix(1);
        }
    }
    const auto number = parseNumber(text);
    if (!number || *number == 0 ||
        *number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) >> shift) {
        return std::nullopt;
    }
    return *number << shift;
}

using Options = std::map<std::string, std::string, std::less<>>;

Options parseOptions(std::string_view request) {
    const auto unparsable = [&](std::string_view why) {
        return Error(cat("Error parsing '", printable(request), "'. ", why));
    };
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

/// Returns the value of the only alias that was given, which must be an absolute path.
std::string readPath(const Options& options, std::span<const std::string_view> aliases,
                     std::string_view request) {
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
        throw invalid(request, cat(aliases.front(), " must be an absolute path"))
            .setHint(cat("'", printable(*path), "' does not begin with '/'"));
    }
    return *path;
}

}  // namespace

bool isTmpfsRequest(std::string_view request) {
    const auto pairs = split(request, ',');
    return std::find(pairs.begin(), pairs.end(), "type=tmpfs") != pairs.end();
}

TmpfsRequest parseTmpfsRequest(std::string_view request) {
    static constexpr std::array<std::string_view, 5> knownKeys{"type", "destination", "dst", "target",
                                                               "size"};
    const auto options = parseOptions(request);
    for (const auto& [key, value] : options) {
        if (std::find(knownKeys.begin(), knownKeys.end(), key) == knownKeys.end()) {
            throw invalid(request, cat("'", printable(key), "' is not a valid tmpfs mount option"));
        }
    }
    TmpfsRequest tmpfs{.destination = readPath(options, destinationKeys, request)};
    if (const auto size = options.find("size"); size != options.end()) {
        const auto bytes = parseSize(size->second);
        if (!bytes) {
            throw invalid(request, cat("'", printable(size->second), "' is not a size"))
                .setHint("Write a number of bytes, or one with k, m or g: size=512m");
        }
        tmpfs.size = *bytes;
    }
    return tmpfs;
}

MountRequest parseMountRequest(std::string_view request) {
    static constexpr std::array<std::string_view, 2> sourceKeys{"source", "src"};
    static constexpr std::array<std::string_view, 9> knownKeys{
        "type", "source", "src", "destination", "dst", "target", "readonly", "ro", "rw"};
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
    const auto flag = [&](std::string_view key) -> std::optional<bool> {
        const auto found = options.find(key);
        if (found == options.end()) {
            return std::nullopt;
        }
        const auto value = found->second.empty() ? std::optional(true) : parseBoolean(found->second);
        if (!value) {
            throw invalid(request, cat("'", printable(found->second), "' is not a value of '", key, "'"))
                .setHint(cat("Write ", key, ", or ", key, "=true or ", key, "=false"));
        }
        return value;
    };
    const auto rw = flag("rw");
    const std::array readonlyFlags{flag("readonly"), flag("ro")};
    const bool readonly = !rw.value_or(true) || std::any_of(readonlyFlags.begin(), readonlyFlags.end(),
                                                            [](auto one) { return one.value_or(false); });
    if (readonly && rw.value_or(false)) {
        throw invalid(request, "'rw' and 'readonly' cannot be used together");
    }
    return {readPath(options, sourceKeys, request), readPath(options, destinationKeys, request), readonly};
}

std::string toText(const MountRequest& mount) {
    return cat("type=bind,source=", mount.source, ",destination=", mount.destination,
               mount.readonly ? ",readonly" : "");
}

}  // namespace sarus::oci
