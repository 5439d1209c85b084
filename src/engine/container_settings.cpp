#include "engine/container_settings.hpp"

#include <vector>

#include "base/text.hpp"
#include "engine/run_options.hpp"

namespace sarus::engine {

namespace {

std::string describeSource(const oci::MountRequest& mount) {
    if (mount.tmpfsSize) {
        return oci::toText(mount);
    }
    return cat(normalizePath(mount.source), mount.isSquashfs ? " (squashfs)"
                                            : mount.readonly ? " (read-only)"
                                                             : "");
}

}  // namespace

ContainerSettings settingsOf(const LaunchRequest& request) {
    ContainerSettings settings;
    const auto flag = [&](std::string_view name, bool isOn) {
        if (isOn) {
            settings[std::string(name)] = settingIsOn;
        }
    };
    for (const auto& mount : request.mounts) {
        settings[cat("mount on ", normalizePath(mount.destination))] =
            mount.isUnmount ? std::string() : describeSource(mount);
    }
    for (const auto& device : request.devices) {
        flag(cat("device ", device), true);
    }
    for (const auto& annotation : request.annotations) {
        const auto [key, value] = parseAnnotation(annotation);
        settings[cat("annotation ", key)] = value;
    }
    flag("MPI library of the host", request.mpi || request.mpiType);
    if (request.mpiType) {
        settings["type of the MPI library"] = *request.mpiType;
    }
    flag("C library of the host", request.glibc);
    flag("SSH", request.ssh);
    flag("init process", request.init);
    flag("entrypoint of the image", !request.entrypoint);
    flag("process ids of its own", request.privatePid || request.ssh);
    flag("network of its own", request.privateNetwork);
    flag("IPC of its own", request.privateIpc);
    flag("host name of its own", request.privateUts);
    flag(readonlyRootSetting, request.readonlyRoot);
    flag(remapRootSetting, request.remapRoot);
    return settings;
}

std::string describeDifferences(const ContainerSettings& found, const ContainerSettings& wanted) {
    std::vector<std::string> differences;
    for (const auto& [name, value] : wanted) {
        const auto entry = found.find(name);
        const auto present = entry == found.end() ? std::string() : entry->second;
        if (present == value) {
            continue;
        }
        const bool isFlag = value == settingIsOn || present == settingIsOn;
        const auto shown = [&](const std::string& text) {
            return !text.empty() ? printable(text) : isFlag ? std::string("no") : std::string("none");
        };
        differences.push_back(cat(printable(name), ": ", shown(present), " instead of ", shown(value)));
    }
    return join(differences, "; ");
}

}  // namespace sarus::engine
