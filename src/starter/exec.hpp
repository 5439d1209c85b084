#pragma once

#include "starter/credentials.hpp"
#include "starter/entry.hpp"

namespace sarus::starter {

/// Runs the command that the request in the memfd `requestFd` asks for in a running container of the caller, and waits for its
/// end or the container's. Returns the exit status for the program. Throws Error.
int execInContainer(const Entry& entry, Credentials credentials, int requestFd);

}  // namespace sarus::starter
