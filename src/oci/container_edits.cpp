#include "oci/container_edits.hpp"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "oci/hook_config.hpp"
#include "oci/json_node.hpp"

namespace sarus::oci {

namespace {

using Json = nlohmann::ordered_json;
using Node = JsonNode<Json>;

constexpr mode_t permissionBits = 07777;

/// `read(key, member)` returns false for a key that it does not know.
template <typename Read>
void forEachKey(const Node& node, EditsDialect dialect, std::string_view expected, Read read) {
    for (const auto& [key, content] : node.object(expected).items()) {
        if (!read(key, node.member(key, content)) && dialect == EditsDialect::cdi) {
            node.reject(cat("unknown key '", printable(key), "'"));
        }
    }
}

std::uint64_t readNumber(const Node& node, std::uint64_t largest, std::string_view expected) {
    const auto& json = node.value();
    if (!json.is_number_unsigned() || json.get<std::uint64_t>() > largest) {
        node.fail(expected);
    }
    return json.get<std::uint64_t>();
}

std::int64_t readDeviceNumber(const Node& node) {
    const auto& json = node.value();
    if (!json.is_number_integer() || json.get<std::int64_t>() < 0 || json.get<std::int64_t>() > UINT32_MAX) {
        node.fail("a device number");
    }
    return json.get<std::int64_t>();
}

template <typename Id>
Id readId(const Node& node) {
    return static_cast<Id>(readNumber(node, std::numeric_limits<Id>::max() - 1, "a numeric id"));
}

std::vector<std::string> readStrings(const Node& node) {
    return node.list("a list of strings", [](const Node& element) { return element.string(); });
}

std::pair<std::string, std::string> readVariable(const Node& node) {
    const auto entry = node.string("a string NAME=VALUE");
    const auto separator = entry.find('=');
    if (separator == std::string::npos) {
        node.reject(cat("Invalid env entry '", printable(entry), "': expected NAME=VALUE"));
    }
    if (separator == 0) {
        node.reject(cat("Empty environment variable name in '", printable(entry), "'"));
    }
    return {entry.substr(0, separator), entry.substr(separator + 1)};
}

std::string readDeviceType(const Node& node) {
    constexpr std::string_view expected = "\"b\", \"c\", \"u\" or \"p\"";
    auto type = node.string(expected);
    if (type.size() > 1 || (type.size() == 1 && std::string_view("bcup").find(type[0]) == std::string_view::npos)) {
        node.fail(expected);
    }
    return type;
}

std::string readPermissions(const Node& node) {
    constexpr std::string_view expected = "a combination of r, w and m, or \"none\"";
    auto access = node.string(expected);
    if (access != "none" && access.find_first_not_of("rwm") != std::string::npos) {
        node.fail(expected);
    }
    return access;
}

DeviceNodeEdit readDeviceNode(const Node& node, EditsDialect dialect) {
    DeviceNodeEdit device;
    forEachKey(node, dialect, "an object that describes a device node", [&](const std::string& key, const Node& member) {
        if (key == "path") {
            device.path = member.absolutePath();
        } else if (key == "hostPath") {
            device.hostPath = member.value() == "" ? "" : member.absolutePath();
        } else if (key == "type") {
            device.type = readDeviceType(member);
        } else if (key == "major") {
            device.major = readDeviceNumber(member);
        } else if (key == "minor") {
            device.minor = readDeviceNumber(member);
        } else if (key == "fileMode") {
            // The type bits are those of the node anyway; some generators copy the whole st_mode.
            device.fileMode = static_cast<mode_t>(readNumber(member, UINT32_MAX, "a file mode as a number")) & permissionBits;
        } else if (key == "permissions") {
            device.permissions = readPermissions(member);
        } else if (key == "uid") {
            device.uid = readId<uid_t>(member);
        } else if (key == "gid") {
            device.gid = readId<gid_t>(member);
        } else {
            return false;
        }
        return true;
    });
    if (device.path.empty()) {
        node.reject("the required key 'path' is missing");
    }
    return device;
}

MountEdit readMount(const Node& node, EditsDialect dialect) {
    MountEdit mount;
    bool hasSource = false;
    bool hasDestination = false;
    forEachKey(node, dialect, "an object that describes a mount", [&](const std::string& key, const Node& member) {
        const bool absent = dialect == EditsDialect::precreate && member.value().is_null();
        if (key == "hostPath") {
            mount.hostPath = member.string("a path");
            hasSource = true;
        } else if (key == "containerPath") {
            mount.containerPath = dialect == EditsDialect::cdi ? member.absolutePath() : member.string("a path");
            hasDestination = true;
        } else if (key == "type") {
            mount.type = absent ? std::nullopt : std::optional(member.string());
        } else if (key == "options") {
            mount.options = absent ? std::nullopt : std::optional(readStrings(member));
        } else {
            return false;
        }
        return true;
    });
    if (!hasSource || !hasDestination) {
        node.reject(cat("the required key '", hasSource ? "containerPath" : "hostPath", "' is missing"));
    }
    const bool isBind = mount.type.value_or("").empty() || mount.type == "bind";
    if (dialect == EditsDialect::cdi && isBind && !mount.hostPath.starts_with('/')) {
        node.reject(cat("hostPath: expected an absolute path, found '", printable(mount.hostPath), "'"));
    }
    return mount;
}

HookEdit readHook(const Node& node, EditsDialect dialect) {
    HookEdit edit;
    forEachKey(node, dialect, "an object that describes a hook", [&](const std::string& key, const Node& member) {
        if (key == "hookName") {
            const std::vector<std::string> known(hookStages().begin() + 1, hookStages().end());  // without precreate
            edit.stage = member.string("the name of a stage");
            if (std::find(known.begin(), known.end(), edit.stage) == known.end()) {
                member.fail(cat("one of ", join(known, ", ")));
            }
        } else if (key == "path") {
            edit.hook.path = member.absolutePath();
        } else if (key == "args") {
            edit.hook.args = readStrings(member);
        } else if (key == "env") {
            for (auto& [name, value] : member.list("a list of strings", readVariable)) {
                edit.hook.env.push_back(cat(name, "=", value));
            }
        } else if (key == "timeout") {
            const auto seconds = readNumber(member, INT32_MAX, "a whole number of seconds");
            edit.hook.timeout = seconds == 0 ? std::nullopt : std::optional(seconds);
        } else {
            return false;
        }
        return true;
    });
    if (edit.stage.empty() || edit.hook.path.empty()) {
        node.reject(cat("the required key '", edit.stage.empty() ? "hookName" : "path", "' is missing"));
    }
    return edit;
}

IntelRdtEdit readIntelRdt(const Node& node, EditsDialect dialect) {
    IntelRdtEdit edit;
    forEachKey(node, dialect, "an object", [&](const std::string& key, const Node& member) {
        if (key == "closID") {
            edit.closId = member.string();
        } else if (key == "l3CacheSchema") {
            edit.l3CacheSchema = member.string();
        } else if (key == "memBwSchema") {
            edit.memBwSchema = member.string();
        } else if (key == "schemata") {
            edit.schemata = readStrings(member);
        } else if (key == "enableMonitoring") {
            edit.enableMonitoring = member.boolean();
        } else {
            return false;
        }
        return true;
    });
    return edit;
}

NetDeviceEdit readNetDevice(const Node& node, EditsDialect dialect) {
    NetDeviceEdit edit;
    forEachKey(node, dialect, "an object that describes a network device", [&](const std::string& key, const Node& member) {
        if (key == "hostInterfaceName") {
            edit.hostInterfaceName = member.string();
        } else if (key == "name") {
            edit.name = member.string();
        } else {
            return false;
        }
        return true;
    });
    if (edit.hostInterfaceName.empty()) {
        node.reject("the required key 'hostInterfaceName' is missing");
    }
    return edit;
}

/// What CDI has besides variables and mounts; false for an unknown key.
bool readDeviceKey(const std::string& key, const Node& member, ContainerEdits& edits) {
    constexpr auto dialect = EditsDialect::cdi;
    if (key == "deviceNodes") {
        edits.deviceNodes =
            member.list("a list of device nodes", [](const Node& element) { return readDeviceNode(element, dialect); });
    } else if (key == "hooks") {
        edits.hooks = member.list("a list of hooks", [](const Node& element) { return readHook(element, dialect); });
    } else if (key == "additionalGids") {
        edits.additionalGids = member.list("a list of group ids", readId<gid_t>);
    } else if (key == "intelRdt") {
        edits.intelRdt = readIntelRdt(member, dialect);
    } else if (key == "netDevices") {
        edits.netDevices =
            member.list("a list of network devices", [](const Node& element) { return readNetDevice(element, dialect); });
    } else {
        return false;
    }
    return true;
}

}  // namespace

bool ContainerEdits::empty() const noexcept {
    return env.empty() && deviceNodes.empty() && mounts.empty() && hooks.empty() && additionalGids.empty() && !intelRdt &&
           netDevices.empty();
}

ContainerEdits readContainerEdits(const Node& node, EditsDialect dialect) {
    ContainerEdits edits;
    forEachKey(node, dialect, "an object with edits of the container", [&](const std::string& key, const Node& member) {
        if (key == "env") {
            edits.env = member.list("a list of strings NAME=VALUE", readVariable);
        } else if (key == "mounts") {
            edits.mounts = member.list("a list of mounts", [&](const Node& element) { return readMount(element, dialect); });
        } else {
            return readDeviceKey(key, member, edits);
        }
        return true;
    });
    return edits;
}

std::string deviceAccess(const DeviceNodeEdit& node) {
    if (node.permissions.empty()) {
        return "rwm";
    }
    std::string access;
    for (const char letter : {'r', 'w', 'm'}) {
        if (node.permissions != "none" && node.permissions.find(letter) != std::string::npos) {
            access += letter;
        }
    }
    return access;
}

std::string_view minimumCdiVersion(const ContainerEdits& edits) {
    if (!edits.netDevices.empty() ||
        (edits.intelRdt && (!edits.intelRdt->schemata.empty() || edits.intelRdt->enableMonitoring))) {
        return "1.1.0";
    }
    if (edits.intelRdt || !edits.additionalGids.empty()) {
        return "0.7.0";
    }
    if (std::any_of(edits.deviceNodes.begin(), edits.deviceNodes.end(),
                    [](const auto& node) { return !node.hostPath.empty(); })) {
        return "0.5.0";
    }
    if (std::any_of(edits.mounts.begin(), edits.mounts.end(), [](const auto& mount) { return mount.type.has_value(); })) {
        return "0.4.0";
    }
    return "0.1.0";
}

}  // namespace sarus::oci
