#pragma once

#include <functional>

namespace sarus {

/// Runs `body` in a new process that outlives this one and is no child of it: in a session of its own, with
/// /dev/null as standard streams, without reaction to the signals with which users, terminals and workload
/// managers end or notify whole groups of processes, and as the parent of what its descendants leave behind.
/// Other descriptors stay open. It ends with the value that `body` returns. `name`: as ps(1) shows it, at
/// most 15 characters. Throws Error.
void startInBackground(const char* name, const std::function<int()>& body);

}  // namespace sarus
