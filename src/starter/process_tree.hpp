#pragma once

#include <sys/types.h>

#include <vector>

namespace sarus::starter {

/// The children of all threads of a process; empty if it does not exist.
std::vector<pid_t> childrenOf(pid_t process);

/// Sends SIGKILL to everything below `process`, not to itself, until nothing is left or `attempts` rounds are over.
void killDescendants(pid_t process, int attempts);

/// False if the process is gone or waits only for being reaped.
bool isRunning(pid_t process);

}  // namespace sarus::starter
