#pragma once

namespace sarus::starter {

/// From now on this process and its descendants cannot change the owner of what their descriptors 0 to 2 refer to: such calls
/// succeed and do nothing. OCI runtimes give a container's standard streams to its user; they do so with root's rights and
/// before the user's program starts, so that `sarus run IMAGE true < /etc/passwd` would make the user the owner of that file.
/// Needs CAP_SYS_ADMIN in the user namespace. Makes system calls only, and returns 0 or an errno.
int keepStreamOwners() noexcept;

}  // namespace sarus::starter
