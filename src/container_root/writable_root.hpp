#pragma once

#include "base/unique_fd.hpp"

namespace sarus::container_root {

/// Scope in which the mount of the container's root directory is not read-only. crun makes it read-only
/// before createContainer hooks, runc after them; hooks must work with both. Changes only the mount's own
/// flag: a read-only filesystem, and a flag that this process may not clear, stay as they are. Ends the
/// process with an error status if the flag cannot be restored, so that the runtime does not start the
/// container.
class WritableRoot {
public:
    /// `root`: the root directory, a mount point (otherwise nothing happens). Not owned.
    explicit WritableRoot(int root);
    WritableRoot(const WritableRoot&) = delete;
    WritableRoot& operator=(const WritableRoot&) = delete;
    ~WritableRoot();

private:
    UniqueFd changed;  ///< empty if there is nothing to restore
};

}  // namespace sarus::container_root
