#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::node {

/// Consecutive ids.
struct IdRange {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
};

/// The ids that a user may use in user namespaces besides his own (subuid(5), subgid(5)).
struct SubordinateIds {
    std::vector<IdRange> uids{};
    std::vector<IdRange> gids{};

    /// Whether there are none of one kind, so that they cannot be used.
    bool isEmpty() const noexcept { return uids.empty() || gids.empty(); }
};

/// The ranges of the lines "USER:FIRST:COUNT" of the user, who may be named by number.
std::vector<IdRange> subordinateRanges(std::string_view text, std::string_view user, uid_t uid);

/// Whether another service than the files knows them (nsswitch.conf(5), `subid`).
bool hasSubordinateIdService();

/// The ids of the user, from the files or, by getsubids(1), from that service. Empty if newuidmap or
/// newgidmap is missing, which give them. Throws Error.
SubordinateIds findSubordinateIds(const std::string& user, uid_t uid);

/// Writes the maps of the user namespace of process `pid`, which has none: 0 is this process's user and
/// group, and the subordinate ids follow. Call it outside of that namespace. Throws Error with what
/// newuidmap(1) says.
void mapSubordinateIds(pid_t pid, uid_t uid, gid_t gid, const SubordinateIds& ids);

}  // namespace sarus::node
