#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/abstract_address.hpp"
#include "base/unique_fd.hpp"
#include "hooks/slurm_global_sync/barrier.hpp"

namespace sarus::hooks::slurm_global_sync {

// The tasks of a step on one node wait for their leader: whoever got the step's address in the node's
// abstract namespace (unix(7)), which leaves nothing behind. If the leader dies, another task takes the
// address.

using Clock = std::chrono::steady_clock;

/// The leader's side.
class NodeLeader {
public:
    /// nullopt if another process has the address. Throws Error.
    static std::optional<NodeLeader> lead(const std::string& address);
    /// One whom nobody follows.
    static NodeLeader alone() { return NodeLeader(UniqueFd()); }

    /// Until then it welcomes the tasks that come, as the task `own`; each of them arrives at the barrier
    /// then. `killed` is called for a task that has died, before its successor is welcomed.
    void serve(Clock::time_point until, Rank own, const std::function<void(Rank)>& killed);
    /// The tasks that follow.
    const std::vector<Rank>& ranks() const noexcept { return followers; }

    /// Gives up the address and tells all tasks the end: nullopt for a complete step, else the reason.
    void dismiss(const std::optional<std::string>& failure);
    /// Waits until the tasks have departed. Returns those that were killed instead, or take too long.
    std::vector<Rank> waitUntilDeparted(Clock::time_point deadline);

private:
    struct Connection {
        UniqueFd socket;
        std::optional<Rank> rank{};
    };
    explicit NodeLeader(UniqueFd socket) : listener(std::move(socket)) {}
    void accept();
    void hear(Connection& connection, Rank own, const std::function<void(Rank)>& killed);

    UniqueFd listener;
    std::vector<Connection> connections;
    std::vector<Rank> followers;
};

/// The side of the other tasks.
class NodeFollower {
public:
    /// Tells the leader that the task `rank` is there, if the leader is this user's. Never waits.
    Contact::With join(const std::string& address, Rank rank);

    enum class Message { welcome, complete, failed, none };
    /// `none`: the leader has died. Throws Error after the deadline.
    Message receive(Clock::time_point deadline);
    /// Of the message `failed`.
    const std::string& reason() const noexcept { return text; }
    /// Who leads; known after the message `welcome`.
    std::optional<Rank> leader() const noexcept { return leaderRank; }
    void sayDeparted() const;

private:
    UniqueFd socket;
    std::string text;
    std::optional<Rank> leaderRank;
};

}  // namespace sarus::hooks::slurm_global_sync
