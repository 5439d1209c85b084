#include "hooks/pce/precreate_edits.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <nlohmann/json.hpp>

#include "oci/json/json_node.hpp"

namespace sarus::hooks::pce {

namespace {

using Json = nlohmann::ordered_json;
using Node = oci::JsonNode<Json>;
using oci::BundleConfig;
using oci::ContainerEdits;
using oci::DeviceNodeEdit;
using oci::RuntimeDevice;

Json parseDocument(std::string_view text, std::string_view file) {
    try {
        return oci::parseJson<Json>(text, file, oci::DuplicateKeys::areErrors);
    } catch (const Error& error) {
        throw Error(cat("invalid JSON: ", error.what()));
    }
}

ContainerEdits readElement(const Node& node) {
    auto edits = oci::readContainerEdits(node, oci::EditsDialect::precreate);
    const auto refuse = [&node](std::string_view key) {
        node.reject(cat("edits of '", key, "' are not supported here"));
    };
    if (!edits.netDevices.empty()) {
        refuse("netDevices");
    }
    if (edits.intelRdt && !edits.intelRdt->schemata.empty()) {
        refuse("intelRdt.schemata");
    }
    if (edits.intelRdt && edits.intelRdt->enableMonitoring) {
        refuse("intelRdt.enableMonitoring");
    }
    return edits;
}

std::vector<ContainerEdits> readDocument(const Node& node) {
    const auto& document = node.object();
    if (const auto version = document.find("precreate"); version != document.end() && !version->is_null()) {
        node.member("precreate", *version).string();
    }
    const auto edits = document.find("containerEdits");
    return edits == document.end()
               ? std::vector<ContainerEdits>{}
               : node.member("containerEdits", *edits).list("a list of edits", readElement);
}

/// The node for the container.
RuntimeDevice completed(const DeviceNodeEdit& node, const oci::RuntimeUser& user) {
    const auto& source = node.hostPath.empty() ? node.path : node.hostPath;
    RuntimeDevice device{node.path,
                         node.type.empty() ? '\0' : node.type.front(),
                         node.major.value_or(0),
                         node.minor.value_or(0),
                         node.fileMode,
                         node.uid,
                         node.gid};
    struct stat status {};
    const bool exists = ::lstat(source.c_str(), &status) == 0;
    // A pipe has no numbers.
    const bool isComplete = !node.type.empty() && (node.type == "p" || (node.major && node.minor));
    if (!exists && !isComplete) {
        throwErrno(cat("Failed to examine the device ", printable(source), " for the container"));
    }
    if (exists) {
        const char kind = S_ISCHR(status.st_mode)    ? 'c'
                          : S_ISBLK(status.st_mode)  ? 'b'
                          : S_ISFIFO(status.st_mode) ? 'p'
                                                     : '\0';
        const char wanted = device.type == 'u' ? 'c' : device.type;  // unbuffered: a character device
        if (kind == '\0' || (wanted != '\0' && wanted != kind)) {
            throw Error(cat(printable(source), " is not ",
                            wanted == '\0' ? "a device" : cat("a device of type '", node.type, "'")));
        }
        device.type = device.type == '\0' ? kind : device.type;
        device.major = node.major.value_or(static_cast<std::int64_t>(major(status.st_rdev)));
        device.minor = node.minor.value_or(static_cast<std::int64_t>(minor(status.st_rdev)));
        device.fileMode = node.fileMode.value_or(status.st_mode & 0777U);
    }
    if (!device.uid && user.uid != 0) {
        device.uid = user.uid;
    }
    if (!device.gid && user.gid != 0) {
        device.gid = user.gid;
    }
    return device;
}

void applyDeviceNode(const DeviceNodeEdit& node, bool inUserNamespace, BundleConfig& config) {
    const auto device = completed(node, config.user());
    if (inUserNamespace || config.hasNamespace("user")) {
        const auto& source = node.hostPath.empty() ? node.path : node.hostPath;
        config.addMount({node.path, "bind", source, std::vector<std::string>{"bind", "nosuid", "noexec"}});
    } else {
        config.setDevice(device);
    }
    const auto access = oci::deviceAccess(node);
    // Without privileges the runtime cannot change the rules of a cgroup.
    if (!inUserNamespace && device.type != 'p' && !access.empty()) {
        config.appendDeviceRule({true, device.type == 'b' ? 'b' : 'c', device.major, device.minor, access});
    }
}

void applyEdits(const ContainerEdits& edits, bool inUserNamespace, BundleConfig& config) {
    for (const auto& node : edits.deviceNodes) {
        applyDeviceNode(node, inUserNamespace, config);
    }
    for (const auto& mount : edits.mounts) {
        config.addMount(mount);
    }
    for (const auto& [name, value] : edits.env) {
        config.setVariable(name, value);
    }
    for (const auto& edit : edits.hooks) {
        config.appendHook(edit.stage, edit.hook);
    }
    for (const auto gid : edits.additionalGids) {
        if (gid != 0) {
            config.addAdditionalGid(gid);
        }
    }
    if (edits.intelRdt) {
        config.setIntelRdt(*edits.intelRdt);
    }
}

}  // namespace

std::vector<ContainerEdits> parsePrecreateEdits(std::string_view text, std::string_view file) {
    const auto document = parseDocument(text, file);
    try {
        return readDocument(Node(document, "", file));
    } catch (const Error& error) {
        throw Error(cat("invalid type or value: ", error.what()), error.hint());
    }
}

void applyPrecreateEdits(const std::vector<ContainerEdits>& edits, bool inUserNamespace,
                         BundleConfig& config) {
    for (const auto& element : edits) {
        applyEdits(element, inUserNamespace, config);
    }
}

}  // namespace sarus::hooks::pce
