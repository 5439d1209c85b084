#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "hooks/kit/container_user.hpp"
#include "hooks/kit/hook_context.hpp"
#include "hooks/kit/hook_logger.hpp"

namespace sarus::hooks::ssh {

/// How the container's processes come to their ids, for a process that is to be one of them.
struct Identity {
    UniqueFd userNamespace;       ///< to enter first; empty: none
    bool makesNamespace = false;  ///< then one below that maps id 0 to the ids
    ContainerUser user;           ///< ids in the last of these namespaces
};

/// The identity of the container's program. `user` is for files, as this process knows the ids.
Identity findIdentity(const HookContext& context, const ContainerUser& user);

struct DaemonRequest {
    const HookContext& context;
    const Identity& identity;
    int root = -1;  ///< the container's root directory
    bool joinsPidNamespace = true;
    std::uint16_t port = 0;
    std::string hostKey;  ///< path inside
    const HookLogger& log;
};

struct StartedDaemon {
    pid_t pid = 0;        ///< as this process sees it
    pid_t pidInside = 0;  ///< in the container's pid namespace
};

/// Prepares Dropbear in the container, as the container's user without any privilege, and returns when the
/// port listens: clients can connect, and wait. Dropbear itself is executed, and accepts them, once the
/// container's first process has executed its program, because until then privileged processes work in the
/// container. A keeper stays with it: it ends all that Dropbear started when the container's first process
/// ends, and reaps it. Dropbear stops listening when the keeper is killed. Throws Error.
StartedDaemon startDaemon(const DaemonRequest& request);

}  // namespace sarus::hooks::ssh
