#include "base/turn.hpp"

#include <poll.h>

#include <algorithm>
#include <thread>

#include "base/abstract_address.hpp"
#include "base/time_left.hpp"

namespace sarus {

Turn::Turn(std::string_view name, Clock::time_point deadline) {
    constexpr std::chrono::seconds patience{1};  // for whoever takes no connection
    constexpr std::chrono::milliseconds interval{20};
    const AbstractAddress address(name);
    auto end = std::min(Clock::now() + patience, deadline);
    while (!(socket = listenAt(address))) {
        const auto contact = contactAt(address);
        if (contact.with == Contact::With::own) {
            pollfd itsEnd{contact.socket.get(), POLLIN, 0};
            ::poll(&itsEnd, 1, millisecondsUntil(deadline));
            end = std::min(Clock::now() + patience, deadline);
        }
        if (contact.with == Contact::With::foreign || Clock::now() >= end) {
            return;
        }
        if (contact.with == Contact::With::nobody) {
            std::this_thread::sleep_for(interval);
        }
    }
}

}  // namespace sarus
