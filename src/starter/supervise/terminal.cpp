#include "starter/supervise/terminal.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/received_message.hpp"
#include "base/text.hpp"
#include "starter/entry/credentials.hpp"

namespace sarus::starter {

namespace {

constexpr char endOfFile = '\x04';
constexpr std::size_t pieceSize = 16U << 10U;
/// Signals and the container's end wait for so many pieces at most.
constexpr int piecesAtOnce = 16;

bool wouldWait() noexcept {
    return errno == EAGAIN || errno == EINTR;
}

/// Opens a terminal or pipe again: O_NONBLOCK would otherwise affect everybody who shares the descriptor.
UniqueFd openUnwaited(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0 || (!S_ISFIFO(status.st_mode) && ::isatty(fd) != 1)) {
        return {};
    }
    const WithoutCapabilities userAlone;
    return UniqueFd(::open(cat("/proc/self/fd/", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

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
    if (termios found{}; inputIsTerminal && ::tcgetattr(STDIN_FILENO, &found) == 0) {
        settings = found;
    }
}

std::optional<oci::RuntimeConsoleSize> UserTerminal::size() const noexcept {
    winsize size{};
    if (::ioctl(controlling.get(), TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
        return std::nullopt;
    }
    return oci::RuntimeConsoleSize{.height = size.ws_row, .width = size.ws_col};
}

void UserTerminal::attach(RuntimeInvocation& invocation) {
    if (invocation.program.kind == engine::OciRuntime::runc) {
        openInner();
        messages = makePipe();
        invocation.streams = {inner.get(), inner.get(), messages.writer.get()};
        return;
    }
    const auto path = cat(invocation.bundleDir, "/console");
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    if (path.size() >= sizeof address.sun_path) {
        throw Error(cat("The option --tty needs a shorter path than ", printable(path)),
                    "Set OCIBundleDir (without privileges tempDir, or XDG_RUNTIME_DIR) to a shorter path");
    }
    std::copy(path.begin(), path.end(), address.sun_path);
    socket.reset(checkErrno(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                            "Failed to create a socket"));
    const mode_t mask = ::umask(0177);  // only the runtime connects
    const int bound = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    const int error = errno;
    ::umask(mask);
    if (bound != 0) {
        throw Error::fromErrno(cat("Failed to create ", printable(path)), error);
    }
    checkErrno(::listen(socket.get(), 1), cat("Failed to listen on ", printable(path)));
    listening = true;
    invocation.consoleSocket = path;
}

void UserTerminal::openInner() {
    outer.reset(checkErrno(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK),
                           "Failed to create a terminal"));
    std::array<char, 64> name{};
    if (::unlockpt(outer.get()) != 0 || (errno = ::ptsname_r(outer.get(), name.data(), name.size())) != 0) {
        throwErrno("Failed to create a terminal");
    }
    inner.reset(
        checkErrno(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC), "Failed to open a new terminal"));
    termios raw{};
    checkErrno(::tcgetattr(inner.get(), &raw), "Failed to read the settings of a new terminal");
    ::cfmakeraw(&raw);
    checkErrno(::tcsetattr(inner.get(), TCSANOW, &raw), "Failed to set up a new terminal");
    copySize();
}

void UserTerminal::receiveOuter() {
    if (listening) {
        UniqueFd connection(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!connection) {
            return;
        }
        socket = std::move(connection);
        listening = false;
    }
    pollfd source{socket.get(), POLLIN, 0};
    if (::poll(&source, 1, 0) != 1) {
        return;
    }
    std::array<char, 256> name{};
    outer = receiveMessage(socket.get(), name, MSG_DONTWAIT).takeDescriptor();
    socket.reset();
    if (outer) {
        ::fcntl(outer.get(), F_SETFL, O_RDWR | O_NONBLOCK);
        inner.reset(::ioctl(outer.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));  // since Linux 4.13
        copySize();
    }
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
    if (socket) {
        sources.push_back({socket.get(), POLLIN, 0});
    }
    if (!outer || outputEnded) {
        return;
    }
    auto events = static_cast<short>(toContainer.empty() ? 0 : POLLOUT);
    if (toUser.empty()) {
        events = static_cast<short>(events | POLLIN);
    } else {
        sources.push_back({output, POLLOUT, 0});
    }
    sources.push_back({outer.get(), events, 0});
    if (keyboardTaken && toContainer.empty() && !inputEnded) {
        sources.push_back({STDIN_FILENO, POLLIN, 0});
    }
}

bool UserTerminal::forward(bool started) {
    if (socket) {
        receiveOuter();
    }
    if (!outer) {
        return true;
    }
    started = started || readOutput();
    if (started && !keyboardTaken && !takeKeyboard()) {
        return false;
    }
    for (int i = 0; i < piecesAtOnce && readOutput() && writeOutput(); ++i) {
    }
    if (keyboardTaken) {
        readInput();
        writeInput();
    }
    return !inputIsTerminal || !keyboardTaken || !isInBackground(STDIN_FILENO);
}

bool UserTerminal::drain(std::vector<pollfd>& sources) {
    // What a terminal keeps; processes that stay behind may go on writing.
    constexpr std::size_t most = 128U << 10U;
    if (socket) {
        receiveOuter();  // of a program that ended at once
    }
    for (std::size_t i = 0; i < most / pieceSize && outer && readOutput(); ++i) {
        if (!writeOutput()) {
            sources.push_back({output, POLLOUT, 0});
            return outputLost;
        }
    }
    return true;
}

void UserTerminal::finish() {
    releaseKeyboard();
    std::array<char, 4096> buffer{};
    ssize_t count = 0;
    for (pollfd source{messages.reader.get(), POLLIN, 0};
         ::poll(&source, 1, 0) == 1 && (count = ::read(source.fd, buffer.data(), buffer.size())) > 0;) {
        if (::write(STDERR_FILENO, buffer.data(), static_cast<std::size_t>(count)) != count) {
            return;  // nobody can be told
        }
    }
}

/// Signals of the terminal are blocked, so the kernel does not keep a background job from changing it.
bool UserTerminal::takeKeyboard() noexcept {
    if (!inputIsTerminal) {
        keyboardTaken = true;
        return true;
    }
    if (isInBackground(STDIN_FILENO)) {
        return false;
    }
    if (auto raw = settings) {
        ::cfmakeraw(&*raw);
        ::tcsetattr(STDIN_FILENO, TCSANOW, &*raw);
    }
    keyboardTaken = true;
    return true;
}

void UserTerminal::releaseKeyboard() noexcept {
    if (settings && keyboardTaken && !isInBackground(STDIN_FILENO)) {
        ::tcsetattr(STDIN_FILENO, TCSANOW, &*settings);
    }
    keyboardTaken = keyboardTaken && !inputIsTerminal;
}

void UserTerminal::readInput() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (!toContainer.empty() || inputEnded || (inputIsTerminal && isInBackground(STDIN_FILENO)) ||
        ::poll(&input, 1, 0) != 1) {
        return;
    }
    std::array<char, 4096> buffer{};
    const auto count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count > 0) {
        toContainer.assign(buffer.data(), static_cast<std::size_t>(count));
        lastByte = toContainer.back();
    } else if (count == 0 || !wouldWait()) {
        inputEnded = true;
        toContainer.assign(lastByte == '\n' ? 1 : 2, endOfFile);  // the first one ends an incomplete line
    }
}

void UserTerminal::writeInput() {
    if (!toContainer.empty()) {
        const auto written = ::write(outer.get(), toContainer.data(), toContainer.size());
        toContainer.erase(0, static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
}

/// True if there is something for the user.
bool UserTerminal::readOutput() {
    if (!toUser.empty() || outputEnded) {
        return !toUser.empty();
    }
    std::array<char, pieceSize> buffer{};
    const auto count = ::read(outer.get(), buffer.data(), buffer.size());
    if (count > 0) {
        toUser.assign(buffer.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || !wouldWait()) {
        outputEnded = true;  // nobody has the container's terminal open
    }
    return count > 0;
}

/// True if nothing is left to be written.
bool UserTerminal::writeOutput() {
    if (output < 0) {
        unwaited = openUnwaited(STDOUT_FILENO);
        output = unwaited ? unwaited.get() : STDOUT_FILENO;
    }
    const auto written =
        outputLost ? static_cast<ssize_t>(toUser.size()) : ::write(output, toUser.data(), toUser.size());
    if (written < 0 && !wouldWait()) {
        outputLost = true;
        if (errno != EPIPE && errno != EIO) {  // those who close a pipe or a terminal know it
            printError(Error::fromErrno("Failed to write the container's output", errno).what());
        }
    }
    toUser.erase(0, static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    return toUser.empty();
}

void UserTerminal::copySize() const noexcept {
    winsize size{};
    if (outer && ::ioctl(controlling.get(), TIOCGWINSZ, &size) == 0) {
        ::ioctl(outer.get(), TIOCSWINSZ, &size);
    }
}

bool UserTerminal::hasVanished() const noexcept {
    auto terminals = watched();
    return outputLost || (::poll(terminals.data(), terminals.size(), 0) > 0 &&
                          std::any_of(terminals.begin(), terminals.end(),
                                      [](const pollfd& each) { return (each.revents & POLLHUP) != 0; }));
}

}  // namespace sarus::starter
