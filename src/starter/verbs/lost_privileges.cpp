#include "starter/verbs/lost_privileges.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/log.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

/// Whether a launcher started this process as another task than the first one.
bool isLaterTask(const std::vector<std::string>& environment) {
    constexpr std::array<std::string_view, 5> ranks{
        "SLURM_PROCID=", "PMI_RANK=", "PMIX_RANK=", "OMPI_COMM_WORLD_RANK=", "PALS_RANKID="};
    return std::any_of(environment.begin(), environment.end(), [&](std::string_view variable) {
        return std::any_of(ranks.begin(), ranks.end(), [&](std::string_view rank) {
            return variable.starts_with(rank) && variable.substr(rank.size()) != "0";
        });
    });
}

}  // namespace

void warnOfLostPrivileges(const Entry& entry, const std::vector<std::string>& callerEnvironment) {
    if (entry.mode == Mode::privileged || (entry.program.st_mode & S_ISUID) != 0 ||
        isLaterTask(callerEnvironment) ||
        ::access(cat(entry.prefix, "/etc/set-user-id-root").c_str(), F_OK) != 0) {
        return;
    }
    logWarn("Runtime", cat(printable(entry.executable),
                           " has lost its set-user-ID bit, so the container starts without privileges. An "
                           "administrator can restore it with ",
                           printable(entry.prefix), "/configure_installation.sh"));
}

}  // namespace sarus::starter
