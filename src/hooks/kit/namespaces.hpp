#pragma once

#include <sys/types.h>

namespace sarus::hooks {

/// Namespaces of a container that a hook may have to work in.
enum class NamespaceKind { mount, pid };

/// Makes this process a member of the container's namespace if, and only if, it is not one already. So the same hook works in
/// the stages prestart and createRuntime (which run outside) and createContainer (which runs inside). Returns whether
/// the namespace was changed.
///
/// `pid` is the one of the OCI state. 0 and 1 never lead anywhere: 0 means that the runtime did not tell, and 1 is what
/// runc says where the hook is inside already and the container has its own pid namespace; outside, process 1 is the
/// host's and never a container's. Nor does any pid where /proc shows another pid namespace than the hook's own: then the
/// hook is inside, too, and the number means nothing here. For a pid namespace only children that are started afterwards are
/// inside. Throws Error if the process is gone, or if the kernel refuses.
bool enterNamespace(pid_t pid, NamespaceKind kind);

/// Whether the process ids of /proc are those of this process's own pid namespace. They are not where a runtime has put the hook
/// into the container's new pid namespace and the host's /proc is still visible. Throws Error if /proc is not there.
bool procIsOurs();

/// Whether this process is in the node's own user namespace, where uid 0 is the administrator. Elsewhere the hook has the rights
/// of whoever made the namespace, and no others. Throws Error if /proc is not there.
bool isInitialUserNamespace();

}  // namespace sarus::hooks
