#pragma once

#include <sys/types.h>

namespace sarus::starter {

/// Whether descriptors 0 to 2 are pipes with this owner and group, as Slurm gives them to tasks: who gives
/// them to that user changes nothing, and nobody else can change their owner in between. Makes only system
/// calls.
bool streamsAreOwnPipes(uid_t uid, gid_t gid) noexcept;

/// From now on this process and its descendants cannot change the owner of what their descriptors 0 to 2
/// refer to: such calls succeed without effect. OCI runtimes give a container's standard streams to its user,
/// with root's rights and before the user's program starts, so `sarus run IMAGE true < /etc/passwd` would
/// give the user that file. A container with its own terminal is no exception: its runtime still gets some
/// streams from the caller, and devpts already gives the terminal to the user. The container inherits the
/// filter, which makes each of its system calls a little slower. Requires CAP_SYS_ADMIN in the user
/// namespace. Makes only system calls; returns 0 or an errno.
int keepStreamOwners() noexcept;

}  // namespace sarus::starter
