#include "starter/hook_devices.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "oci/inventory.hpp"

namespace sarus::starter {

namespace {

struct CloseDir {
    void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

void addRule(const struct stat& status, const std::string& access, std::vector<DeviceRule>& rules) {
    if (!S_ISCHR(status.st_mode) && !S_ISBLK(status.st_mode)) {
        return;
    }
    const DeviceRule rule{.type = S_ISCHR(status.st_mode) ? 'c' : 'b',
                          .major = major(status.st_rdev),
                          .minor = minor(status.st_rdev),
                          .access = access};
    const bool isKnown = std::any_of(rules.begin(), rules.end(), [&](const DeviceRule& other) {
        return other.type == rule.type && other.major == rule.major && other.minor == rule.minor && other.access == rule.access;
    });
    if (!isKnown) {
        rules.push_back(rule);
    }
}

/// As decorator_hook does it (docs/hooks.md).
void addDevicesOfInventories(const oci::RuntimeHook& hook, const engine::ContainerPlan& plan,
                             std::vector<engine::HookDevice>& devices) {
    constexpr std::string_view option = "--config-dir=";
    std::string directory(oci::defaultInventoryDirectory);
    for (const auto& argument : hook.args) {
        if (argument.starts_with(option)) {
            directory = argument.substr(option.size());
        }
    }
    try {
        for (const auto& inventory : oci::readInventories(directory, true)) {
            const auto value = std::find_if(plan.environment.begin(), plan.environment.end(),
                                            [&](const auto& variable) { return variable.first == inventory.activationFlag; });
            if (value == plan.environment.end()) {
                continue;
            }
            for (auto& device : oci::mergeFeatures(inventory, oci::selectFeatures(inventory, value->second)).devices) {
                devices.push_back({std::move(device), "rw"});
            }
        }
    } catch (const Error& error) {
        logDebug("Runtime", cat(printable(hook.path), ": ", error.what()));  // the hook itself will say so, as far as it matters
    }
}

}  // namespace

std::vector<DeviceRule> findDeviceRules(const std::vector<engine::HookDevice>& devices) {
    std::vector<DeviceRule> rules;
    for (const auto& device : devices) {
        struct stat status {};
        if (::stat(device.path.c_str(), &status) != 0) {
            continue;
        }
        addRule(status, device.access, rules);
        const std::unique_ptr<DIR, CloseDir> directory(S_ISDIR(status.st_mode) ? ::opendir(device.path.c_str()) : nullptr);
        while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
            if (::fstatat(::dirfd(directory.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
                addRule(status, device.access, rules);
            }
        }
    }
    return rules;
}

std::vector<DeviceRule> findDeviceRulesOfHooks(const engine::ContainerPlan& plan) {
    auto devices = engine::devicesOfHooks(plan);
    for (const auto& planned : plan.hooks) {
        if (planned.hook.path.ends_with("/decorator_hook")) {
            addDevicesOfInventories(planned.hook, plan, devices);
        }
    }
    return findDeviceRules(devices);
}

}  // namespace sarus::starter
