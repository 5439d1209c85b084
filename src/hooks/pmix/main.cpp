#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/path_in_root.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "container_root/editor.hpp"
#include "hook_contracts/callers_settings.hpp"
#include "hook_contracts/slurm_pmix.hpp"
#include "hooks/kit/container_namespaces.hpp"
#include "hooks/kit/container_user.hpp"
#include "hooks/kit/run_hook.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;
using hook_contracts::SlurmStep;

constexpr std::string_view usage =
    "Usage: pmix_hook              (an OCI hook: reads the container's state)\n"
    "       pmix_hook --check      (looks for mistakes in its configuration)\n"
    "       pmix_hook --explain [--root=DIRECTORY] [--env=NAME=VALUE]...  (shows what it would do)\n"
    "\n"
    "Mounts the directories of Slurm's PMIx server for the job step of the container.\n"
    "The step is that of the container's SLURM_MPI_TYPE, SLURM_JOB_ID, SLURM_STEP_ID and SLURM_JOB_UID.\n"
    "SLURM_SPOOL_DIR and SLURM_TMPFS name Slurm's directories, SLURM_CONF its configuration file.\n"
    "--env gives the container of --explain a variable.\n";

/// The site's directories, without asking Slurm's controller.
hook_contracts::SlurmDirectories slurmDirectories(const HookEnvironment& environment) {
    const auto node = hook_contracts::shortNodeName();
    const auto given = [&](std::string_view name) {
        auto value = environment.find(name).value_or("");
        if (!value.empty() && (value.front() != '/' || value.find('\n') != std::string::npos)) {
            throw Error(cat(name, " is not an absolute path: ", printable(value)));
        }
        return value;
    };
    const auto spool = given("SLURM_SPOOL_DIR");
    const auto tmp = given("SLURM_TMPFS");
    const auto file = given("SLURM_CONF");
    auto result = spool.empty() || tmp.empty() ? hook_contracts::readSlurmConfiguration(file, node)
                                               : hook_contracts::SlurmDirectories();
    result.spool = spool.empty() ? result.spool : hook_contracts::replaceNodeName(spool, node);
    result.tmp = tmp.empty() ? result.tmp : hook_contracts::replaceNodeName(tmp, node);
    return result;
}

/// nullopt if the container belongs to no step with PMIx, as far as its caller says.
std::optional<SlurmStep> stepOf(const HookContext& context) {
    const auto variable = [&](std::string_view name) { return context.callersVariable(name).value_or(""); };
    SlurmStep step{variable("SLURM_JOB_ID"), variable("SLURM_STEP_ID"), variable("SLURM_JOB_UID")};
    const auto variables = context.config().environment();
    const bool hasClient = std::any_of(variables.begin(), variables.end(),
                                       [](const auto& entry) { return entry.starts_with("PMIX_"); });
    const bool isStep =
        hasClient && hook_contracts::isSlurmPmixStep(variable("SLURM_MPI_TYPE"), step.job, step.step);
    return isStep ? std::optional(step) : std::nullopt;
}

std::string whyNothing() {
    return cat(
        "the container's caller has set no SLURM_MPI_TYPE=pmix with SLURM_JOB_ID and SLURM_STEP_ID, or "
        "there is no variable PMIX_*. With an engine that does not say whether the image has set them, ",
        hook_contracts::trustVariable, "=true in the hook's JSON file lets them count");
}

/// Slurm gives the directories to the job's user. In the shared TmpFS, anybody can take their names.
bool belongsToUser(const struct stat& status, const HookContext& context) {
    const auto& config = context.config();
    return isInitialUserNamespace()
               ? status.st_uid ==
                     mapContainerUser(config.user(), config.uidMappings(), config.gidMappings()).uid
               : status.st_uid == ::geteuid() || status.st_uid == config.user().uid;
}

/// Opens a directory (O_PATH) as the container's user; empty if there is none of this user.
UniqueFd openOwn(const std::string& path, const HookContext& context, const HookLogger& log) {
    const container_root::ContainerView view;
    UniqueFd directory(::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory) {
        const int error = errno;
        log.debug(Error::fromErrno(printable(path), error).what());
        return {};
    }
    if (!belongsToUser(statusOf(directory.get(), path), context)) {
        log.warn(cat(printable(path), " is left out: it does not belong to the container's user"));
        return {};
    }
    return directory;
}

void check(const HookSetup& setup, Findings& findings) {
    const auto slurm = slurmDirectories(setup.environment);
    findings.requireFile("SlurmdSpoolDir", slurm.spool);
    findings.requireFile("TmpFS", slurm.tmp);
    if (const auto file = setup.environment.find("SLURM_CONF")) {
        findings.requireFile("SLURM_CONF", *file);
    }
}

void explain(const HookSetup& setup, const ExplainRequest& request) {
    const auto slurm = slurmDirectories(setup.environment);
    const auto step = stepOf(request.container());
    if (!step) {
        printLine(cat("nothing: ", whyNothing()));
        return;
    }
    for (const auto& directory : hook_contracts::slurmPmixDirectories(*step, slurm)) {
        printLine(cat("mount ", printable(directory), isDirectory(directory) ? "" : ", if it exists"));
    }
}

void runAsHook(const HookSetup& setup, HookContext& context, const HookLogger& log) {
    const auto slurm = slurmDirectories(setup.environment);
    const auto step = stepOf(context);
    if (!step) {
        log.info(cat("Does nothing: ", whyNothing()));
        return;
    }
    const container_root::Editor editor(context.rootfs());
    bool isAnyMounted = false;
    for (const auto& path : hook_contracts::slurmPmixDirectories(*step, slurm)) {
        if (const auto directory = openOwn(path, context, log)) {
            editor.bind(descriptorPath(directory.get()), path, {.nodev = true, .noexec = true});
            log.info(cat("Mounted ", printable(path)));
            isAnyMounted = true;
        }
    }
    if (!isAnyMounted) {
        log.warn(cat("The step ", step->job, '.', step->step, " has no directory of a PMIx server in ",
                     printable(slurm.spool), " or ", printable(slurm.tmp)));
    }
}

}  // namespace

int main(int argc, char** argv) {
    return hookMain(
        argc, argv,
        {.program = "pmix_hook",
         .logName = "PMIx hook",
         .usage = usage,
         .variables = {"SLURM_SPOOL_DIR", "SLURM_TMPFS", "SLURM_CONF"},
         .containerVariables = {"SLURM_MPI_TYPE", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_JOB_UID"},
         .check = check,
         .explain = explain,
         .run = runAsHook});
}
