#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "engine/container_plan.hpp"
#include "engine/site_config.hpp"
#include "oci/hook_config.hpp"
#include "oci/runtime_config.hpp"
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

/// Where the program sarus-hook stands in a container with hooks of its own.
inline constexpr const char* hookWrapperInside = "/dev/.sarus-hook";

/// True if there are hooks of the stage startContainer, which are programs of the container.
bool hasHooksInside(const engine::ContainerPlan& plan);

/// Puts the program sarus-hook (`wrapper`: its path on the host) in front of every hook of the configuration. The hooks must be
/// those of the plan.
void wrapHooks(oci::RuntimeConfig& config, const engine::ContainerPlan& plan, const std::string& wrapper);

/// The starter's end of the FIFO, which nobody but the starter's user can open. Lines of the levels DEBUG and INFO go to standard
/// output, all others to standard error. The programs sarus-hook write there, too, lines of the form
/// "\001sarus-hook begins|failed INDEX STATUS": the position of a hook in the plan, and how it ended (wait(2); -1: it was killed
/// because its time was over). A hook that failed is warned about.
class HookLog {
public:
    /// Makes the FIFO in the bundle; `plan` must outlive this. Throws Error.
    HookLog(const std::string& bundleDir, const engine::ContainerPlan& plan);

    int descriptor() const noexcept { return fifo.get(); }
    /// Passes on the complete lines that have arrived.
    void forward();
    /// The same, and a last line without an end.
    void finish();
    /// The position in the plan of the hook that began last; the number of hooks if all those before the command have ended which
    /// run on the host.
    std::optional<std::size_t> lastBegun() const noexcept { return begun; }

private:
    void readAvailable();
    void take(std::string_view line);
    void takeReport(std::string_view report);

    UniqueFd fifo;
    const engine::ContainerPlan* plan;
    std::string pending;
    std::optional<std::size_t> begun;
};

/// True for a line of the project's log format whose level is DEBUG or INFO.
bool belongsOnStandardOutput(std::string_view line);

/// Names the hook on the host which failed, to the user. "" if `runtimeLog`, what the runtime has written, does not speak of a
/// hook, or it was inside of the container: sarus-hook has named it then. `lastBegun`: HookLog's.
std::string explainFailedHook(const engine::ContainerPlan& plan, std::string_view runtimeLog,
                              std::optional<std::size_t> lastBegun);

}  // namespace sarus::starter
