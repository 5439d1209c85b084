#pragma once

#include "starter/credentials.hpp"
#include "starter/entry.hpp"

namespace sarus::starter {

/// Starts the container that the request in the memfd `requestFd` asks for, and waits for its end. Returns the exit status for
/// the program. Throws Error. What was mounted goes away with the mount namespace, which ends with the process.
int launch(const Entry& entry, Credentials credentials, int requestFd);

}  // namespace sarus::starter
