#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "podman_hpc/shared_run/words.hpp"

namespace sarus::podman_hpc {

/// Capabilities as bits.
struct Capabilities {
    std::uint64_t bounding = 0;
    std::uint64_t effective = 0;
    std::uint64_t permitted = 0;
    std::uint64_t inheritable = 0;
    std::uint64_t ambient = 0;
};

/// What a process of a container is like: the part `process` of its config.json.
struct ContainerProcess {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups{};
    bool keepsGroups = false;  ///< those of the caller (--group-add keep-groups)
    mode_t umask = 0022;
    std::string directory = "/";
    std::vector<std::string> environment{};  ///< NAME=VALUE, each name once
    std::optional<std::string> ownHome{};    ///< HOME if Podman may have taken it from passwd(5)
    struct Limit {
        __rlimit_resource resource;
        rlimit value;
    };
    std::vector<Limit> limits{};
    Capabilities capabilities{};
    bool noNewPrivileges = false;
};

/// The process of a container as `podman exec` starts it without options. nullopt if the OCI runtime does
/// more than this program can (seccomp filter, security label), and for text that is no config.json.
std::optional<ContainerProcess> parseContainerProcess(const std::string& config);

/// Sets "NAME=VALUE" in the list.
void setVariable(std::vector<std::string>& environment, const std::string& name, const std::string& value);

/// Applies options such as `-e A=b`, `-e A`, `-e A*`, after the files of `--env-file`, as Podman does. `host`
/// is the task's own environment. Throws Error.
void addVariables(std::vector<std::string>& environment, const ExecOptions& options,
                  const std::vector<std::string>& host);

/// A user of a container.
struct ContainerUser {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups{};
    std::string home{};
};

/// Looks up NAME, UID, NAME:GROUP or UID:GID in the text of passwd(5) and group(5). Throws Error.
ContainerUser lookUpUser(const std::string& name, std::string_view passwd, std::string_view group);

}  // namespace sarus::podman_hpc
