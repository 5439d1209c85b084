#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/site_config.hpp"
#include "starter/credentials.hpp"

namespace sarus::starter {

enum class OutputForm { text, json };

/// One line of `sarus ps`.
struct ContainerEntry {
    std::string id;
    std::int64_t pid = 0;
    std::string status;
    std::string bundle;
    std::string created;
    std::string owner;
};

/// Reads what `crun list --format json` and `runc list --format json` print. Throws Error.
std::vector<ContainerEntry> parseContainerList(std::string_view json);

/// A time of day such as "2026-01-01T00:00:00.123456Z" with nine digits behind the point.
std::string withNanoseconds(std::string time);

/// The table that `runc list` prints: cells of at least 12 characters, three spaces apart.
std::string formatContainerTable(const std::vector<ContainerEntry>& containers);

/// The same as `sarus ps --json`: an array with an object for each container (keys: docs/man/sarus-ps.1), and a newline.
std::string formatContainerJson(const std::vector<ContainerEntry>& containers);

/// The number of a signal named "TERM", "SIGTERM", "sigterm" or "15". Throws Error for anything else.
int parseSignal(std::string_view text);

/// Prints the containers of the calling user. `sessionDirectory` is the caller's XDG_RUNTIME_DIR, which matters without
/// privileges only.
void listContainers(const engine::SiteConfig& config, const Credentials& credentials, const std::string& sessionDirectory,
                    OutputForm form);

/// Prints what is known of one container of the calling user. Throws Error if there is none of that name.
void inspectContainer(const engine::SiteConfig& config, const Credentials& credentials, const std::string& sessionDirectory,
                      OutputForm form, const std::string& name);

/// Sends a signal to the first process of a container of the calling user. Throws Error if there is none of that name.
void killContainer(const engine::SiteConfig& config, const Credentials& credentials, const std::string& sessionDirectory,
                   std::string_view signal, const std::string& name);

}  // namespace sarus::starter
