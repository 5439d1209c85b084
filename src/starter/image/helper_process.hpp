#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/subprocess.hpp"
#include "base/unique_fd.hpp"
#include "starter/entry/credentials.hpp"

namespace sarus::starter {

/// A FUSE server before its exec: forked, with the caller's rights, waiting for release().
class HelperProcess {
public:
    struct Setup {
        std::string program;             ///< absolute path
        std::vector<std::string> args;   ///< with argv[0]
        std::vector<int> descriptors{};  ///< become 3, 4, ... in the program
        bool ownMountNamespace = true;
        /// A mount point to remove from the program's own mount namespace. The program's user can look into
        /// that namespace through /proc/PID/root while root still works on the mount. "": nothing to remove.
        std::string hidden{};
        bool dropPrivileges = true;  ///< if privileged, switch to the caller's ids for good
        /// It serves other containers, too: it outlives the starter, which may be bound to other processors.
        bool isShared = false;
    };

    /// Returns once the child has left the mount namespace and dropped its rights. Throws Error.
    HelperProcess(const Setup& setup, const Credentials& credentials);

    /// Lets the child execute the program.
    void release();
    /// Ends it if it still runs after 10 s. Returns its output as one line.
    std::string endAndGetOutput();
    bool hasEnded() const noexcept;
    pid_t pid() const noexcept { return child.pid(); }
    /// Kills the server unless the deadline is cancelled in time: that is the only way to wake a process that
    /// waits for it in the kernel.
    void setDeadline(std::chrono::seconds patience);
    /// True if the deadline killed it.
    bool wasTooSlow() const noexcept;
    Child takeChild() noexcept {
        watchdog = Child();
        return std::move(child);
    }

private:
    Child child;
    std::chrono::steady_clock::time_point deadline{};  ///< valid if there is a watchdog
    Child watchdog;
    UniqueFd channel;
    UniqueFd output;
};

}  // namespace sarus::starter
