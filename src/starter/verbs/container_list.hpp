#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "starter/supervise/container_record.hpp"

namespace sarus::starter {

// Words for the states of containers, as in the specification of OCI runtimes ("State").
inline constexpr std::string_view creating = "creating";
inline constexpr std::string_view stopped = "stopped";

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

/// Reads what formatContainerJson() has written. Throws Error.
std::vector<ListedContainer> parseContainerList(std::string_view json);

/// A time such as "2026-01-01T00:00:00.1200Z" as runc writes it: "2026-01-01T00:00:00.12Z".
std::string withoutLastZeros(std::string time);

/// The table that `runc list` prints: cells of at least 12 characters, three spaces apart.
std::string formatContainerTable(const std::vector<ListedContainer>& containers);

/// The table for people: name, image, command, age, job; `withOwner`: and user. `width` as for
/// formatColumns().
std::string formatBriefTable(const std::vector<ListedContainer>& containers, std::time_t now, bool withOwner,
                             std::size_t width = 0);

/// The same as `sarus ps --json`: an array with an object for each container (keys: docs/man/sarus-ps.1), and
/// a newline.
std::string formatContainerJson(const std::vector<ListedContainer>& containers);

/// What `sarus inspect` prints. `record` is empty for a container whose starter was killed.
std::string formatDetails(const ListedContainer& container, const std::optional<ContainerRecord>& record);
std::string formatDetailsJson(const ListedContainer& container, const std::optional<ContainerRecord>& record);

}  // namespace sarus::starter
