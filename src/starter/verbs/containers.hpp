#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "engine/starter_request.hpp"
#include "starter/entry/installation.hpp"

namespace sarus::starter {

/// One line of `sarus ps`.
struct ListedContainer {
    std::string id;
    std::int64_t pid = 0;
    std::string status;
    std::string bundle;
    std::string created;
    std::string owner;
    // From the starter's record; empty for a container whose starter was killed.
    std::string image{};
    std::vector<std::string> command{};
    std::string job{};          ///< of Slurm
    std::string step{};         ///< of the job: its number
    std::string task{};         ///< of the step: its number
    std::string runtimeRoot{};  ///< where it was found
};

/// Reads what `crun list --format json` and `runc list --format json` print. Throws Error.
std::vector<ListedContainer> parseContainerList(std::string_view json);

/// A time such as "2026-01-01T00:00:00.123456Z" with nine digits after the point.
std::string withNanoseconds(std::string time);

/// The table that `runc list` prints: cells of at least 12 characters, three spaces apart.
std::string formatContainerTable(const std::vector<ListedContainer>& containers);

/// The table for people: name, image, command, age, job; `withOwner`: and user. `width` as for
/// formatColumns().
std::string formatBriefTable(const std::vector<ListedContainer>& containers, std::time_t now, bool withOwner,
                             std::size_t width = 0);

/// The same as `sarus ps --json`: an array with an object for each container (keys: docs/man/sarus-ps.1), and
/// a newline.
std::string formatContainerJson(const std::vector<ListedContainer>& containers);

/// The number of a signal named "TERM", "SIGTERM", "sigterm" or "15". Throws Error for anything else.
int parseSignal(std::string_view text);

/// What `sarus ps` prints: the containers of the calling user, on request with those that were kept and do
/// not run; for root, on request, the running ones of all users that were started with privileges. Throws
/// Error.
std::string listContainers(const Session& session, const engine::ListRequest& request);

/// What `sarus inspect` prints about one container of the calling user (for root: of any). Throws Error if no
/// such container exists.
std::string inspectContainer(const Session& session, const engine::InspectRequest& request);

/// Sends a signal to the first process of a container of the calling user (for root: of any). Throws Error if
/// no such container exists.
void killContainer(const Session& session, const engine::KillRequest& request);

struct Removal {
    std::string names;     ///< of the removed containers, one a line
    bool complete = true;  ///< otherwise errors were printed
};

/// Removes containers that were kept, as `sarus rm` asks. Throws Error.
Removal removeContainers(const Session& session, const engine::RemoveRequest& request);

}  // namespace sarus::starter
