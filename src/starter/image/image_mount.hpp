#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/subprocess.hpp"
#include "base/unique_fd.hpp"
#include "engine/site_config.hpp"
#include "starter/entry/credentials.hpp"

namespace sarus::starter {

class SharedImage;

/// Holds what a mounted image depends on: nothing (kernel mount), the server's process, the part in a shared
/// server, or the lock on an unpacked copy.
struct MountedImage {
    MountedImage() noexcept;
    MountedImage(MountedImage&& other) noexcept;
    MountedImage& operator=(MountedImage&& other) noexcept;
    ~MountedImage();

    /// The server, if it is a child of this process that serves other containers, too; else -1.
    pid_t sharedChild() const noexcept;
    /// Call this if somebody else reaped a child. True if it was the server.
    bool forgetHelper(pid_t pid) noexcept;
    /// A pidfd of the server, if another starter has started it; else -1.
    int foreignServer() const noexcept;

    Child helper;
    UniqueFd lock;
    std::unique_ptr<SharedImage> shared;
};

/// The server of another container.
struct ForeignServer {
    int process = -1;           ///< a pidfd, open as long as the MountedImage exists
    std::string_view provides;  ///< what this container loses with it
};

struct ImageMountRequest {
    int imageFd = -1;
    std::string imagePath{};  ///< for messages only
    engine::ImageMountPolicy policy = engine::ImageMountPolicy::kernel;
    std::string tempDir;           ///< for unpacked copies of a rootless starter
    std::string imageBuilderPath;  ///< absolute path of sarus-image-builder
    std::string serverPath;        ///< absolute path of sarus-squashfs
    /// SELinux label of all files of the image, for privileged mounts
    std::optional<std::string> label = std::nullopt;
    std::string target{};  ///< directory on which to mount the image: read-only, nosuid, nodev
    /// The mount point that holds `target` and the rest of the container. Hidden from the server, whose user
    /// could look into it. "": none
    std::string bundleDir{};
    /// Where the user's starters find each other's mounts, the starter's alone. Exists; privileged starters
    /// create it. "": share nothing.
    std::string sharingDirectory{};
    std::string whyNotByKernel{};  ///< the result of whyNotByKernel() (base/mounts.hpp)
    /// With privileges: refuse what the kernel may not mount. A server of the user's could serve anything.
    bool onlyByKernel = false;
    std::chrono::seconds patience{30};  ///< maximum wait for a FUSE server
};

/// Mounts a squashfs image on a directory. Privileged: by the kernel, through a loop device shared with the
/// node's other containers of the same file, or through sarus-squashfs, as the policy says. Rootless: through
/// sarus-squashfs; if /dev/fuse is unusable, from a private unpacked copy below tempDir. Throws
/// Error unless the image is sound.
MountedImage mountImage(const ImageMountRequest& request, const Credentials& credentials);

/// For "kernel-for-root-owned": true if the image is a regular file that only root can change or replace, as
/// seen in this mount namespace, and not on a FUSE filesystem.
bool isRootOwnedImage(int imageFd);

}  // namespace sarus::starter
