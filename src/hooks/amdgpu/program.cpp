#include "hooks/amdgpu/program.hpp"

#include <sys/stat.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "container_root/editor.hpp"
#include "hook_contracts/amdgpu.hpp"
#include "hooks/amdgpu/gpu.hpp"
#include "hooks/kit/device_mount.hpp"

namespace sarus::hooks {

namespace {

using hook_contracts::amdComputeDevice;
using hook_contracts::graphicsDirectory;

constexpr std::string_view usage =
    "Usage: amdgpu_hook                                               (an OCI hook: reads the container's "
    "state)\n"
    "       amdgpu_hook --check                                       (looks for mistakes in its "
    "configuration)\n"
    "       amdgpu_hook --explain [--root=DIRECTORY] [--env=NAME=VALUE]...  (shows what it would do)\n"
    "\n"
    "Gives the container the AMD GPUs of the node that its ROCR_VISIBLE_DEVICES selects, or all.\n"
    "--env gives the container of --explain a variable.\n";

/// The devices for the container.
struct Selection {
    std::vector<std::string> devices;
    std::vector<std::string> warnings;
    std::string reason;  ///< why there are none; a node without AMD GPU is not an error
};

Selection selectDevices(const HookContext& context) {
    Selection selection;
    struct stat status {};
    if (::stat(amdComputeDevice, &status) != 0) {
        selection.reason = cat("There is no ", amdComputeDevice, " on this node: nothing to do");
        return selection;
    }
    const auto found = amdgpu::findGpus();
    selection.warnings = found.warnings;
    const auto gpus =
        amdgpu::selectGpus(found.gpus, context.containerVariable("ROCR_VISIBLE_DEVICES").value_or(""));
    if (gpus.empty()) {
        selection.warnings.push_back(
            cat("There is ", amdComputeDevice, " on this node, but no AMD GPU was found"));
        return selection;
    }
    selection.devices.emplace_back(amdComputeDevice);
    for (const auto& gpu : gpus) {
        if (!gpu.card.empty()) {
            selection.devices.push_back(cat(graphicsDirectory, '/', gpu.card));
        }
        selection.devices.push_back(cat(graphicsDirectory, '/', gpu.render));
    }
    return selection;
}

void explain(const HookSetup&, const ExplainRequest& request) {
    const auto selection = selectDevices(request.container());
    for (const auto& warning : selection.warnings) {
        printLine(cat("warning: ", warning));
    }
    for (const auto& device : selection.devices) {
        printLine(cat("device ", printable(device), " (rw)"));
    }
    if (!selection.reason.empty()) {
        printLine(selection.reason);
    }
}

void runAsHook(const HookSetup&, HookContext& context, const HookLogger& log) {
    const auto selection = selectDevices(context);
    if (!selection.reason.empty()) {
        log.info(selection.reason);
    }
    for (const auto& warning : selection.warnings) {
        log.warn(warning);
    }
    if (selection.devices.empty()) {
        return;
    }
    const container_root::Editor editor(context.rootfs());
    for (const auto& device : selection.devices) {
        mountDevice(editor, context, device, device, "rw", log);
    }
}

}  // namespace

HookProgram amdgpu::program() {
    return {.program = "amdgpu_hook",
            .logName = "AMD GPU hook",
            .usage = usage,
            .containerVariables = {"ROCR_VISIBLE_DEVICES"},
            .explain = explain,
            .run = runAsHook};
}

}  // namespace sarus::hooks
