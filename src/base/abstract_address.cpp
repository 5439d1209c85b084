#include "base/abstract_address.hpp"

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace sarus {

UniqueFd listenAt(const AbstractAddress& address) {
    auto socket = makeMessageSocket();
    if (::bind(socket.get(), address.get(), address.size()) != 0) {
        if (errno == EADDRINUSE) {
            return {};
        }
        throwErrno("Failed to take an address on this node");
    }
    checkErrno(::listen(socket.get(), SOMAXCONN), "Failed to listen at an address on this node");
    return socket;
}

Contact contactAt(const AbstractAddress& address) {
    // Without SOCK_NONBLOCK, whoever lets his queue fill up could keep this process as long as he likes.
    auto socket = makeMessageSocket(SOCK_NONBLOCK);
    if (::connect(socket.get(), address.get(), address.size()) != 0) {
        return {};
    }
    if (!isOwnPeer(socket.get())) {
        return {Contact::With::foreign};
    }
    return {Contact::With::own, std::move(socket)};
}

}  // namespace sarus
