#pragma once

#include <functional>

namespace sarus {

/// Runs `work` in a process that shares memory and descriptors with this one, in place of this thread, which
/// waits for its end. What `work` does to its namespaces, root and working directory does not happen to this
/// process. It throws nothing. `flags`: more of clone(2). False, with errno, if there is no such process.
bool runInClone(int flags, const std::function<void()>& work);

}  // namespace sarus
