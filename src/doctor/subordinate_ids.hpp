#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doctor/finding.hpp"

namespace sarus::doctor {

/// How many ids of /etc/subuid and /etc/subgid a user may use in containers.
struct SubordinateIds {
    std::string user;
    std::uint64_t uids = 0;
    std::uint64_t gids = 0;
    std::uint64_t firstFree = 0;  ///< behind the ranges of all users

    bool none() const { return uids == 0 || gids == 0; }
    /// "USER has no ids in FILE".
    std::string missing() const;
    /// The command that gives some.
    std::string cure() const;
};

/// `name`: of a user whom the node's account database does not know. nullopt if another service of this node
/// knows (nsswitch.conf(5), `subid`). Throws Error.
std::optional<SubordinateIds> countSubordinateIds(uid_t uid, const std::optional<std::string>& name);

/// What a program does about missing ids.
struct SubordinateIdUse {
    Finding::Grade grade;     ///< of what is missing
    std::string withoutIds;   ///< the consequence
    std::string withFewIds;   ///< that of fewer than images use
    std::string furtherCure;  ///< behind a command that gives some
};

/// Whether the caller, who is not root, has subordinate ids and the programs that give them. Throws Error.
std::vector<Finding> checkSubordinateIds(uid_t uid, const std::optional<std::string>& name,
                                         const SubordinateIdUse& use);

}  // namespace sarus::doctor
