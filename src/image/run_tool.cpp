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

void collect(std::array<pollfd, 2>& polled, const std::array<std::string*, 2>& sinks, std::size_t limit) {
    while (polled[0].fd >= 0 || polled[1].fd >= 0) {
        if (::poll(polled.data(), polled.size(), -1) < 0) {
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
                sinks[i]->append(buffer, std::min(static_cast<std::size_t>(count), limit - std::min(limit, sinks[i]->size())));
            } else if (count == 0 || errno != EINTR) {
                polled[i].fd = -1;
            }
        }
    }
}

}  // namespace

ToolResult runTool(const Command& command, ToolStreams streams, std::string_view package, std::size_t limit) {
    checkProgram(command.path, package);
    logDebug("ImageManager", cat("Executing ", printable(join(command.args, " "))));
    throwIfInterrupted();
    auto connected = command;
    Pipe out;
    Pipe err;
    if (streams != ToolStreams::captureErrors) {
        out = makePipe();
        connected.stdoutFd = out.writeEnd.get();
    }
    if (streams != ToolStreams::captureOutput) {
        err = makePipe();
        connected.stderrFd = err.writeEnd.get();
    }
    ToolResult result;
    auto child = start(connected);
    {
        const SignalForwarding forwarding(child);
        out.writeEnd.reset();
        err.writeEnd.reset();
        std::array<pollfd, 2> polled{pollfd{out.readEnd.get(), POLLIN, 0}, pollfd{err.readEnd.get(), POLLIN, 0}};
        collect(polled, {&result.out, &result.err}, limit);
        result.status = child.wait();
    }
    throwIfInterrupted();
    return result;
}

}  // namespace sarus::image
