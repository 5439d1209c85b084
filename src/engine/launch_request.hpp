#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "oci/image/image_metadata.hpp"
#include "oci/runtime/mount_request.hpp"

namespace sarus::engine {

/// The request of `sarus run` to the starter. It crosses from the unprivileged to the privileged half, so the
/// starter treats every field as hostile. Identity, groups and affinity are not included: the kernel provides
/// them.
///
/// The user's own process opened the image: `imageFd` is the number of an O_RDONLY descriptor that survives
/// the exec.
struct LaunchRequest {
    int imageFd = -1;
    std::string imagePath;       ///< for messages only
    std::string imageReference;  ///< as the user typed it, normalised; for messages and annotations
    /// The recorded digest of the image file (base/fsverity.hpp), or "".
    std::string imageDigest;
    oci::ImageMetadata metadata;

    std::vector<std::string> command;  ///< after the image on the command line
    /// Overrides the image's (and drops its Cmd); empty: none.
    std::optional<std::vector<std::string>> entrypoint;
    std::vector<std::string> hostEnvironment;  ///< the caller's environ, "NAME=value"
    std::vector<std::string> env;              ///< values of -e/--env, in order
    /// Names to remove from the container's environment, unless `env` sets them.
    std::vector<std::string> unsetEnv;
    std::vector<oci::MountRequest> mounts;  ///< in order
    std::vector<std::string> devices;       ///< values of --device, in order
    std::vector<std::string> annotations;   ///< values of --annotation, in order
    /// Directories of the workload manager's PMIx server that its variables do not name; like those, chosen
    /// by the user.
    std::vector<std::string> workloadDirectories;
    /// For a dry run: the origin of options that are not on the command line, by optionKey().
    std::map<std::string, std::string> optionOrigins;
    std::optional<std::string> workdir;
    std::optional<std::string> name;
    /// Names the content of the image file (squashfs::contentOf); only with a name.
    std::string imageContent;
    bool keep = false;  ///< what the container writes outlives it
    /// Where the user wants that (SARUS_CONTAINER_DIR), an absolute path; "": where the site does.
    std::string keptDirectory;
    bool hold = false;  ///< the command does not run: the container is open as long as its standard input
    std::optional<std::string> mpiType;
    bool mpi = false;
    bool glibc = false;
    bool ssh = false;
    bool init = false;
    bool tty = false;
    bool privatePid = false;
    bool privateNetwork = false;  ///< only a loopback device
    bool privateIpc = false;      ///< with /dev/shm and message queues of its own
    bool privateUts = false;      ///< the names of host and domain
    bool dryRun = false;          ///< print the plan, start nothing
    bool json = false;            ///< print it as JSON
    bool readonlyRoot = false;
    bool remapRoot = false;  ///< the caller is root in the container, which has no privileges on the node
    /// The caller's soft RLIMIT_STACK in bytes, which the kernel lowers to 8 MiB when it executes a
    /// set-user-ID program. Restored for the container as far as the hard limit allows.
    std::optional<std::uint64_t> stackLimit;
    LogLevel logLevel = LogLevel::warn;
};

/// The key of an option in LaunchRequest::optionOrigins. `value`: the whole text for mounts and --device,
/// the name for --env and --annotation.
std::string optionKey(std::string_view option, std::string_view value);

}  // namespace sarus::engine
