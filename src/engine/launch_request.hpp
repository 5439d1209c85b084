#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "oci/image_metadata.hpp"

namespace sarus::engine {

/// What `sarus run` asks the starter for. It crosses from the unprivileged to the privileged half, so the starter treats every
/// field as hostile; identity, groups and affinity are not in it: the kernel tells those.
///
/// The image was opened by the user's own process: `imageFd` is the number of an O_RDONLY descriptor that survives the exec.
struct LaunchRequest {
    int imageFd = -1;
    std::string imagePath;       ///< for messages only
    std::string imageReference;  ///< as the user typed it, normalised; for messages and annotations
    oci::ImageMetadata metadata;

    std::vector<std::string> command;                    ///< after the image on the command line
    std::optional<std::vector<std::string>> entrypoint;  ///< overrides the image's (and drops its Cmd); empty: none
    std::vector<std::string> hostEnvironment;            ///< the caller's environ, "NAME=value"
    std::vector<std::string> env;                        ///< values of -e/--env, in order
    std::vector<std::string> unsetEnv;                   ///< names that the container does not get, unless `env` sets them
    std::vector<std::string> mounts;                     ///< values of --mount, in order
    std::vector<std::string> devices;                    ///< values of --device, in order
    std::vector<std::string> annotations;                ///< values of --annotation, in order
    /// Directories of the workload manager's PMIx server which its variables do not name; as user-chosen as those are.
    std::vector<std::string> workloadDirectories;
    /// For a dry run: where options come from that do not stand on the command line, by optionKey().
    std::map<std::string, std::string> optionOrigins;
    std::optional<std::string> workdir;
    std::optional<std::string> name;
    std::optional<std::string> mpiType;
    bool mpi = false;
    bool glibc = false;
    bool ssh = false;
    bool init = false;
    bool tty = false;
    bool privatePid = false;
    bool dryRun = false;  ///< print the plan, start nothing
    bool json = false;    ///< print it as JSON
    bool readonlyRoot = false;
    /// The caller's soft RLIMIT_STACK in bytes, which the kernel lowers to 8 MiB when a set-user-ID program is executed. The
    /// container gets it back as far as the hard limit allows.
    std::optional<std::uint64_t> stackLimit;
    LogLevel logLevel = LogLevel::warn;
};

/// The key of an option in LaunchRequest::optionOrigins. `value`: of --mount and --device the whole text, of --env and
/// --annotation the name.
std::string optionKey(std::string_view option, std::string_view value);

/// The limit of a serialised request, in bytes.
constexpr std::size_t maxLaunchRequestSize = 8U << 20U;
/// The limits of a single list and of a single string.
constexpr std::size_t maxLaunchRequestListLength = 65536;
constexpr std::size_t maxLaunchRequestStringLength = 1U << 20U;

/// Length-prefixed binary form, with a protocol version in front. Throws Error if it is larger than maxLaunchRequestSize.
std::string serializeLaunchRequest(const LaunchRequest& request);

/// Accepts exactly what serializeLaunchRequest writes; bounds-checked; throws Error for everything else.
LaunchRequest parseLaunchRequest(std::string_view bytes);

}  // namespace sarus::engine
