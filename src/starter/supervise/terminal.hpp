#pragma once

#include <poll.h>
#include <termios.h>

#include <optional>
#include <string>
#include <vector>

#include "base/pipe.hpp"
#include "base/unique_fd.hpp"
#include "oci/runtime/runtime_config.hpp"
#include "starter/runtime/runtime.hpp"

namespace sarus::starter {

/// The user's terminal and the relay between the user's standard streams and a container with --tty. The
/// relay works with the rights of the process that calls forward(): of the monitor.
///
/// crun sends the container's terminal over a socket and is not involved further. runc copies the terminal
/// itself as long as it waits for the container, so it gets a terminal of the starter's as its input and
/// output. Its messages pass through a pipe: it would change the settings of a terminal there.
class UserTerminal {
public:
    /// Throws Error if this process has no controlling terminal.
    UserTerminal();
    UserTerminal(const UserTerminal&) = delete;
    UserTerminal& operator=(const UserTerminal&) = delete;
    ~UserTerminal() { releaseKeyboard(); }

    /// Rows and columns; empty if the user's terminal has none.
    std::optional<oci::RuntimeConsoleSize> size() const noexcept;

    /// Prepares the runtime's side, in its bundle, before the runtime starts. Throws Error.
    void attach(RuntimeInvocation& invocation);

    /// Adds the descriptors to wait for. Once the terminal has vanished, they are always ready.
    void addTo(std::vector<pollfd>& sources) const;
    /// Copies what can be copied without waiting. The user's keyboard is the container's as soon as it has
    /// `started` or printed something. False if that failed because another job has the keyboard.
    bool forward(bool started);
    /// After the runtime's end: copies the rest until it would have to wait. True if nothing is left. Adds
    /// the descriptor to wait for otherwise.
    bool drain(std::vector<pollfd>& sources);
    /// Then prints what the runtime had to say, on the user's terminal with its former settings.
    void finish();
    /// Gives the container's terminal the size of the user's terminal.
    void copySize() const noexcept;
    /// Returns the user's terminal to the settings that it had before forward().
    void releaseKeyboard() noexcept;
    /// True if the user's terminal is gone (its window was closed, or its session has ended), or nobody reads
    /// the output any more.
    bool hasVanished() const noexcept;

private:
    std::vector<pollfd> watched() const;
    void openInner();
    void receiveOuter();
    bool takeKeyboard() noexcept;
    void readInput();
    void writeInput();
    bool readOutput();
    bool writeOutput();

    UniqueFd controlling;
    bool inputIsTerminal;
    std::optional<termios> settings;  ///< of the user's terminal before the start
    UniqueFd socket;                  ///< on which crun sends the terminal: first listening, then connected
    bool listening = false;
    UniqueFd
        outer;  ///< our side of the container's terminal (runc: of the terminal of the runtime's streams)
    UniqueFd
        inner;  ///< the other side, kept open: without it, `outer` is always ready once nobody has it open
    Pipe messages;  ///< of runc
    UniqueFd
        unwaited;  ///< the standard output, opened again so that writing does not wait; empty: not possible
    int output = -1;          ///< `unwaited` or the standard output; -1 before the first byte
    std::string toContainer;  ///< read from standard input, not yet written
    std::string toUser;       ///< read from the container, not yet written
    bool keyboardTaken = false;
    bool inputEnded = false;
    bool outputEnded = false;
    bool outputLost = false;
    char lastByte = '\n';
};

}  // namespace sarus::starter
