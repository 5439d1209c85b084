#pragma once

#include <sys/stat.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/subprocess.hpp"
#include "base/unique_fd.hpp"
#include "starter/entry/credentials.hpp"
#include "starter/image/image_mount.hpp"
#include "starter/namespaces/holder_file.hpp"

namespace sarus::starter {

/// One container's part in a FUSE mount that a user's containers of one image share. One server and one page
/// cache then serve them all. The first starter mounts; later ones copy the mount out of the mount namespace
/// of any starter that still runs. The mount, and with it the server, ends with its last copy, also after
/// SIGKILL of any process: the kernel counts the copies.
///
/// Only containers of one job step share. A workload manager stops, suspends and kills all processes of a
/// step, and another step's containers must not lose their files with them.
class SharedImage {
public:
    /// Locks the list of the starters that have mounted this image; it stays locked until publish(). Empty if
    /// it cannot be locked in time or sharing is not possible.
    static std::unique_ptr<SharedImage> open(const ImageMountRequest& request, const struct stat& image,
                                             const Credentials& credentials);

    /// Leaves the list. Ends the server if this starter is its parent and nobody else uses it.
    ~SharedImage();
    SharedImage(const SharedImage&) = delete;
    SharedImage& operator=(const SharedImage&) = delete;

    /// Mounts another starter's mount on `target`: read-only, nosuid, nodev. Does not wait for the server.
    /// False if nobody offers one.
    bool join(const std::string& target);
    /// Offers the mount on `target` to others. `servedBy`: its server, after join(): 0. Throws Error if
    /// others cannot know that this starter uses the server.
    void publish(const std::string& target, pid_t servedBy = 0);
    /// The server is a child of this process.
    void adopt(Child process) noexcept { child = std::move(process); }

    pid_t childPid() const noexcept { return child.pid(); }
    void forgetChild() noexcept { child.release(); }
    /// A pidfd of another starter's server, which ends before this object only if somebody kills it; else -1.
    int serverFd() const noexcept { return theirServer.get(); }

private:
    SharedImage(HolderFile file, std::string theDirectory, bool isPrivileged) noexcept;
    void leave();

    HolderFile list;
    std::string directory;
    bool privileged;
    std::vector<Holder> holders;  ///< the living ones, while the list is locked
    pid_t server = -1;
    UniqueFd theirServer;
    UniqueFd mount;
    Child child;
};

}  // namespace sarus::starter
