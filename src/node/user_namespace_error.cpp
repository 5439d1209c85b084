#include "node/user_namespace_error.hpp"

#include <algorithm>
#include <array>

#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::node {

namespace {

struct Switch {
    std::string_view name;
    std::string_view forbidding;  ///< the value that forbids user namespaces
    std::string_view allowing;
    std::string_view insteadOfAllowing;  ///< a better remedy, if there is one
};

constexpr std::array switches{
    Switch{"user.max_user_namespaces", "0", "15000", ""},
    Switch{"kernel.unprivileged_userns_clone", "0", "1", ""},
    Switch{"kernel.apparmor_restrict_unprivileged_userns", "1", "0",
           "load the AppArmor profile etc/apparmor.d/sarus-starter of the installation, "},
};

/// The setting that forbids user namespaces; nullptr if none does.
const Switch* findObstacle(const std::string& procSys) {
    for (const auto& setting : switches) {
        std::string path(setting.name);
        std::replace(path.begin(), path.end(), '.', '/');
        path = cat(procSys, '/', path);
        if (pathExists(path) && trim(readFile(path, 4096)) == setting.forbidding) {
            return &setting;
        }
    }
    return nullptr;
}

}  // namespace

Error userNamespaceError(std::string_view doing, int errnum, const std::string& procSys) {
    if (const auto* const obstacle = findObstacle(procSys)) {
        const auto& [name, forbidding, allowing, instead] = *obstacle;
        return Error::fromErrno(
                   cat(doing, ": user namespaces are ", instead.empty() ? "disabled" : "restricted",
                       " by the kernel setting ", name, '=', forbidding),
                   errnum,
                   cat("The administrator can ", instead, instead.empty() ? "" : "or ",
                       "allow them with `sysctl ", name, '=', allowing,
                       "`, or install sarus-starter set-user-ID root"))
            .setId("user-namespaces-disabled");
    }
    return Error::fromErrno(
        doing, errnum,
        "Containers without privileges need user namespaces; the administrator can allow them, or install "
        "sarus-starter set-user-ID root");
}

std::string userNamespaceCure(const std::string& procSys) {
    const auto* const obstacle = findObstacle(procSys);
    const auto& setting = obstacle == nullptr ? switches.front() : *obstacle;
    return cat("sysctl -w ", setting.name, '=', setting.allowing, " (as root)");
}

}  // namespace sarus::node
