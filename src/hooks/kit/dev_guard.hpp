#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace sarus::hooks {

/// The container's /dev before a hook runs. Hooks of anybody may mount there, and an image may lead them:
/// after the hooks, the OCI runtime opens the container's null device for writing, with root's rights.
class DevGuard {
public:
    /// `root`: path of the container's root directory where the container is prepared. `state`: the state
    /// that the hook gets (OCI runtime specification, runtime.md "State"); "" if this process is in the
    /// container's mount namespace. Throws Error if there is no /dev.
    DevGuard(const std::string& root, std::string_view state);

    /// Throws Error if /dev is not the same mount as before, or if null, zero, full, random, urandom or tty
    /// is there and is not the device of this name (oci::usualDeviceNumbers).
    void check() const;

private:
    UniqueFd openDev() const;

    std::string root;
    UniqueFd top;
    UniqueFd dev;
    std::uint64_t mount;
};

}  // namespace sarus::hooks
