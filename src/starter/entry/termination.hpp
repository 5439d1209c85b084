#pragma once

namespace sarus::starter {

// The starter blocks all signals that its caller does not ignore. These look for those that users or workload
// managers send to end a process.

/// Whether the default action of such a signal would have ended this process.
bool isTermination(int number);

bool isTerminationPending();

/// Takes a pending one; 0 if there is none.
int takePendingTermination();

/// Takes a pending one. Throws Error (exit status 128 + signal) if there was one.
void throwIfTerminated();

}  // namespace sarus::starter
