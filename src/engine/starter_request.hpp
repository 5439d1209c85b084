#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/log.hpp"
#include "engine/container_settings.hpp"
#include "engine/launch_request.hpp"

namespace sarus::engine {

/// `sarus exec`: a command in a running container of the caller.
struct ExecRequest {
    std::string name{};  ///< of the container
    std::vector<std::string> command{};
    std::vector<std::string> hostEnvironment{};  ///< the caller's environ, "NAME=value"
    std::vector<std::string> env{};              ///< values of -e/--env, in order
    std::optional<std::string> workdir{};
    bool tty = false;
    bool ownStep = false;  ///< keeps the cgroups, the variables and the PMI descriptor of the caller
    /// The number of an inherited Unix socket to the process that holds the container open; -1: none. When
    /// the command has ended, the starter closes its side and waits for the end of the other one. A byte that
    /// comes is the status in place of 0.
    int keeper = -1;
    // What the caller expects of the container, which must have been started so.
    std::string imageReference{};  ///< "" for any image
    std::string imageContent{};    ///< as in LaunchRequest; "" if the image is not here
    ContainerSettings settings{};
    std::optional<std::uint64_t> stackLimit{};  ///< as in LaunchRequest
    LogLevel logLevel = LogLevel::warn;
};

/// `sarus ps`. `sessionDirectory` is the caller's XDG_RUNTIME_DIR, used only without privileges; "" if unset.
struct ListRequest {
    std::string sessionDirectory{};
    bool json = false;
    bool all = false;      ///< of all users; for root
    bool kept = false;     ///< also those that were kept and do not run
    bool brief = false;    ///< columns for people instead of those of runc
    int width = 0;         ///< of the terminal for these columns; 0: any
    std::string others{};  ///< as JSON: what the starter has listed already
};

/// `sarus inspect` of a container.
struct InspectRequest {
    std::string sessionDirectory{};
    std::string name{};
    bool json = false;
};

/// `sarus kill`.
struct KillRequest {
    std::string sessionDirectory{};
    std::string name{};
    std::string signal{};  ///< "SIGTERM", "TERM" or "15"
};

/// `sarus rm`: containers that were kept.
struct RemoveRequest {
    std::string sessionDirectory{};
    std::string job{};  ///< number of the caller's job of Slurm; "" outside of jobs
    std::vector<std::string> names{};
    bool force = false;        ///< ends those that run
    bool allIdle = false;      ///< in the place of names: all that do not run, or with `force` all
    std::string onlyJob{};     ///< of those: the containers of this job; "": of all
    bool ofEndedJobs = false;  ///< in the place of names: those of jobs that are over
    std::string removed{};     ///< names, a line each, that the starter has removed already
    bool hasFailed = false;    ///< it could not remove some others
};

/// `sarus save` of a container that was kept.
struct SaveRequest {
    std::string job{};  ///< number of the caller's job of Slurm; "" outside of jobs
    std::string name{};
    std::string content{};  ///< of the image file (squashfs::contentOf)
    /// The image file. -1: to print the content and the name of the container's image, a line each, or
    /// nothing without such a container. Otherwise standard input is the empty file to write.
    int imageFd = -1;
};

/// The caller's directory below localRepositoryBaseDir.
struct CreateRepositoryRequest {};

/// Requests that `sarus` may send to the starter. They cross from the unprivileged to the privileged half, so
/// the starter treats every field as hostile. Add a new verb here, to `fields` (starter_request.cpp) and to
/// the starter's verbs.
using StarterRequest = std::variant<LaunchRequest, ExecRequest, ListRequest, InspectRequest, KillRequest,
                                    CreateRepositoryRequest, RemoveRequest, SaveRequest>;

/// The maximum size of a serialised request, in bytes.
constexpr std::size_t maxRequestSize = 8U << 20U;
/// The maximum lengths of a list and of a string.
constexpr std::size_t maxRequestListLength = 65536;
constexpr std::size_t maxRequestStringLength = 1U << 20U;

/// Length-prefixed binary form that starts with a protocol version. Throws Error if it is larger than
/// maxRequestSize.
std::string serializeRequest(const StarterRequest& request);

/// Accepts exactly what serializeRequest writes, with bounds checks. Throws Error for everything else.
StarterRequest parseRequest(std::string_view bytes);

}  // namespace sarus::engine
