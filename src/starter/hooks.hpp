#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "engine/container_plan.hpp"
#include "engine/site_config.hpp"
#include "oci/hook_config.hpp"
#include "starter/security_checks.hpp"

namespace sarus::starter {

/// Name of the FIFO in the bundle into which hooks write what they have to say.
inline constexpr std::string_view hookLogName = "hooks-log";

/// Reads the hook files of `hooksDir`; none if the key is absent. With `securityChecks` the directory, each file and each hook's
/// program, with the directories on the way to them, must be such that nobody who is not trusted can change them: the
/// bytes that are parsed are those of the descriptor that was checked. Throws Error.
std::vector<oci::HookConfig> loadHooks(const engine::SiteConfig& config, PathChecker& paths);

/// Throws Error which names the hook if the program of a hook that is going to run on the host is not there.
/// `verified`: the checker that loadHooks() went through, which knows the answers; nullptr to ask the filesystem.
void checkHookPrograms(const engine::ContainerPlan& plan, PathChecker* verified = nullptr);

/// Gives config.json to each hook of the stage `precreate` in turn, on its standard input, and returns what the last one wrote to
/// its standard output. A hook has the environment of its file alone and the directory "/". Throws Error with the hook's name and
/// what it said if it fails, takes longer than its timeout, or writes something else than a JSON object.
std::string runPrecreateHooks(const engine::ContainerPlan& plan, std::string configJson);

/// The starter's end of the FIFO, which nobody but the starter's user can open. Lines of the levels DEBUG and INFO go to standard
/// output, all others to standard error.
class HookLog {
public:
    /// Makes the FIFO in the bundle. Throws Error.
    explicit HookLog(const std::string& bundleDir);

    int descriptor() const noexcept { return fifo.get(); }
    /// Passes on the complete lines that have arrived.
    void forward();
    /// The same, and a last line without an end.
    void finish();

private:
    void readAvailable();

    UniqueFd fifo;
    std::string pending;
};

/// True for a line of the project's log format whose level is DEBUG or INFO.
bool belongsOnStandardOutput(std::string_view line);

/// What to tell the user about a hook that failed: runc gives nothing but its number within a stage, crun its program. "" if the
/// text, the runtime's log, does not speak of a hook.
std::string explainFailedHook(const engine::ContainerPlan& plan, std::string_view runtimeLog);

}  // namespace sarus::starter
