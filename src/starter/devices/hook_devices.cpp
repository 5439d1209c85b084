#include "starter/devices/hook_devices.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>

#include "base/config_files.hpp"
#include "base/directory.hpp"
#include "hook_contracts/shipped_hooks.hpp"

namespace sarus::starter {

namespace {

void addRule(const struct stat& status, const std::string& access,
             std::vector<oci::RuntimeDeviceRule>& rules) {
    if (!S_ISCHR(status.st_mode) && !S_ISBLK(status.st_mode)) {
        return;
    }
    const oci::RuntimeDeviceRule rule{.allow = true,
                                      .type = S_ISCHR(status.st_mode) ? 'c' : 'b',
                                      .major = major(status.st_rdev),
                                      .minor = minor(status.st_rdev),
                                      .access = access};
    if (std::find(rules.begin(), rules.end(), rule) == rules.end()) {
        rules.push_back(rule);
    }
}

}  // namespace

std::vector<oci::RuntimeDeviceRule> findDeviceRules(const std::vector<hook_contracts::HookDevice>& devices) {
    std::vector<oci::RuntimeDeviceRule> rules;
    for (const auto& device : devices) {
        struct stat status {};
        if (::stat(device.path.c_str(), &status) != 0) {
            continue;
        }
        addRule(status, device.access, rules);
        Directory directory(device.path, Missing::isEmpty);  // most are files
        while (const char* name = directory.next()) {
            if (::fstatat(directory.fd(), name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
                addRule(status, device.access, rules);
            }
        }
    }
    return rules;
}

namespace {

std::vector<hook_contracts::HookDevice> devicesOf(const engine::ContainerPlan& plan,
                                                  const engine::PlannedHook& planned) {
    const auto variable = [&](const std::string& name) -> std::optional<std::string> {
        const auto found = std::find_if(plan.environment.begin(), plan.environment.end(),
                                        [&](const auto& entry) { return entry.first == name; });
        return found == plan.environment.end() ? std::nullopt : std::optional(found->second);
    };
    const auto readFiles = [](const std::string& directory) {
        return readTrustedFiles(directory, {".cfg", ".json"}, true);
    };
    return hook_contracts::devicesOfHook({planned.hook, variable, readFiles});
}

}  // namespace

std::vector<oci::RuntimeDeviceRule> findDeviceRulesOfHook(const engine::ContainerPlan& plan,
                                                          const engine::PlannedHook& planned) {
    return findDeviceRules(devicesOf(plan, planned));
}

std::vector<oci::RuntimeDeviceRule> findDeviceRulesOfHooks(const engine::ContainerPlan& plan) {
    std::vector<hook_contracts::HookDevice> devices;
    for (const auto& planned : plan.hooks) {
        const auto more = devicesOf(plan, planned);
        devices.insert(devices.end(), more.begin(), more.end());
    }
    return findDeviceRules(devices);
}

}  // namespace sarus::starter
