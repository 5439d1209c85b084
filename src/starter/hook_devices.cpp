#include "starter/hook_devices.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <memory>

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

}  // namespace sarus::starter
