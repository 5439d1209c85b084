#include "node/apparmor.hpp"

#include <fcntl.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::node {

bool listsProfile(std::string_view profiles, const std::string& name) {
    for (const auto& line : split(profiles, '\n')) {
        if (line == name || line.starts_with(cat(name, " ("))) {
            return true;
        }
    }
    return false;
}

void checkAppArmorProfile(const std::optional<std::string>& profile) {
    constexpr const char* list = "/sys/kernel/security/apparmor/profiles";
    constexpr std::size_t largestList = 16U << 20U;
    if (!profile) {
        return;
    }
    const UniqueFd file(::open(list, O_RDONLY | O_CLOEXEC));
    if (!file && (errno == EACCES || errno == EPERM)) {
        return;
    }
    if (file && listsProfile(readAll(file.get(), largestList, list), *profile)) {
        return;
    }
    throw Error(cat("The AppArmor profile '", printable(*profile),
                    "' (`apparmorProfile` in sarus.json) is not loaded on this node"),
                file ? cat("Load it with apparmor_parser; the loaded ones are listed in ", list)
                     : cat("AppArmor is not enabled: there is no ", list))
        .setId("apparmor-profile-not-loaded");
}

}  // namespace sarus::node
