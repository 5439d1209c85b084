#pragma once

namespace sarus::starter {

/// From now on this process and its descendants cannot change the owner of what their descriptors 0 to 2 refer to: such calls
/// succeed and do nothing. OCI runtimes give a container's standard streams to its user; they do so with root's rights and
/// before the user's program starts, so that `sarus run IMAGE true < /etc/passwd` would make the user the owner of that file.
/// A container's own terminal is no exception, for a runtime that makes one still gets some of the streams from the caller:
/// devpts gives that to the user. Needs CAP_SYS_ADMIN in the user namespace. Makes system calls only, and returns 0 or an errno.
int keepStreamOwners() noexcept;

}  // namespace sarus::starter
