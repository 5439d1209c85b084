#include <unistd.h>

#include <algorithm>
#include <span>
#include <string>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "hooks/kit/device_mount.hpp"
#include "hooks/kit/linker_cache.hpp"
#include "hooks/kit/root_editor.hpp"
#include "hooks/kit/run_hook.hpp"
#include "hooks/mount/provider_path.hpp"
#include "hooks/mount/requests.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;

constexpr std::string_view kUsage =
    "Usage: mount_hook [--mount=type=bind,source=PATH,destination=PATH[,readonly]]... [--device=PATH[:PATH][:ACCESS]]...\n"
    "\n"
    "An OCI hook: it reads the container's state on standard input. <FI_PROVIDER_PATH> in a destination stands for\n"
    "the directory of the container's libfabric providers. With the variable LDCONFIG_PATH, it updates the linker cache.\n";

/// The documented order: the container's variable, the place of its libfabric (which only counts with LDCONFIG_PATH), /usr/lib.
std::string providerPath(HookContext& context, bool mayUseLinkerCache, const HookLog& log) {
    const auto variable = [&](std::string_view name) {
        return context.hasConfig() ? context.containerVariable(name).value_or("") : std::string();
    };
    if (const auto value = variable("FI_PROVIDER_PATH"); !value.empty()) {
        if (auto directory = mount::firstProviderDirectory(value)) {
            return *directory;
        }
        log.warn(cat("The container's FI_PROVIDER_PATH names no directory: ", printable(value)));
    }
    const auto found =
        mayUseLinkerCache ? mount::findProviderDirectory(context.rootfs(), variable("LD_LIBRARY_PATH")) : std::nullopt;
    return found.value_or("/usr/lib");
}

void runAsHook(std::span<const char* const> arguments, HookContext& context, const HookEnvironment& environment,
               const HookLog& log) {
    const auto requests = mount::parseRequests(arguments);
    const bool usesLinkerCache = !environment.find("LDCONFIG_PATH").value_or("").empty();
    const int root = context.rootfs();
    const RootEditor editor(root);
    const bool hasWildcard =
        std::any_of(requests.mounts.begin(), requests.mounts.end(), [](const mount::Mount& mount) { return mount.hasWildcard; });
    const auto provider = hasWildcard ? providerPath(context, usesLinkerCache, log) : std::string();
    for (const auto& mount : requests.mounts) {
        const auto destination = mount.destination(provider);
        editor.bind(mount.request.source, destination, {.readonly = mount.request.readonly},
                    mount.hasWildcard ? RootEditor::Destination::notTheKernels : RootEditor::Destination::any);
        log.info(cat("Mounted ", printable(mount.request.source), " on the container's ", printable(destination)));
    }
    for (const auto& device : requests.devices) {
        mountDevice(editor, context, device.source, device.destination, device.access, log);
    }
    if (usesLinkerCache) {
        updateLinkerCacheIfPossible(root, log);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const auto arguments = std::span<const char* const>(argv, static_cast<std::size_t>(argc)).subspan(argc > 0 ? 1 : 0);
    if (arguments.size() == 1 && std::string_view(arguments[0]) == "--help") {
        return ::write(STDOUT_FILENO, kUsage.data(), kUsage.size()) == static_cast<ssize_t>(kUsage.size()) ? 0 : 1;
    }
    return runHook("Mount hook", [arguments](HookContext& context, const HookEnvironment& environment, const HookLog& log) {
        runAsHook(arguments, context, environment, log);
    });
}
