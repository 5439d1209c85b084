#include "oci/cdi/container_edits.hpp"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "oci/hooks/hook_config.hpp"
#include "oci/json/json_members.hpp"

namespace sarus::oci {

namespace {

using Json = nlohmann::ordered_json;
using Node = JsonNode<Json>;

constexpr mode_t permissionBits = 07777;

/// The name for an unknown key in messages; "": unknown keys are ignored.
std::string_view unknownIn(EditsDialect dialect) {
    return dialect == EditsDialect::cdi ? "key" : "";
}

template <typename Id>
Id readId(const Node& node) {
    return static_cast<Id>(node.number(std::numeric_limits<Id>::max() - 1, "a numeric id"));
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
    if (type.size() > 1 ||
        (type.size() == 1 && std::string_view("bcup").find(type[0]) == std::string_view::npos)) {
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

DeviceNodeEdit readDeviceNode(const Node& node) {
    DeviceNodeEdit device;
    const auto deviceNumber = [](const Node& value) {
        return static_cast<std::int64_t>(value.number(UINT32_MAX, "a device number"));
    };
    readMembers(
        node, "an object that describes a device node", "key",
        {{"path", [&](const Node& value) { device.path = value.absolutePath(); }},
         {"hostPath",
          [&](const Node& value) {
              const bool isEmpty = value.value() == "";  // NOLINT(readability-container-size-empty): JSON
              device.hostPath = isEmpty ? "" : value.absolutePath();
          }},
         {"type", [&](const Node& value) { device.type = readDeviceType(value); }},
         {"major", [&](const Node& value) { device.major = deviceNumber(value); }},
         {"minor", [&](const Node& value) { device.minor = deviceNumber(value); }},
         // The node determines the type bits; some generators copy the whole st_mode.
         {"fileMode",
          [&](const Node& value) {
              device.fileMode =
                  static_cast<mode_t>(value.number(UINT32_MAX, "a file mode as a number")) & permissionBits;
          }},
         {"permissions", [&](const Node& value) { device.permissions = readPermissions(value); }},
         {"uid", [&](const Node& value) { device.uid = readId<uid_t>(value); }},
         {"gid", [&](const Node& value) { device.gid = readId<gid_t>(value); }}});
    if (device.path.empty()) {
        node.reject("the required key 'path' is missing");
    }
    return device;
}

/// A file or directory of the host: the runtime binds it only with an option.
bool lacksBindOption(const RuntimeMount& mount) {
    const auto type = mount.type.value_or("");
    const auto options = mount.options.value_or(std::vector<std::string>());
    return (type.empty() || type == "none") &&
           std::none_of(options.begin(), options.end(),
                        [](const std::string& option) { return option == "bind" || option == "rbind"; });
}

RuntimeMount readMount(const Node& node, EditsDialect dialect) {
    RuntimeMount mount;
    bool hasSource = false;
    const auto isAbsent = [&](const Node& value) {
        return dialect == EditsDialect::precreate && value.value().is_null();
    };
    readMembers(node, "an object that describes a mount", unknownIn(dialect),
                {{"hostPath",
                  [&](const Node& value) {
                      mount.source = value.string("a path");
                      hasSource = true;
                  }},
                 {"containerPath", [&](const Node& value) { mount.destination = value.absolutePath(); }},
                 {"type",
                  [&](const Node& value) {
                      mount.type = isAbsent(value) ? std::nullopt : std::optional(value.string());
                  }},
                 {"options", [&](const Node& value) {
                      mount.options = isAbsent(value) ? std::nullopt : std::optional(value.strings());
                  }}});
    const bool hasDestination = !mount.destination.empty();
    if (!hasSource || !hasDestination) {
        node.reject(cat("the required key '", hasSource ? "containerPath" : "hostPath", "' is missing"));
    }
    const bool isBind = mount.type.value_or("").empty() || mount.type == "bind";
    if (dialect == EditsDialect::cdi && isBind && !mount.source.starts_with('/')) {
        node.reject(cat("hostPath: expected an absolute path, found '", printable(mount.source), "'"));
    }
    if (dialect == EditsDialect::precreate && lacksBindOption(mount)) {
        auto& options = mount.options ? *mount.options : mount.options.emplace();
        options.insert(options.begin(), "rbind");
    }
    return mount;
}

HookEdit readHook(const Node& node) {
    HookEdit edit;
    const auto readStage = [](const Node& value) {
        const std::vector<std::string> known(hookStages().begin() + 1,
                                             hookStages().end());  // without precreate
        auto stage = value.string("the name of a stage");
        if (std::find(known.begin(), known.end(), stage) == known.end()) {
            value.fail(cat("one of ", join(known, ", ")));
        }
        return stage;
    };
    readMembers(node, "an object that describes a hook", "key",
                {{"hookName", [&](const Node& value) { edit.stage = readStage(value); }},
                 {"path", [&](const Node& value) { edit.hook.path = value.absolutePath(); }},
                 {"args", [&](const Node& value) { edit.hook.args = value.strings(); }},
                 {"env",
                  [&](const Node& value) {
                      for (const auto& [name, text] : value.list("a list of strings", readVariable)) {
                          edit.hook.env.push_back(cat(name, "=", text));
                      }
                  }},
                 {"timeout", [&](const Node& value) {
                      const auto seconds = value.number(INT32_MAX, "a whole number of seconds");
                      edit.hook.timeout = seconds == 0 ? std::nullopt : std::optional(seconds);
                  }}});
    if (edit.stage.empty() || edit.hook.path.empty()) {
        node.reject(cat("the required key '", edit.stage.empty() ? "hookName" : "path", "' is missing"));
    }
    return edit;
}

RuntimeIntelRdt readIntelRdt(const Node& node) {
    RuntimeIntelRdt edit;
    readMembers(node, "an object", "key",
                {{"closID", [&](const Node& value) { edit.closId = value.string(); }},
                 {"l3CacheSchema", [&](const Node& value) { edit.l3CacheSchema = value.string(); }},
                 {"memBwSchema", [&](const Node& value) { edit.memBwSchema = value.string(); }},
                 {"schemata", [&](const Node& value) { edit.schemata = value.strings(); }},
                 {"enableMonitoring", [&](const Node& value) { edit.enableMonitoring = value.boolean(); }}});
    return edit;
}

NetDeviceEdit readNetDevice(const Node& node) {
    NetDeviceEdit edit;
    readMembers(node, "an object that describes a network device", "key",
                {{"hostInterfaceName", [&](const Node& value) { edit.hostInterfaceName = value.string(); }},
                 {"name", [&](const Node& value) { edit.name = value.string(); }}});
    if (edit.hostInterfaceName.empty()) {
        node.reject("the required key 'hostInterfaceName' is missing");
    }
    return edit;
}

}  // namespace

bool ContainerEdits::empty() const noexcept {
    return env.empty() && deviceNodes.empty() && mounts.empty() && hooks.empty() && additionalGids.empty() &&
           !intelRdt && netDevices.empty();
}

ContainerEdits readContainerEdits(const Node& node, EditsDialect dialect) {
    ContainerEdits edits;
    const auto readMounts = [&](const Node& value) {
        return value.list("a list of mounts",
                          [&](const Node& element) { return readMount(element, dialect); });
    };
    readMembers(
        node, "an object with edits of the container", unknownIn(dialect),
        {{"env",
          [&](const Node& value) { edits.env = value.list("a list of strings NAME=VALUE", readVariable); }},
         {"mounts", [&](const Node& value) { edits.mounts = readMounts(value); }},
         {"deviceNodes",
          [&](const Node& value) {
              edits.deviceNodes = value.list("a list of device nodes", readDeviceNode);
          }},
         {"hooks", [&](const Node& value) { edits.hooks = value.list("a list of hooks", readHook); }},
         {"additionalGids",
          [&](const Node& value) {
              edits.additionalGids = value.list("a list of group ids", readId<gid_t>);
          }},
         {"intelRdt", [&](const Node& value) { edits.intelRdt = readIntelRdt(value); }},
         {"netDevices", [&](const Node& value) {
              edits.netDevices = value.list("a list of network devices", readNetDevice);
          }}});
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
    if (std::any_of(edits.mounts.begin(), edits.mounts.end(),
                    [](const auto& mount) { return mount.type.has_value(); })) {
        return "0.4.0";
    }
    return "0.1.0";
}

}  // namespace sarus::oci
