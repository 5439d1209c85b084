#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "podman_hpc/config/settings.hpp"

namespace sarus::podman_hpc {

/// How many ids of /etc/subuid and /etc/subgid the caller may use in containers.
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

/// nullopt if another service of this node knows (nsswitch.conf(5), `subid`). Throws Error.
std::optional<SubordinateIds> findSubordinateIds(const Surroundings& from);

}  // namespace sarus::podman_hpc
