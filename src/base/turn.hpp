#pragma once

#include <chrono>
#include <string_view>

#include "base/unique_fd.hpp"

namespace sarus {

/// The turn of one process of this user to do something: an address in the node's abstract namespace
/// (unix(7)), which leaves nothing behind, whoever is killed. It lasts as long as a process has its
/// descriptor open.
class Turn {
public:
    using Clock = std::chrono::steady_clock;

    /// Waits for it until the deadline, but not for another user who has the address. Throws Error if there
    /// can be no socket.
    Turn(std::string_view name, Clock::time_point deadline);

    /// Whether this process has the turn. Otherwise it may go on without: it has waited long enough.
    explicit operator bool() const noexcept { return static_cast<bool>(socket); }
    /// Close-on-exec. Listens.
    int fd() const noexcept { return socket.get(); }

private:
    UniqueFd socket;
};

}  // namespace sarus
