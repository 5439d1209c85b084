#include "hook_contracts/shipped_hooks.hpp"

#include <algorithm>
#include <array>

#include "base/log.hpp"
#include "base/text.hpp"
#include "hook_contracts/amdgpu.hpp"
#include "hook_contracts/decorator.hpp"
#include "hook_contracts/mount.hpp"
#include "hook_contracts/mpi.hpp"

namespace sarus::hook_contracts {

namespace {

/// The container's root filesystem is ready, and none of its processes runs yet.
constexpr std::array<std::string_view, 3> whilePreparing{"prestart", "createRuntime", "createContainer"};
/// On the host, with the container's state on standard input.
constexpr std::array<std::string_view, 5> withState{"prestart", "createRuntime", "createContainer",
                                                    "poststart", "poststop"};
/// Before the container exists, and outside of it.
constexpr std::array<std::string_view, 3> beforeStart{"precreate", "prestart", "createRuntime"};
constexpr std::array<std::string_view, 4> aroundTheLife{"prestart", "createRuntime", "createContainer",
                                                        "poststop"};
constexpr std::array<std::string_view, 1> beforeCreation{"precreate"};

constexpr std::array hooks{
    ShippedHook{"amdgpu_hook", whilePreparing, devicesOfAmdgpuHook},
    ShippedHook{"decorator_hook", whilePreparing, devicesOfDecoratorHook},
    ShippedHook{"glibc_hook", whilePreparing},
    ShippedHook{"ldcache_hook", whilePreparing},
    ShippedHook{"mkhomedir_hook", whilePreparing},
    ShippedHook{"mount_hook", whilePreparing, devicesOfMountHook},
    ShippedHook{"mpi_hook", whilePreparing, devicesOfMpiHook},
    ShippedHook{"mps_hook", beforeStart, nullptr, true},
    ShippedHook{"pc_injection_hook", beforeCreation},
    ShippedHook{"pce_hook", beforeCreation},
    ShippedHook{"pmix_hook", whilePreparing},
    ShippedHook{"sethomevar_hook", beforeCreation},
    ShippedHook{"slurm_global_sync_hook", whilePreparing, nullptr, true},
    ShippedHook{"ssh_hook", aroundTheLife, nullptr, true},
    ShippedHook{"stdout_stderr_test_hook", withState},
    ShippedHook{"timestamp_hook", withState},
};

}  // namespace

std::span<const ShippedHook> shippedHooks() {
    return hooks;
}

const ShippedHook* findShippedHook(std::string_view path) {
    const auto name = fileNameOf(path);
    const auto* const found =
        std::find_if(hooks.begin(), hooks.end(), [&](const auto& hook) { return hook.program == name; });
    return found == hooks.end() ? nullptr : found;
}

std::optional<std::string> explainUnsupportedStage(std::string_view path, std::string_view stage) {
    const auto* const hook = findShippedHook(path);
    if (hook == nullptr || std::find(hook->stages.begin(), hook->stages.end(), stage) != hook->stages.end()) {
        return std::nullopt;
    }
    const std::vector<std::string> stages(hook->stages.begin(), hook->stages.end());
    return cat(hook->program, " does not support the stage ", stage, " (supported: ", join(stages, ", "),
               ")");
}

std::vector<HookDevice> devicesOfHook(const HookCall& call) {
    const auto* const hook = findShippedHook(call.hook.path);
    if (hook == nullptr || hook->devices == nullptr) {
        return {};
    }
    try {
        return hook->devices(call);
    } catch (const Error& error) {
        logDebug("Runtime",
                 cat(printable(call.hook.path), ": ", error.what()));  // the hook itself will report it
        return {};
    }
}

}  // namespace sarus::hook_contracts
