#include "image/run_tool.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "image/interrupt.hpp"

namespace sarus::image {

namespace {

struct Pipe {
    UniqueFd readEnd;
    UniqueFd writeEnd;
};

Pipe makePipe() {
    std::array<int, 2> ends{};
    checkErrno(::pipe2(ends.data(), O_CLOEXEC), "Failed to create a pipe");
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void checkProgram(const std::string& path, std::string_view package) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
        throw Error(cat("The program \"", printable(path), "\" does not exist"),
                    cat("It comes with the Debian package ", package, "; its path is set in sarus.json"));
    }
}

constexpr std::size_t outputLimit = 8U << 20U;

void collect(std::array<pollfd, 2>& polled, const std::array<std::string*, 2>& sinks, const std::optional<ToolWatch>& watch) {
    using Clock = std::chrono::steady_clock;
    auto nextLook = Clock::now() + (watch ? watch->interval : std::chrono::milliseconds(0));
    while (polled[0].fd >= 0 || polled[1].fd >= 0) {
        if (watch && Clock::now() >= nextLook) {
            watch->look();
            nextLook = Clock::now() + watch->interval;
        }
        if (::poll(polled.data(), polled.size(), watch ? static_cast<int>(watch->interval.count()) : -1) < 0) {
            if (errno != EINTR) {
                throwErrno("Failed to wait for a program's output");
            }
            continue;
        }
        for (std::size_t i = 0; i < polled.size(); ++i) {
            if (polled[i].fd < 0 || polled[i].revents == 0) {
                continue;
            }
            char buffer[16384];
            const auto count = ::read(polled[i].fd, buffer, sizeof buffer);
            if (count > 0) {
                sinks[i]->append(
                    buffer, std::min(static_cast<std::size_t>(count), outputLimit - std::min(outputLimit, sinks[i]->size())));
            } else if (count == 0 || errno != EINTR) {
                polled[i].fd = -1;
            }
        }
    }
}

}  // namespace

ToolResult runTool(const Command& command, ToolStreams streams, std::string_view package, const std::optional<ToolWatch>& watch) {
    checkProgram(command.path, package);
    logDebug("ImageManager", cat("Executing ", printable(join(command.args, " "))));
    throwIfInterrupted();
    auto connected = command;
    Pipe out;
    if (streams == ToolStreams::captureBoth) {
        out = makePipe();
        connected.stdoutFd = out.writeEnd.get();
    }
    auto err = makePipe();
    connected.stderrFd = err.writeEnd.get();
    ToolResult result;
    auto child = start(connected);
    {
        const SignalForwarding forwarding(child);
        out.writeEnd.reset();
        err.writeEnd.reset();
        std::array<pollfd, 2> polled{pollfd{out.readEnd.get(), POLLIN, 0}, pollfd{err.readEnd.get(), POLLIN, 0}};
        collect(polled, {&result.out, &result.err}, watch);
        result.status = child.wait();
    }
    throwIfInterrupted();
    return result;
}

}  // namespace sarus::image
