#include "hooks/slurm_global_sync/node_tasks.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/time_left.hpp"

namespace sarus::hooks::slurm_global_sync {

namespace {

// The messages; a task that comes sends its rank.
constexpr std::string_view welcomeMessage = "welcome ";  // and the rank of the leader
constexpr std::string_view completeMessage = "complete";
constexpr std::string_view failedMessage = "failed ";
constexpr std::string_view departedMessage = "departed";

/// Whoever has died in between does not need it.
void send(int socket, std::string_view message) {
    ::send(socket, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// "" if the other side has closed the connection.
std::string receiveMessage(int socket) {
    std::array<char, 4096> buffer{};
    const auto size = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
    return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

}  // namespace

std::optional<NodeLeader> NodeLeader::lead(const std::string& name) {
    auto socket = listenAt(AbstractAddress(name));
    return socket ? std::optional(NodeLeader(std::move(socket))) : std::nullopt;
}

void NodeLeader::accept() {
    UniqueFd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket && isOwnPeer(socket.get())) {
        connections.push_back({std::move(socket)});
    }
}

void NodeLeader::hear(Connection& connection, Rank own, const std::function<void(Rank)>& killed) {
    const auto message = receiveMessage(connection.socket.get());
    if (connection.rank) {
        killed(*connection.rank);
        std::erase(followers, *connection.rank);
        connection.socket.reset();
        return;
    }
    const auto rank = parseNumber(message);
    if (!rank || *rank > UINT32_MAX) {
        connection.socket.reset();
        return;
    }
    connection.rank = static_cast<Rank>(*rank);
    followers.push_back(*connection.rank);
    send(connection.socket.get(), cat(welcomeMessage, own));
}

void NodeLeader::serve(Clock::time_point until, Rank own, const std::function<void(Rank)>& killed) {
    do {
        std::vector<pollfd> sources{{listener.get(), POLLIN, 0}};
        for (const auto& connection : connections) {
            sources.push_back({connection.socket.get(), POLLIN, 0});
        }
        ::poll(sources.data(), sources.size(), millisecondsUntil(until));
        for (std::size_t i = 1; i < sources.size(); ++i) {  // a dead task's connection is the older one
            if (sources[i].revents != 0) {
                hear(connections[i - 1], own, killed);
            }
        }
        std::erase_if(connections, [](const Connection& connection) { return !connection.socket; });
        if (sources[0].revents != 0) {
            accept();
        }
    } while (Clock::now() < until);
}

void NodeLeader::dismiss(const std::optional<std::string>& failure) {
    listener.reset();  // who comes now belongs to the next round of the step
    for (const auto& connection : connections) {
        send(connection.socket.get(), failure ? cat(failedMessage, *failure) : std::string(completeMessage));
    }
    std::erase_if(connections, [](const Connection& connection) { return !connection.rank; });
}

std::vector<Rank> NodeLeader::waitUntilDeparted(Clock::time_point deadline) {
    std::vector<Rank> killed;
    while (!connections.empty() && Clock::now() < deadline) {
        std::vector<pollfd> sources;
        for (const auto& connection : connections) {
            sources.push_back({connection.socket.get(), POLLIN, 0});
        }
        ::poll(sources.data(), sources.size(), millisecondsUntil(deadline));
        for (std::size_t i = 0; i < sources.size(); ++i) {
            if (sources[i].revents == 0) {
                continue;
            }
            if (receiveMessage(connections[i].socket.get()) != departedMessage) {
                killed.push_back(*connections[i].rank);
            }
            connections[i].socket.reset();
        }
        std::erase_if(connections, [](const Connection& connection) { return !connection.socket; });
    }
    for (const auto& connection : connections) {
        killed.push_back(*connection.rank);
    }
    return killed;
}

Contact::With NodeFollower::join(const std::string& name, Rank rank) {
    auto contact = contactAt(AbstractAddress(name));
    if (contact.with == Contact::With::own) {
        socket = std::move(contact.socket);
        send(socket.get(), cat(rank));
    }
    return contact.with;
}

NodeFollower::Message NodeFollower::receive(Clock::time_point deadline) {
    pollfd source{socket.get(), POLLIN, 0};
    if (::poll(&source, 1, millisecondsUntil(deadline)) <= 0 && Clock::now() >= deadline) {
        throw Error("The task that leads the step's tasks on this node has not answered in time");
    }
    const auto message = receiveMessage(socket.get());
    if (message.starts_with(welcomeMessage)) {
        const auto rank = parseNumber(std::string_view(message).substr(welcomeMessage.size()));
        leaderRank = rank ? std::optional(static_cast<Rank>(*rank)) : std::nullopt;
        return Message::welcome;
    }
    if (message == completeMessage) {
        return Message::complete;
    }
    if (message.starts_with(failedMessage)) {
        text = message.substr(failedMessage.size());
        return Message::failed;
    }
    return Message::none;
}

void NodeFollower::sayDeparted() const {
    send(socket.get(), departedMessage);
}

}  // namespace sarus::hooks::slurm_global_sync
