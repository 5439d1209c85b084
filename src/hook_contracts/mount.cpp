#include "hook_contracts/mount.hpp"

#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::hook_contracts {

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

/// The wildcard after parsing: an absolute path, like its later replacement.
const std::string& rootedWildcard() {
    static const std::string text = cat('/', providerWildcard);
    return text;
}

RequestedMount parseMount(std::string_view value) {
    RequestedMount mount{.request =
                             oci::parseMountRequest(replaceAll(value, providerWildcard, rootedWildcard()))};
    if (mount.request.tmpfsSize || mount.request.isSquashfs) {
        throw Error(cat("Invalid mount request '", printable(value), "': '",
                        mount.request.isSquashfs ? "squashfs" : "tmpfs", "' is not a valid mount type"));
    }
    mount.hasWildcard = mount.request.destination.find(providerWildcard) != std::string::npos;
    if (mount.request.source.find(providerWildcard) != std::string::npos) {
        throw Error(cat(
            "Invalid mount request '", printable(value), "': ", providerWildcard,
            " may stand in the destination only: the container sets it, and a source is a path of the host"));
    }
    return mount;
}

/// The value if `argument` is the option `name`; taken from the next argument if it has none itself.
std::optional<std::string_view> valueOf(std::string_view name, std::span<const std::string> arguments,
                                        std::size_t& at) {
    const std::string_view argument = arguments[at];
    if (argument == name) {
        if (at + 1 == arguments.size()) {
            throw Error(cat("The option ", name, " needs a value"), "See \"args\" in the hook's JSON file");
        }
        return arguments[++at];
    }
    if (argument.starts_with(name) && argument[name.size()] == '=') {
        return argument.substr(name.size() + 1);
    }
    return std::nullopt;
}

}  // namespace

std::string RequestedMount::destination(std::string_view providerPath) const {
    return replaceAll(request.destination, rootedWildcard(), providerPath);
}

MountRequests parseMountRequests(std::span<const std::string> arguments) {
    MountRequests requests;
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

std::vector<HookDevice> devicesOfMountHook(const HookCall& call) {
    std::vector<HookDevice> devices;
    for (auto& request : parseMountRequests(withoutProgram(call.hook.args)).devices) {
        devices.push_back({std::move(request.source), std::move(request.access)});
    }
    return devices;
}

}  // namespace sarus::hook_contracts
