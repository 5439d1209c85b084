#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/subprocess.hpp"
#include "base/unique_fd.hpp"

namespace sarus::served_image {

/// What became of a question to a FUSE server.
enum class Answer {
    yes,
    none,  ///< it has ended, or is about to
    late,
};

/// Whether the server of a mount answers in time. `mount`: a descriptor of its root, also O_PATH. Asks in
/// another process: one that waits for a server cannot be woken. That process holds nothing else. Throws
/// Error.
Answer askServer(int mount, std::chrono::milliseconds patience);

/// A FUSE server, forked, and the filesystem that it serves. Killed with this object; if this process is
/// killed before release(), the server ends. Afterwards it ends with its mount.
class Server {
public:
    struct Setup {
        std::string program;             ///< absolute path
        std::vector<std::string> args;   ///< with argv[0]
        std::vector<int> descriptors{};  ///< become 3, 4, ... in the program; the FUSE device follows them
        std::string searchPath{"/usr/bin:/bin"};  ///< PATH, its only variable
        /// Runs first in the new process, with only the above descriptors: leaves the namespaces that the
        /// server must not keep, hides mounts, and takes on the server's rights for good. Throws Error.
        std::function<void()> enter{};
        bool diesWithParent = false;
        int output = -1;  ///< regular file for what it prints; -1: a file in memory
    };
    struct Filesystem {
        std::string name;  ///< of the source; of the type, behind "fuse."
        std::string target;
        unsigned long flags = 0;
        std::string options;  ///< user_id, group_id and more
    };

    /// Forks. Returns once the server's process has run Setup::enter, and has not seen the mount; errors
    /// there are part of the output. Throws Error.
    Server(const Setup& setup, UniqueFd device);

    /// Mounts the filesystem, with default_permissions. False, with errno, if the kernel refuses.
    bool mount(const Filesystem& filesystem);
    /// Lets the server's process execute the program, with no_new_privs, in a session of its own, without
    /// signals that can be blocked.
    void release();
    /// Whether the mount answers in time; call after release(). If not, removes the mount. Throws Error.
    Answer waitForAnswer(std::chrono::seconds patience);
    /// Ends the server if it still runs after 10 s. Returns the end of its output as one line.
    std::string endAndGetOutput();
    pid_t pid() const noexcept { return child.pid(); }
    Child takeChild() noexcept { return std::move(child); }

private:
    Child child;
    UniqueFd device;
    UniqueFd channel;
    UniqueFd output;
    UniqueFd root;
    std::string target;
};

}  // namespace sarus::served_image
