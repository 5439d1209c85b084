#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <string_view>

#include "base/unique_fd.hpp"

namespace sarus::hooks {

/// An address of Unix sockets in the abstract namespace (unix(7)), which leaves nothing behind. A name that
/// is too long is cut off. Every user of the node can take every address, so trust nobody there whose owner
/// has not been asked, and wait for nobody.
class AbstractAddress {
public:
    explicit AbstractAddress(std::string_view name) {
        const auto length = name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
        bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
    }
    const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&address); }
    socklen_t size() const noexcept { return bytes; }

private:
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    socklen_t bytes = 0;
};

/// Listens at the address for sequenced packets; empty if another process has taken it. Throws Error.
UniqueFd listenAt(const AbstractAddress& address);

/// Whether the process at the other end belonged to this process's user when it connected or listened.
bool isOwnPeer(int socket) noexcept;

/// A connection to whoever listens at an address.
struct Contact {
    enum class With {
        nobody,  ///< nobody listens, or whoever does takes no connection now; this does not show who it is
        own,     ///< a process of this user
        foreign  ///< of another user, to whom nothing was sent
    };
    With with = With::nobody;
    UniqueFd socket{};  ///< does not block; empty unless it is a process of this user
};

/// Never waits. Throws Error if there can be no socket.
Contact contactAt(const AbstractAddress& address);

}  // namespace sarus::hooks
