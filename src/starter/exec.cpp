#include "starter/exec.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "engine/container_plan.hpp"
#include "engine/run_options.hpp"
#include "engine/runtime_config_builder.hpp"
#include "oci/runtime_config.hpp"
#include "starter/apparmor.hpp"
#include "starter/bundle.hpp"
#include "starter/cgroups.hpp"
#include "starter/container_record.hpp"
#include "starter/host_facts.hpp"
#include "starter/installation.hpp"
#include "starter/janitor.hpp"
#include "starter/launch.hpp"
#include "starter/monitor.hpp"
#include "starter/request_channel.hpp"
#include "starter/running_container.hpp"
#include "starter/runtime.hpp"
#include "starter/selinux.hpp"

namespace sarus::starter {

namespace {

engine::ContainerPlan makePlan(const Entry& entry, const Credentials& credentials, const engine::SiteConfig& config,
                               const engine::LaunchRequest& request, const ContainerRecord& record) {
    const auto facts = gatherHostFacts(entry, credentials, config, {});
    auto plan = engine::planExec(request, facts, {.environment = record.environment, .workdir = record.workdir});
    for (const auto& warning : plan.warnings) {
        logWarn("Runtime", warning);
    }
    if (record.incomplete) {
        logWarn("Runtime", cat("The environment of the container '", plan.name,
                               "' is too large to be remembered as a whole: the command does not get all of it"));
    }
    return plan;
}

/// The runtime may write down a container that it has started a moment after its program has begun to run.
std::pair<ContainerRecord, RunningContainer> findContainer(const Credentials& credentials, engine::OciRuntime runtime,
                                                           const std::string& runtimeRoot, const std::string& name) {
    constexpr int attempts = 200;
    constexpr timespec pause{.tv_sec = 0, .tv_nsec = 10'000'000};
    for (int attempt = 0; attempt < attempts; ++attempt) {
        auto record = readRecord(runtimeRoot, name);
        if (!record) {
            break;
        }
        auto container = RunningContainer::open(credentials, runtime, runtimeRoot, name);
        if (container && (!record->idMapHelper || container->payloadNamespace() >= 0)) {  // else the helper still runs
            return {std::move(*record), std::move(*container)};
        }
        ::nanosleep(&pause, nullptr);
    }
    throw Error(cat("There is no running container with the name '", printable(name), "'"), "See 'sarus ps'");
}

/// The command is confined as its container is, whatever sarus.json says by now.
engine::SiteConfig confinedLike(const ContainerRecord& record, engine::SiteConfig config) {
    config.apparmorProfile = record.apparmorProfile;
    config.selinuxLabel = record.selinuxLabel;
    config.selinuxMountLabel.reset();  // nothing is mounted in the container
    checkAppArmorProfile(config);
    checkSelinuxLabels(config);
    return config;
}

/// The description of the process, in memory: it holds the variables of the user.
UniqueFd writeProcess(const engine::ContainerPlan& plan, const engine::SiteConfig& config, const Credentials& credentials,
                      engine::OciRuntime runtime, const std::vector<CallerLimit>& limits, const ContainerRecord& record) {
    const engine::RuntimeDialect dialect{.runtime = runtime,
                                         .privileged = credentials.privileged(),
                                         .idMapHelper = idMapHelperInside,
                                         .madeWithHelper = record.idMapHelper};
    engine::RuntimeInputs inputs;
    if (record.idMapHelper) {
        inputs.payloadNamespace = payloadNamespaceNumber(plan);
    }
    inputs.rlimits = callerLimits(limits);
    const auto process = engine::makeRuntimeConfig(plan, config, dialect, inputs).process;
    UniqueFd file(checkErrno(::memfd_create("sarus-process", MFD_CLOEXEC), "Failed to describe the process"));
    writeAll(file.get(), oci::serializeRuntimeProcess(process), "the description of the process");
    return file;
}

/// A directory for the runtime's state which nobody else sees; it goes away with the mount namespace. The monitor, who is the
/// user then, looks into the bundle alone. runc wants to find a root filesystem at its usual place, as its working directory.
std::string makePrivateState(const std::string& bundleDir, const std::string& rootfsFolder) {
    checkErrno(::mount("tmpfs", bundleDir.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=711"),
               cat("Failed to mount a private directory on ", printable(bundleDir)));
    createDirectories(cat(bundleDir, '/', rootfsFolder), 0700);
    auto state = cat(bundleDir, "/.state");
    createDirectories(state, 0700);
    return state;
}

int watch(const RuntimeInvocation& invocation, PidFile& program, const Credentials& credentials, const Process& container,
          Child anchor) {
    if (const int number = takePendingTermination(); number != 0) {
        return 128 + number;
    }
    auto runtime = startRuntime(invocation);
    auto janitor = Janitor::start(credentials, runtime.pid(), {}, std::nullopt, std::nullopt);
    dropToMonitor(credentials, runtime.pid());
    const auto reaped = [&](pid_t pid) {
        if (pid == anchor.pid()) {
            anchor.release();
        }
    };
    const auto end = watchRuntime(std::move(runtime), reaped,
                                  {.container = &container, .program = &program, .helpers = {janitor.pid(), anchor.pid()}});
    anchor = Child();
    janitor.finish();
    reapLeftovers(reaped);
    return exitStatusOf(end, invocation.program.path);
}

}  // namespace

int execInContainer(const Entry& entry, Credentials credentials, int requestFd) {
    std::optional<PathChecker> paths(trustedOwners(entry, credentials));
    const auto config = loadInstallation(entry.prefix, *paths);
    const auto request = receiveExecRequest(requestFd, entry.descriptors);
    setLogLevel(request.logLevel);
    checkRootlessAllowed(entry, config);
    const auto name = request.name.value_or("");
    engine::checkContainerName(name);
    closeInherited(entry.descriptors, {});

    auto directories = prepareStateDirectories(credentials, config, request.hostEnvironment);
    if (auto root = findRuntimeRootOf(name, credentials, config, request.hostEnvironment)) {
        directories.runtimeRoot = std::move(*root);
    }
    const auto runtime = findRuntime(config.runcPath, config.securityChecks ? &*paths : nullptr);
    paths.reset();
    const auto [record, container] = findContainer(credentials, runtime.kind, directories.runtimeRoot, name);
    const auto plan = makePlan(entry, credentials, config, request, record);
    checkTerminal(plan);
    // runc enters the cgroups that it has made for the container by itself.
    const auto cgroups = runtime.kind == engine::OciRuntime::crun
                             ? openCgroupsToJoin(container.cgroups(), credentials.privileged())
                             : std::vector<UniqueFd>();
    const auto process =
        writeProcess(plan, confinedLike(record, config), credentials, runtime.kind, payloadLimits(entry, request), record);

    container.enterStarterNamespaces(credentials);
    if (runtime.kind == engine::OciRuntime::crun && detectCgroupLayout() == CgroupLayout::hybrid) {
        hideUnifiedHierarchy();
    }
    const auto state = makePrivateState(directories.bundleDir, config.rootfsFolder);
    checkErrno(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "Failed to become the command's subreaper");
    auto anchor = container.anchor(directories.runtimeRoot, state);
    RuntimeInvocation invocation{.program = runtime,
                                 .runtimeRoot = state,
                                 .bundleDir = directories.bundleDir,
                                 .containerName = name,
                                 .terminal = plan.terminal,
                                 .keepLog = runtime.kind == engine::OciRuntime::runc && logLevel() > LogLevel::debug,
                                 .execProcess = process.get()};
    if (record.idMapHelper) {
        invocation.descriptors.push_back({.from = container.payloadNamespace(), .to = payloadNamespaceNumber(plan)});
    }
    for (const auto& cgroup : cgroups) {
        invocation.cgroups.push_back(cgroup.get());
    }
    PidFile pidFile(invocation);
    return watch(invocation, pidFile, credentials, container.firstProcess(), std::move(anchor));
}

}  // namespace sarus::starter
