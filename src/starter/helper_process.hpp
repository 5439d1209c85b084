#pragma once

#include <string>
#include <vector>

#include "base/subprocess.hpp"
#include "base/unique_fd.hpp"
#include "starter/credentials.hpp"

namespace sarus::starter {

/// A FUSE server before its exec: forked, with the caller's rights, waiting for release().
class HelperProcess {
public:
    struct Setup {
        std::string program;             ///< absolute path
        std::vector<std::string> args;   ///< with argv[0]
        std::vector<int> descriptors{};  ///< become 3, 4, ... in the program
        bool ownMountNamespace = true;
        /// A mount point that is taken out of the program's own mount namespace. The program's user can look into that, by
        /// /proc/PID/root, while root still works on what is mounted there. "": nothing.
        std::string hidden{};
        bool dropPrivileges = true;  ///< take on the caller's ids for good, if privileged
    };

    /// Returns after the child has left the mount namespace and given up its rights. Throws Error.
    HelperProcess(const Setup& setup, const Credentials& credentials);

    /// Lets it exec.
    void release();
    /// Ends it, if it has not ended yet, and returns what it wrote to its standard streams, on one line.
    std::string endAndGetOutput();
    bool hasEnded() const noexcept;
    Child takeChild() noexcept { return std::move(child); }

private:
    Child child;
    UniqueFd channel;
    UniqueFd output;
};

}  // namespace sarus::starter
