#pragma once

#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace sarus::podman_hpc {

/// The name of the file in the user's graph root that records why hooks failed.
inline constexpr std::string_view failureLogName = "podman_hpc_hook.log";

/// The graph root of Podman that a container's root filesystem lies in, such as
/// `<graph root>/overlay/<layer>/merged`; "" if it is not in Podman's layout.
std::string graphRootOf(const std::string& rootfs);

/// Records failures for the user: Podman may hide the output of a hook. Opens the directory at once, because
/// the hook enters another mount namespace later.
class FailureLog {
public:
    explicit FailureLog(const std::string& rootfs) noexcept;

    /// Appends a line with the time. Does nothing if that is impossible.
    void add(std::string_view container, std::string_view reason) const noexcept;

private:
    UniqueFd directory;
};

}  // namespace sarus::podman_hpc
