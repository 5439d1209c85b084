#include "engine/hook_devices.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/device_request.hpp"

namespace sarus::engine {

namespace {

void addRequest(std::string_view value, std::vector<HookDevice>& devices) {
    try {
        auto request = oci::parseDeviceRequest(value);
        devices.push_back({std::move(request.source), std::move(request.access)});
    } catch (const Error&) {
        // The hook itself will say so, and the container will not start.
    }
}

void addOfMountHook(const oci::RuntimeHook& hook, std::vector<HookDevice>& devices) {
    constexpr std::string_view option = "--device";
    for (std::size_t i = 1; i < hook.args.size(); ++i) {
        const std::string_view argument = hook.args[i];
        if (argument == option && i + 1 < hook.args.size()) {
            addRequest(hook.args[++i], devices);
        } else if (argument.starts_with(option) && argument.substr(option.size()).starts_with('=')) {
            addRequest(argument.substr(option.size() + 1), devices);
        }
    }
}

void addOfMpiHook(const oci::RuntimeHook& hook, std::vector<HookDevice>& devices) {
    constexpr std::string_view variable = "BIND_MOUNTS=";
    const auto found =
        std::find_if(hook.env.begin(), hook.env.end(), [variable](const auto& entry) { return entry.starts_with(variable); });
    if (found == hook.env.end()) {
        return;
    }
    for (const auto& path : split(found->substr(variable.size()), ':')) {
        if (path.starts_with('/')) {
            devices.push_back({path, "rw"});
        }
    }
}

}  // namespace

std::vector<HookDevice> devicesOfHooks(const ContainerPlan& plan) {
    std::vector<HookDevice> devices;
    for (const auto& planned : plan.hooks) {
        const auto program = planned.hook.path.substr(planned.hook.path.rfind('/') + 1);
        if (program == "mount_hook") {
            addOfMountHook(planned.hook, devices);
        } else if (program == "mpi_hook") {
            addOfMpiHook(planned.hook, devices);
        } else if (program == "amdgpu_hook") {
            devices.push_back({"/dev/kfd", "rw"});
            devices.push_back({"/dev/dri", "rw"});
        }
    }
    return devices;
}

}  // namespace sarus::engine
