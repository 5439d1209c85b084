#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "container_root/editor.hpp"
#include "podman_hpc/hook_tool/rule.hpp"
#include "podman_hpc/hook_tool/rule_log.hpp"
#include "podman_hpc/modules/module.hpp"

namespace sarus::podman_hpc {

/// What the rules of a module mean on this node.
struct ModulePlan {
    struct Entry {
        std::string rule;
        bool isBind;
        std::vector<Placement> placements{};
        std::string problem{};  ///< the rule cannot be used
    };
    std::vector<Entry> entries;  ///< copies, then binds
};

/// Expands the rules of a module: in the mount namespace where its sources are. `directory`: of the modules.
/// Throws Error if a directory of a pattern cannot be read, for another reason than its permissions.
ModulePlan planModule(const Module& module, const std::string& directory,
                      const std::function<std::optional<std::string>(const std::string& name)>& variable);

/// Carries out plans in a container's root filesystem.
class RuleRunner {
public:
    RuleRunner(int rootFd, const RuleLog& logFile) : root(rootFd), editor(rootFd), log(logFile) {}

    /// Throws Error for the first copy or bind that fails.
    void run(const ModulePlan& plan);

    /// Whether anything was placed that the dynamic linker may search.
    bool touchedLibraries() const;

private:
    void place(const Placement& placement, bool isBind);
    void copy(const std::string& source, const std::string& target);

    int root;
    container_root::Editor editor;
    const RuleLog& log;
    bool placedLibrary = false;
    std::vector<std::string> placedDirectories;
};

}  // namespace sarus::podman_hpc
