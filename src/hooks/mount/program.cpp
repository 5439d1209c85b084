#include "hooks/mount/program.hpp"

#include <algorithm>
#include <string>

#include "base/log.hpp"
#include "base/text.hpp"
#include "container_root/editor.hpp"
#include "hook_contracts/mount.hpp"
#include "hooks/kit/device_mount.hpp"
#include "hooks/kit/linker_cache/linker_cache.hpp"
#include "hooks/mount/provider_path.hpp"

namespace sarus::hooks {

namespace {

using hook_contracts::MountRequests;

constexpr std::string_view usage =
    "Usage: mount_hook REQUEST...                    (an OCI hook: reads the container's state)\n"
    "       mount_hook REQUEST... --check            (looks for mistakes in its configuration)\n"
    "       mount_hook REQUEST... --explain [--root=DIRECTORY] [--env=NAME=VALUE]...  (shows what it would "
    "do)\n"
    "\n"
    "REQUEST is --mount=type=bind,source=PATH,destination=PATH[,readonly] or --device=PATH[:PATH][:ACCESS].\n"
    "<FI_PROVIDER_PATH> in a destination stands for the directory of the container's libfabric providers.\n"
    "With the variable LDCONFIG_PATH, the hook updates the linker cache.\n"
    "--env gives the container of --explain a variable.\n";

/// The documented order: the container's variable, the directory of its libfabric (only with LDCONFIG_PATH),
/// /usr/lib.
std::string providerPath(HookContext& context, bool mayUseLinkerCache, const HookLogger& log) {
    const auto variable = [&](std::string_view name) {
        return context.hasConfig() ? context.containerVariable(name).value_or("") : std::string();
    };
    if (const auto value = variable("FI_PROVIDER_PATH"); !value.empty()) {
        if (auto directory = mount::firstProviderDirectory(value)) {
            return *directory;
        }
        log.warn(cat("The container's FI_PROVIDER_PATH names no directory: ", printable(value)));
    }
    const auto found = mayUseLinkerCache
                           ? mount::findProviderDirectory(context.rootfs(), variable("LD_LIBRARY_PATH"))
                           : std::nullopt;
    return found.value_or("/usr/lib");
}

/// The requests, with the provider's directory in place of the wildcard.
struct Plan {
    MountRequests requests;
    std::string provider;
    bool updatesLinkerCache = false;
};

Plan makePlan(const HookSetup& setup, HookContext& context, const HookLogger& log) {
    Plan plan{hook_contracts::parseMountRequests(setup.arguments),
              {},
              !setup.environment.find("LDCONFIG_PATH").value_or("").empty()};
    const auto& mounts = plan.requests.mounts;
    if (std::any_of(mounts.begin(), mounts.end(), [](const auto& mount) { return mount.hasWildcard; })) {
        plan.provider = providerPath(context, plan.updatesLinkerCache, log);
    }
    return plan;
}

void requireSources(const MountRequests& requests, Findings& findings) {
    for (const auto& mount : requests.mounts) {
        findings.requireFile("--mount", mount.request.source);
    }
    for (const auto& device : requests.devices) {
        findings.requireFile("--device", device.source);
    }
}

void check(const HookSetup& setup, Findings& findings) {
    const auto requests = hook_contracts::parseMountRequests(setup.arguments);
    if (requests.mounts.empty() && requests.devices.empty()) {
        findings.problem("args: there is no --mount and no --device, so the hook does nothing");
    }
    requireSources(requests, findings);
}

void explain(const HookSetup& setup, const ExplainRequest& request) {
    const auto plan = makePlan(setup, request.container(), HookLogger("Mount hook"));
    for (const auto& mount : plan.requests.mounts) {
        printLine(cat("mount ", printable(mount.request.source), " on ",
                      printable(mount.destination(plan.provider)),
                      mount.request.readonly ? " (read-only)" : ""));
    }
    for (const auto& device : plan.requests.devices) {
        printLine(cat("device ", printable(device.source), " on ", printable(device.destination), " (",
                      device.access, ')'));
    }
    if (plan.updatesLinkerCache) {
        printLine("update the linker cache");
    }
    Findings findings;
    requireSources(plan.requests, findings);
    findings.requireNone();
}

void runAsHook(const HookSetup& setup, HookContext& context, const HookLogger& log) {
    const auto plan = makePlan(setup, context, log);
    const int root = context.rootfs();
    const container_root::Editor editor(root);
    for (const auto& mount : plan.requests.mounts) {
        const auto destination = mount.destination(plan.provider);
        editor.bind(mount.request.source, destination, {.readonly = mount.request.readonly});
        log.info(
            cat("Mounted ", printable(mount.request.source), " on the container's ", printable(destination)));
    }
    for (const auto& device : plan.requests.devices) {
        mountDevice(editor, context, device.source, device.destination, device.access, log);
    }
    if (plan.updatesLinkerCache) {
        updateLinkerCacheIfPossible(root, log);
    }
}

}  // namespace

HookProgram mount::program() {
    return {.program = "mount_hook",
            .logName = "Mount hook",
            .usage = usage,
            .variables = {"LDCONFIG_PATH"},
            .takesArguments = true,
            .check = check,
            .explain = explain,
            .run = runAsHook};
}

}  // namespace sarus::hooks
