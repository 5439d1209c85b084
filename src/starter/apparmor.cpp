#include "starter/apparmor.hpp"

#include <fcntl.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::starter {

bool listsProfile(std::string_view profiles, const std::string& name) {
    for (const auto& line : split(profiles, '\n')) {
        if (line == name || line.starts_with(cat(name, " ("))) {
            return true;
        }
    }
    return false;
}

void checkAppArmorProfile(const engine::SiteConfig& config) {
    constexpr const char* list = "/sys/kernel/security/apparmor/profiles";
    constexpr std::size_t largestList = 16U << 20U;
    if (!config.apparmorProfile) {
        return;
    }
    const UniqueFd file(::open(list, O_RDONLY | O_CLOEXEC));
    if (!file && (errno == EACCES || errno == EPERM)) {
        return;
    }
    if (file && listsProfile(readAll(file.get(), largestList, list), *config.apparmorProfile)) {
        return;
    }
    throw Error(cat("The AppArmor profile '", printable(*config.apparmorProfile),
                    "' (`apparmorProfile` in sarus.json) is not loaded on this node"),
                file ? cat("Load it with apparmor_parser; the loaded ones are listed in ", list)
                     : cat("AppArmor is not enabled: there is no ", list));
}

}  // namespace sarus::starter
