#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <string_view>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace sarus {

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

/// A Unix socket that keeps messages apart and tells the end of a connection; close-on-exec. `flags`: further
/// ones of socket(2). Throws Error.
inline UniqueFd makeMessageSocket(int flags = 0) {
    return UniqueFd(
        checkErrno(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0), "Failed to create a socket"));
}

/// Listens at the address for sequenced packets; empty if another process has taken it. Throws Error.
UniqueFd listenAt(const AbstractAddress& address);

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

/// Whether the process at the other end belonged to this process's user when it connected or listened.
inline bool isOwnPeer(int socket) noexcept {
    ucred peer{};
    socklen_t size = sizeof peer;
    return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

}  // namespace sarus
