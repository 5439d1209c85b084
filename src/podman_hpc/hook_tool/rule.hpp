#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sarus::podman_hpc {

/// A rule `SRC[:DST]` of a module, with variables expanded.
struct Rule {
    std::string source;  ///< absolute, without `.` and `..`; may contain patterns
    std::string target;  ///< absolute; "": each source at its own path
};

/// What a rule puts where.
struct Placement {
    std::string source;  ///< on the host
    std::string target;  ///< in the container
    bool operator==(const Placement&) const = default;
};

/// Expands `$NAME`, `${NAME}` and a leading `~` (HOME) on both sides. A relative source lies below
/// `directory`, that of the modules; further `:` fields do not count. Throws Error for a rule that cannot be
/// used, also for an unknown variable.
Rule parseRule(const std::string& text, const std::string& directory,
               const std::function<std::optional<std::string>(const std::string& name)>& variable);

/// Where the sources go that the rule's pattern has matched:
/// - no target: to their own paths;
/// - a `*` in the target: it stands for what the only `*` of the source has matched;
/// - several sources: the target is a directory, and they keep their paths below their common directory;
/// - one source: the target itself, or below it if it ends with `/`.
/// Throws Error for a target with `*` if the source has not exactly one.
std::vector<Placement> placementsOf(const Rule& rule, const std::vector<std::string>& sources);

}  // namespace sarus::podman_hpc
