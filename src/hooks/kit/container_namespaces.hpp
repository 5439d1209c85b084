#pragma once

#include <sys/types.h>

#include "base/unique_fd.hpp"

namespace sarus::hooks {

/// Namespaces of a container that a hook may need to enter.
enum class NamespaceKind { mount, pid };

/// Enters the container's namespace unless this process is already in it. So the same hook works at the
/// stages prestart and createRuntime (which run outside) and createContainer (which runs inside). Returns
/// whether the namespace was changed.
///
/// `pid` is from the OCI state. 0 and 1 lead nowhere: 0 means that the runtime did not set it, and runc
/// passes 1 if the hook is already inside and the container has its own pid namespace; outside, process 1 is
/// the host's and never a container's. No pid is usable if /proc shows a pid namespace other than the hook's
/// own: then the hook is already inside, and the number has no meaning here. For a pid namespace only
/// children started afterwards are inside. Throws Error if the process is gone or the kernel refuses.
bool enterNamespace(pid_t pid, NamespaceKind kind);

/// Whether enterNamespace() would change the namespace.
bool isInOtherNamespace(pid_t pid, NamespaceKind kind);

/// `/` of the container's mount namespace (O_PATH), which this process need not enter. It must still be the
/// host's: if the container has its own, the user decides where a path leads. Throws Error.
UniqueFd topOfContainer(pid_t pid);

/// Whether /proc shows this process's own pid namespace. It does not if a runtime has put the hook into the
/// container's new pid namespace while the host's /proc is still visible. Throws Error if /proc is missing.
bool procIsOurs();

/// Whether this process is in the node's initial user namespace, where uid 0 is the administrator. Elsewhere
/// the hook only has the rights of the namespace's creator. Throws Error if /proc is missing.
bool isInitialUserNamespace();

}  // namespace sarus::hooks
