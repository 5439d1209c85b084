#pragma once

#include "base/abstract_address.hpp"
#include "base/unique_fd.hpp"

namespace sarus::hooks {

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

}  // namespace sarus::hooks
