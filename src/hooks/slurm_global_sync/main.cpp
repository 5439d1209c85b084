#include <chrono>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/passwd_file.hpp"
#include "base/text.hpp"
#include "hooks/kit/container_user.hpp"
#include "hooks/kit/run_hook.hpp"
#include "hooks/slurm_global_sync/settings.hpp"
#include "hooks/slurm_global_sync/synchronization.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;
using namespace sarus::hooks::slurm_global_sync;

constexpr std::string_view usage =
    "Usage: slurm_global_sync_hook              (an OCI hook: reads the container's state)\n"
    "       slurm_global_sync_hook --check      (looks for mistakes in its configuration)\n"
    "       slurm_global_sync_hook --explain [--root=DIRECTORY] [--env=NAME=VALUE]...  (shows what it would "
    "do)\n"
    "\n"
    "Waits until all tasks of the container's Slurm step have got this far. Does nothing outside of a step.\n"
    "--env gives the container of --explain a variable.\n";

std::optional<Part> partOf(const HookContext& context) {
    return findPart([&](std::string_view name) { return context.callersVariable(name); });
}

/// The user's directory has the name of the account on the node.
std::string userDirectory(const Settings& settings, const HookContext& context) {
    const auto uid = callersUid(context);
    const auto name = findUserName(readFile(settings.passwdFile, largestPasswdFile), uid);
    if (!name) {
        throw Error(cat("PASSWD_FILE: failed to find uid ", uid, " in ", printable(settings.passwdFile)),
                    "Ask the administrator to refresh the installation's passwd file");
    }
    return cat(*name, "/.oci-hooks/slurm-global-sync");
}

void check(const HookSetup& setup, Findings& findings) {
    const auto settings = parseSettings(setup.environment);
    findings.requireFile(baseVariable, settings.baseDirectory);
    findings.requireFile(passwdVariable, settings.passwdFile);
}

void explain(const HookSetup& setup, const ExplainRequest& request) {
    const auto settings = parseSettings(setup.environment);
    const auto part = partOf(request.container());
    printLine(part ? cat("wait up to ", settings.timeout.count(), " s for the ", part->step.tasks,
                         " tasks of ", part->step.name, part->ranks.size() == 1 ? " as rank " : " as ranks ",
                         describeRanks(part->ranks))
                   : "nothing: the container is no task of a Slurm step");
}

void runAsHook(const HookSetup& setup, HookContext& context, const HookLogger& log) {
    const auto settings = parseSettings(setup.environment);
    const auto part = partOf(context);
    if (!part) {
        log.info("The container is no task of a Slurm step: there is nobody to wait for");
        return;
    }
    becomeContainerUser(context);
    DiskFiles files(settings.baseDirectory, userDirectory(settings, context));
    synchronize(files, *part, settings.timeout, log);
    log.info(cat("All ", part->step.tasks, " tasks of ", part->step.name, " have arrived"));
}

}  // namespace

int main(int argc, char** argv) {
    constexpr std::chrono::seconds reserve{60};
    return hookMain(argc, argv,
                    {.program = "slurm_global_sync_hook",
                     .logName = "Slurm global sync hook",
                     .usage = usage,
                     .variables = {baseVariable, passwdVariable, timeoutVariable},
                     .longest = longestTimeout + reserve,
                     .check = check,
                     .explain = explain,
                     .run = runAsHook});
}
