#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus::podman_hpc {

/// A FUSE server that outlives this program. Until finish() it is killed with this object; if this program is
/// killed, it ends with the mount that nobody has any more, or because release() never comes.
class Server {
public:
    struct Setup {
        std::string program;             ///< absolute path
        std::vector<std::string> args;   ///< with argv[0]
        std::vector<int> descriptors{};  ///< become 3, 4, ... in the program
        /// It gets a mount namespace of its own, without the mounts in these directories: it must not keep
        /// other containers' files alive, nor its own mount.
        bool ownMountNamespace = false;
        std::vector<std::string> hidden{};
        uid_t user = 0;   ///< real root's server runs as this user
        gid_t group = 0;  ///< and with this group
    };

    /// Forks; the child waits for release(). Throws Error.
    explicit Server(const Setup& setup);
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server();

    /// Lets it execute the program. Opens the root of its mount, which returns once it answers. The caller
    /// has closed its own descriptor of the connection. An empty one: it does not serve; see output().
    UniqueFd waitForRoot(int mountPoint);
    /// What it printed so far, or why it was killed. Kills it.
    std::string endAndGetOutput();
    pid_t pid() const noexcept { return process; }
    /// Lets it live on.
    void finish() noexcept { process = -1; }

private:
    std::string program;
    pid_t process = -1;
    UniqueFd channel;
    UniqueFd output;
    bool wasTooSlow = false;
};

/// How long to wait for the answer of a server.
int patienceInSeconds();

/// Detaches all mounts on and below these directories from this mount namespace.
void hideMounts(const std::vector<std::string>& directories);

}  // namespace sarus::podman_hpc
