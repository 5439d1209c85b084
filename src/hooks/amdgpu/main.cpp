#include <sys/stat.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "hooks/amdgpu/gpu.hpp"
#include "hooks/kit/device_mount.hpp"
#include "hooks/kit/root_editor.hpp"
#include "hooks/kit/run_hook.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;

constexpr const char* kComputeDevice = "/dev/kfd";

void runAsHook(HookContext& context, const HookEnvironment&, const HookLog& log) {
    struct stat status {};
    if (::stat(kComputeDevice, &status) != 0) {
        log.info(cat("There is no ", kComputeDevice, " on this node: nothing to do"));
        return;
    }
    const auto inventory = amdgpu::findGpus();
    for (const auto& warning : inventory.warnings) {
        log.warn(warning);
    }
    const auto gpus = amdgpu::selectGpus(inventory.gpus, context.containerVariable("ROCR_VISIBLE_DEVICES").value_or(""));
    if (gpus.empty()) {
        log.warn(cat("There is ", kComputeDevice, " on this node, but no AMD GPU was found"));
        return;
    }
    const RootEditor editor(context.rootfs());
    const auto mountNode = [&](const std::string& path) { mountDevice(editor, context, path, path, "rw", log); };
    mountNode(kComputeDevice);
    for (const auto& gpu : gpus) {
        if (!gpu.card.empty()) {
            mountNode(cat("/dev/dri/", gpu.card));
        }
        mountNode(cat("/dev/dri/", gpu.render));
    }
}

}  // namespace

int main() {
    return runHook("AMD GPU hook", runAsHook);
}
