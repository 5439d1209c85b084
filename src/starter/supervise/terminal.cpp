#include "starter/supervise/terminal.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.hpp"

namespace sarus::starter {

namespace {

constexpr char endOfFile = '\x04';

}  // namespace

// The runtimes' own message for a missing terminal is unclear to users.
UserTerminal::UserTerminal()
    : controlling(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)),
      inputIsTerminal(::isatty(STDIN_FILENO) == 1) {
    if (!controlling) {
        throw Error::fromErrno(
            "The option --tty needs a controlling terminal: open /dev/tty", errno,
            "Under a workload manager ask it for a terminal (srun --pty), or leave the option out");
    }
    if (!inputIsTerminal) {
        openRelay();
    }
}

void UserTerminal::openRelay() {
    relay.reset(checkErrno(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK),
                           "Failed to create a terminal"));
    std::array<char, 64> name{};
    if (::unlockpt(relay.get()) != 0 || (errno = ::ptsname_r(relay.get(), name.data(), name.size())) != 0) {
        throwErrno("Failed to create a terminal");
    }
    relayInner.reset(
        checkErrno(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC), "Failed to open a new terminal"));
    termios settings{};
    checkErrno(::tcgetattr(relayInner.get(), &settings), "Failed to read the settings of a new terminal");
    ::cfmakeraw(&settings);
    checkErrno(::tcsetattr(relayInner.get(), TCSANOW, &settings), "Failed to set up a new terminal");
    copySize();
}

int UserTerminal::runtimeInput() const noexcept {
    return relay ? relayInner.get() : STDIN_FILENO;
}

std::vector<pollfd> UserTerminal::watched() const {
    std::vector<pollfd> terminals{{controlling.get(), 0, 0}};  // a hang-up is always reported
    if (inputIsTerminal) {
        terminals.push_back({STDIN_FILENO, 0, 0});  // usually the same one
    }
    return terminals;
}

void UserTerminal::addTo(std::vector<pollfd>& sources) const {
    const auto terminals = watched();
    sources.insert(sources.end(), terminals.begin(), terminals.end());
    if (relay && !pending.empty()) {
        sources.push_back({relay.get(), POLLOUT, 0});
    } else if (relay && !inputEnded) {
        sources.push_back({STDIN_FILENO, POLLIN, 0});
    }
}

void UserTerminal::forward() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (relay && pending.empty() && !inputEnded && ::poll(&input, 1, 0) == 1) {
        std::array<char, 4096> buffer{};
        const auto count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
        if (count > 0) {
            pending.assign(buffer.data(), static_cast<std::size_t>(count));
            lastByte = pending.back();
        } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
            inputEnded = true;
            pending.assign(lastByte == '\n' ? 1 : 2,
                           endOfFile);  // the first one ends an incomplete line
        }
    }
    if (!pending.empty()) {
        const auto written = ::write(relay.get(), pending.data(), pending.size());
        pending.erase(0, static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
}

void UserTerminal::copySize() const noexcept {
    winsize size{};
    if (relay && ::ioctl(controlling.get(), TIOCGWINSZ, &size) == 0) {
        ::ioctl(relay.get(), TIOCSWINSZ, &size);
    }
}

bool UserTerminal::hasVanished() const noexcept {
    auto terminals = watched();
    return ::poll(terminals.data(), terminals.size(), 0) > 0 &&
           std::any_of(terminals.begin(), terminals.end(),
                       [](const pollfd& each) { return (each.revents & POLLHUP) != 0; });
}

}  // namespace sarus::starter
