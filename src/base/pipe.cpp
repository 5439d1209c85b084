#include "base/pipe.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "base/error.hpp"
#include "base/time_left.hpp"

namespace sarus {

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Pipe makePipe() {
    std::array<int, 2> ends{};
    checkErrno(::pipe2(ends.data(), O_CLOEXEC), "Failed to create a pipe");
    Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
    for (auto* end : {&pipe.reader, &pipe.writer}) {
        if (end->get() <= STDERR_FILENO) {
            end->reset(checkErrno(::fcntl(end->get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1),
                                  "Failed to duplicate a pipe"));
        }
    }
    return pipe;
}

std::function<void(std::string_view)> appendTo(std::string& out, std::size_t limit) {
    return [&out, limit](std::string_view piece) {
        out.append(piece.substr(0, limit - std::min(limit, out.size())));
    };
}

bool readToEnd(std::initializer_list<Inflow> pipes, std::optional<std::chrono::milliseconds> patience,
               const std::optional<Tick>& tick) {
    std::vector<pollfd> polled;
    for (const auto& pipe : pipes) {
        polled.push_back({.fd = pipe.fd, .events = POLLIN, .revents = 0});
    }
    const auto deadline = patience ? std::optional(Clock::now() + *patience) : std::nullopt;
    auto nextTick = tick ? std::optional(Clock::now() + tick->interval) : std::nullopt;
    while (std::any_of(polled.begin(), polled.end(), [](const pollfd& entry) { return entry.fd >= 0; })) {
        if (nextTick && Clock::now() >= *nextTick) {
            tick->call();
            nextTick = Clock::now() + tick->interval;
        }
        if (deadline && Clock::now() >= *deadline) {
            return false;
        }
        auto wakeUp = deadline;
        if (nextTick && (!wakeUp || *nextTick < *wakeUp)) {
            wakeUp = nextTick;
        }
        if (::poll(polled.data(), polled.size(), wakeUp ? millisecondsUntil(*wakeUp) : -1) < 0) {
            if (errno != EINTR) {
                throwErrno("Failed to wait for a program's output");
            }
            continue;
        }
        for (std::size_t i = 0; i < polled.size(); ++i) {
            if (polled[i].fd < 0 || polled[i].revents == 0) {
                continue;
            }
            std::array<char, 16384> buffer;
            const auto count = ::read(polled[i].fd, buffer.data(), buffer.size());
            if (count > 0) {
                pipes.begin()[i].take({buffer.data(), static_cast<std::size_t>(count)});
            } else if (count == 0 || errno != EINTR) {
                polled[i].fd = -1;
            }
        }
    }
    return true;
}

}  // namespace sarus
