#pragma once

#include "base/process_tree.hpp"
#include "base/unique_fd.hpp"

// What the processes of one user need to share the mount of one server. How they find each other is theirs.

namespace sarus::served_image {

/// Whether this process's processor time is limited. Its server would spend the time of one container for all
/// of them, until the kernel ends it.
bool hasTimeLimit();

/// Neither ended nor stopped.
bool canAnswer(const Process& server);

/// A detached copy of a mount of another mount namespace, which this process may enter. `mount`: an O_PATH
/// descriptor of its root. Does not wait for the server. Throws Error.
UniqueFd copyMount(int mountNamespace, int mount);

}  // namespace sarus::served_image
