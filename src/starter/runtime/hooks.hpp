#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/path_checker.hpp"
#include "base/unique_fd.hpp"
#include "engine/container_plan.hpp"
#include "engine/runtime_config_builder.hpp"
#include "engine/site_config.hpp"
#include "oci/hooks/hook_config.hpp"
#include "oci/runtime/bundle_config.hpp"
#include "oci/runtime/runtime_config.hpp"

namespace sarus::starter {

/// Name of the FIFO in the bundle that receives the hooks' output.
inline constexpr std::string_view hookLogName = "hooks-log";

/// Reads the hook files of `hooksDir`; none if the key is absent. With `securityChecks`, no untrusted user
/// may be able to change the directory, a file, a hook's program, or any directory above them. Parses the
/// descriptor that was checked. Throws Error.
std::vector<oci::HookConfig> loadHooks(const engine::SiteConfig& config, PathChecker& paths);

/// Throws Error naming the hook if the program of a hook that will run on the host is missing. `verified`:
/// the checker used by loadHooks(), which already knows the answers; nullptr to ask the filesystem.
void checkHookPrograms(const engine::ContainerPlan& plan, PathChecker* verified = nullptr);

/// Throws Error if one of this package's programs (in `<prefix>/bin`) would run as a hook at a stage that it
/// does not support.
void checkHookStages(const engine::ContainerPlan& plan, const std::string& prefix);

/// config.json after the precreate hooks, and the rules that they left in `linux.resources.devices` (none
/// without such a hook).
struct EditedConfig {
    std::string text;
    std::vector<oci::RuntimeDeviceRule> deviceRules{};
};

/// Passes config.json through each `precreate` hook in turn: standard input to standard output. A hook gets
/// only the environment of its file and what hook_contracts/callers_settings.hpp adds, and the directory "/".
/// Throws Error with the hook's name and output if it fails, exceeds its timeout, or writes anything but a
/// JSON object.
EditedConfig runPrecreateHooks(const engine::ContainerPlan& plan, std::string configJson,
                               const std::string& bundle);

/// Path of sarus-hook in a container with startContainer hooks.
inline constexpr const char* hookWrapperInside = "/dev/.sarus-hook";

/// True if there are startContainer hooks, which are programs of the container.
bool hasHooksInside(const engine::ContainerPlan& plan);

/// As in config.json: the stages in the order in which they happen, each with its hooks in file order.
using RuntimeHooks = decltype(oci::RuntimeConfig::hooks);

/// sarus-hook on the host, and the container's root directory there.
struct HookWrapper {
    std::string program;
    std::string root;
};

/// The hooks of the plan for the OCI runtime, each started through sarus-hook. Neighbours become one entry
/// where crun would only start them one after another. Leaves out those at the positions `done`.
RuntimeHooks wrapHooks(const engine::ContainerPlan& plan, const std::vector<std::size_t>& done,
                       const HookWrapper& by, engine::OciRuntime runtime);

/// The hooks of the plan that the starter runs itself, in front of the OCI runtime: those that sarus-hook
/// contains (starter/linked/linked_hooks.hpp) and that no other hook precedes. This spares a fork of the
/// runtime, and the root filesystem is complete already. Not those with a time-out or with devices, whose
/// cgroup does not exist yet. Their positions, in the order of config.json.
std::vector<std::size_t> findEarlyHooks(const engine::ContainerPlan& plan);

/// Whether a hook may write to the container's root before the command starts, and could not if that were
/// read-only: this package's make it writable while they work (container_root::Editor).
bool needsWritableRoot(const engine::ContainerPlan& plan);

class HookLog;
/// Runs them through sarus-hook, which ends with the starter; forwards their output to `log`. The bundle has
/// config.json already. Throws Error with the hook's name if one fails or takes too long.
void runEarlyHooks(const engine::ContainerPlan& plan, const std::vector<std::size_t>& early,
                   const HookWrapper& by, const std::string& bundleDir, HookLog& log);

/// Waits for a hook's process and calls `read` when there may be something to read from `outputs` (-1: at its
/// end). False if it has not ended in time, or if isTerminationPending().
bool waitForHook(pid_t process, std::optional<std::uint64_t> seconds,
                 const std::function<std::array<int, 2>()>& outputs, const std::function<void()>& read);

/// The starter's ends of two FIFOs that only the starter's user can open. The FIFO with the suffix goes to
/// standard output. Of the other one, DEBUG and INFO lines go to standard output and all others to standard
/// error, each of which the tasks of a step say once (base/said_once.hpp). It also carries the reports of
/// sarus-hook (hook_contracts/hook_wrapper.hpp). Warns about failed hooks.
class HookLog {
public:
    /// Creates the FIFOs in the bundle; `plan` must outlive this. Throws Error.
    HookLog(const std::string& bundleDir, const engine::ContainerPlan& plan);

    std::array<int, 2> descriptors() const noexcept { return {errors.fifo.get(), output.fifo.get()}; }
    /// Forwards complete lines.
    void forward();
    /// Also forwards an incomplete last line.
    void finish();
    /// Position in the plan of the hook that started last; the number of hooks once all host hooks that
    /// precede the command have ended.
    std::optional<std::size_t> lastBegun() const noexcept { return begun; }
    /// The hooks that have begun have succeeded, and the OCI runtime follows.
    void forgetBegun() noexcept { begun.reset(); }

private:
    struct Stream {
        UniqueFd fifo;
        std::string pending{};

        void readAvailable();
        /// Takes out the complete lines and any overlong one; with `all`, the rest as well.
        std::vector<std::string> takeLines(bool all);
    };

    void forward(bool all);
    void take(std::string_view line);
    void takeReport(std::string_view report);

    Stream errors;
    Stream output;
    const engine::ContainerPlan* plan;
    std::optional<std::size_t> begun;
};

/// Level and text of a line of the project's log format; any other line as it is.
std::string_view messageOf(std::string_view line);

/// True for a line of the project's log format whose level is DEBUG or INFO.
bool belongsOnStandardOutput(std::string_view line);

/// The sentence that names a hook which has failed.
std::string nameFailedHook(const engine::PlannedHook& hook);

/// Names the failed host hook for the user. "" if `runtimeLog`, the runtime's output, does not mention a
/// hook, or the hook ran inside the container, where sarus-hook has already named it. `lastBegun`: from
/// HookLog.
std::string explainFailedHook(const engine::ContainerPlan& plan, std::string_view runtimeLog,
                              std::optional<std::size_t> lastBegun);

}  // namespace sarus::starter
