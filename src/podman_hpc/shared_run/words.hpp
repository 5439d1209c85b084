#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "podman_hpc/cli/option_table.hpp"

namespace sarus::podman_hpc {

/// The words of `shared-run`, for the two commands of Podman that they are for.
struct SharedRunWords {
    std::vector<std::vector<std::string>> run{};   ///< options of `podman run`
    std::vector<std::vector<std::string>> exec{};  ///< options of `podman exec`
    std::vector<std::string> runOnly{};            ///< words of `run` that `exec` does not get
    std::set<std::string> flags{};                 ///< of modules
    bool help = false;
    bool seccomp = false;  ///< there is a `--security-opt seccomp=...`
    bool limits = false;   ///< the cgroup of the container has limits of its own
    std::string image{};
    std::vector<std::string> command{};
};

/// Each option goes to the commands that have it: `-e` to both, `-v` to `run` only. Throws Error with status
/// 2 if there is no image, and for `--detach`.
SharedRunWords splitSharedRunWords(const std::vector<std::string>& words,
                                   const std::function<const OptionTable&()>& lookUp,
                                   const std::set<std::string>& moduleFlags);

/// The options of `podman exec` that matter for a task.
struct ExecOptions {
    std::vector<std::string> variables{};  ///< "A=b", "A" or "A*"
    std::vector<std::string> variableFiles{};
    std::optional<std::string> user{};
    std::optional<std::string> directory{};
    bool interactive = false;
    bool terminal = false;
    bool privileged = false;
    unsigned keptDescriptors = 0;
    bool others = false;  ///< there are options that only Podman understands
};

/// Reads words such as `-e A=b`, `-eA=b`, `--env=A=b`, `-it`.
ExecOptions readExecOptions(const std::vector<std::string>& words);

}  // namespace sarus::podman_hpc
