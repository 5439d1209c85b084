#include "hooks/mount/requests.hpp"

#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::hooks::mount {

namespace {

std::string replaceAll(std::string_view text, std::string_view what, std::string_view replacement) {
    std::string result;
    for (auto at = text.find(what); at != std::string_view::npos; at = text.find(what)) {
        result += text.substr(0, at);
        result += replacement;
        text.remove_prefix(at + what.size());
    }
    return result += text;
}

/// The wildcard as it is parsed: an absolute path, like the one that will take its place.
const std::string& rootedWildcard() {
    static const std::string text = cat('/', kProviderWildcard);
    return text;
}

Mount parseMount(std::string_view value) {
    Mount mount{.request = oci::parseMountRequest(replaceAll(value, kProviderWildcard, rootedWildcard()))};
    mount.hasWildcard = mount.request.destination.find(kProviderWildcard) != std::string::npos;
    if (mount.request.source.find(kProviderWildcard) != std::string::npos) {
        throw Error(cat("Invalid mount request '", printable(value), "': ", kProviderWildcard,
                        " may stand in the destination only: the container sets it, and a source is a path of the host"));
    }
    return mount;
}

/// The value if `argument` is the option `name`, with the next argument where it has none itself.
std::optional<std::string_view> valueOf(std::string_view name, std::span<const char* const> arguments, std::size_t& at) {
    const std::string_view argument = arguments[at];
    if (argument == name) {
        if (at + 1 == arguments.size()) {
            throw Error(cat("The option ", name, " needs a value"), "see \"args\" in the hook's JSON file");
        }
        return arguments[++at];
    }
    if (argument.starts_with(name) && argument[name.size()] == '=') {
        return argument.substr(name.size() + 1);
    }
    return std::nullopt;
}

}  // namespace

std::string Mount::destination(std::string_view providerPath) const {
    return replaceAll(request.destination, rootedWildcard(), providerPath);
}

Requests parseRequests(std::span<const char* const> arguments) {
    Requests requests;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (const auto text = valueOf("--mount", arguments, i)) {
            requests.mounts.push_back(parseMount(*text));
        } else if (const auto device = valueOf("--device", arguments, i)) {
            requests.devices.push_back(oci::parseDeviceRequest(*device));
        } else {
            throw Error(cat("Unknown argument ", printable(arguments[i])),
                        "\"args\" in the hook's JSON file are mount_hook, --mount=... and --device=...");
        }
    }
    return requests;
}

}  // namespace sarus::hooks::mount
