#include <algorithm>

#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "doctor/node_checks.hpp"
#include "podman_hpc/doctor/doctor.hpp"
#include "podman_hpc/doctor/subordinate_ids.hpp"

namespace sarus::podman_hpc {

namespace {

using Grade = Finding::Grade;

constexpr std::uint64_t idsOfOneUser = 65536;  // what images may use

Finding checkSubordinateIds(const Patient& patient) {
    if (patient.from.uid == 0) {
        return {"subordinate ids", Grade::ok, "root needs none"};
    }
    const auto ids = findSubordinateIds(patient.from);
    if (!ids) {
        return {"subordinate ids", Grade::note,
                "a service of /etc/nsswitch.conf gives them: getsubids(1) shows them"};
    }
    const auto count = std::min(ids->uids, ids->gids);
    if (count == 0) {
        return {"subordinate ids", Grade::warning,
                cat(ids->missing(),
                    ": containers have one id only; --user, --userns=keep-id and installing packages fail"),
                ids->cure()};
    }
    if (count < idsOfOneUser - 1) {
        return {"subordinate ids", Grade::warning,
                cat(printable(ids->user), " has ", count, ": images with larger ids fail"), ids->cure()};
    }
    for (const auto* program : {"newuidmap", "newgidmap"}) {
        if (!findProgram(program)) {
            return {"subordinate ids", Grade::error, cat(program, " is not in PATH"),
                    "apt-get install uidmap (as root)"};
        }
    }
    return {"subordinate ids", Grade::ok, cat(ids->uids, " user ids, ", ids->gids, " group ids")};
}

}  // namespace

std::vector<Finding> checkIdentity(const Patient& patient) {
    return {doctor::checkUserNamespaces(Grade::error), checkSubordinateIds(patient)};
}

}  // namespace sarus::podman_hpc
