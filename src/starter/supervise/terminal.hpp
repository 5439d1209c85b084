#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus::starter {

/// The user's terminal, as opposed to the one that the OCI runtime creates for a container with --tty.
/// Runtimes copy between the two. crun copies only from a terminal, so other standard input reaches it
/// through an intermediate terminal, followed by the end-of-file key (EOT).
class UserTerminal {
public:
    /// Throws Error if this process has no controlling terminal.
    UserTerminal();

    /// The runtime's standard input.
    int runtimeInput() const noexcept;

    /// Adds the descriptors to wait for. Once the terminal has vanished, they are always ready.
    void addTo(std::vector<pollfd>& sources) const;
    /// Copies what can be copied without waiting.
    void forward();
    /// Gives the intermediate terminal the size of the user's terminal.
    void copySize() const noexcept;
    /// True if the user's terminal is gone: its window was closed, or its session has ended.
    bool hasVanished() const noexcept;

private:
    std::vector<pollfd> watched() const;
    void openRelay();

    UniqueFd controlling;
    bool inputIsTerminal;
    bool inputEnded = false;
    UniqueFd relay;       ///< the starter's side of the intermediate terminal, if there is one
    UniqueFd relayInner;  ///< the runtime's side
    std::string pending;  ///< read from standard input, not yet written
    char lastByte = '\n';
};

}  // namespace sarus::starter
