#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus::podman_hpc {

using Clock = std::chrono::steady_clock;

/// A message between a task and the keeper of its container, with descriptors.
struct Message {
    std::string text{};
    std::vector<UniqueFd> fds{};
};

constexpr std::size_t maxMessage = 32U << 10U;

/// Sends without waiting. False if the other side is gone.
bool sendMessage(int socket, const std::string& text, const std::vector<int>& fds = {});

/// nullopt at the end of the connection, also if the other side was killed. Waits.
std::optional<Message> receiveMessage(int socket);

/// Waits until there is something to receive; false after the deadline.
bool waitForInput(int socket, Clock::time_point deadline);

/// The directory of a user where the tasks of a step meet: mode 0700, and nobody else's.
class MeetingPlace {
public:
    /// Creates the directory. Throws Error if it belongs to somebody else.
    MeetingPlace(const std::string& path, uid_t uid);

    /// What a keeper gets.
    struct Seat {
        UniqueFd listener;
        std::string name;  ///< of the socket, and of the container
    };

    /// Connects to a keeper for `identity` that answers "accept" to the message `hello`. If there is none,
    /// makes a socket with a name of its own and starts a keeper by `startKeeper`. One task at a time does
    /// this. Throws Error after the deadline.
    UniqueFd join(const std::string& identity, const std::string& hello, Clock::time_point deadline,
                  const std::function<void(Seat)>& startKeeper) const;

    /// Removes the socket NAME and the files NAME.*.
    void remove(const std::string& name) const;
    const std::string& path() const { return directoryPath; }

private:
    std::string reachable(const std::string& name) const;
    UniqueFd lock(Clock::time_point deadline) const;
    UniqueFd connectTo(const std::string& name) const;
    Seat takeSeat(const std::string& name) const;

    std::string directoryPath;
    UniqueFd directory;
};

}  // namespace sarus::podman_hpc
