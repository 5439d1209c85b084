#include "starter/launch.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "engine/container_plan.hpp"
#include "engine/launch_request.hpp"
#include "engine/plan_report.hpp"
#include "starter/apparmor.hpp"
#include "starter/bundle.hpp"
#include "starter/cdi_files.hpp"
#include "starter/cgroups.hpp"
#include "starter/container_record.hpp"
#include "starter/hook_devices.hpp"
#include "starter/hooks.hpp"
#include "starter/host_facts.hpp"
#include "starter/installation.hpp"
#include "starter/janitor.hpp"
#include "starter/monitor.hpp"
#include "starter/namespaces.hpp"
#include "starter/request_channel.hpp"
#include "starter/rootfs.hpp"
#include "starter/runtime.hpp"
#include "starter/security_checks.hpp"
#include "starter/selinux.hpp"

namespace sarus::starter {

namespace {

constexpr std::string_view subsystem = "Runtime";

/// Tells with --debug what each step took.
class Timer {
public:
    Timer() noexcept { ::clock_gettime(CLOCK_MONOTONIC, &last); }

    void done(std::string_view step) {
        if (logLevel() > LogLevel::debug) {
            return;
        }
        timespec now{};
        ::clock_gettime(CLOCK_MONOTONIC, &now);
        const auto microseconds = (now.tv_sec - last.tv_sec) * 1'000'000 + (now.tv_nsec - last.tv_nsec) / 1000;
        logDebug(subsystem, cat(step, " took ", microseconds, " us"));
        last = now;
    }

private:
    timespec last{};
};

std::optional<std::string> callerVariable(const engine::LaunchRequest& request, std::string_view name) {
    for (const auto& entry : request.hostEnvironment) {
        if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
            return entry.substr(name.size() + 1);
        }
    }
    return std::nullopt;
}

/// Only what the container is given stays open; the image stays for the root filesystem.
void keepDescriptors(const Entry& entry, const engine::ContainerPlan& plan, const std::vector<int>& internal) {
    auto kept = internal;  // the request's is closed already, and its number may be in use again
    for (const auto& descriptor : plan.descriptors) {
        kept.push_back(descriptor.from);
    }
    closeInherited(entry.descriptors, kept);
}

Rootfs makeRootfs(const Entry& entry, const engine::ContainerPlan& plan, const engine::SiteConfig& config,
                  const Credentials& credentials, const engine::LaunchRequest& request, const std::string& bundleDir) {
    CallerAccount account{
        .name = callerVariable(request, "USER").value_or(""), .group = {}, .home = callerVariable(request, "HOME").value_or("")};
    return buildRootfs({.plan = plan,
                        .config = config,
                        .credentials = credentials,
                        .imageFd = request.imageFd,
                        .imagePath = request.imagePath,
                        .bundleDir = bundleDir,
                        .imageBuilderPath = cat(entry.prefix, "/libexec/sarus-image-builder"),
                        .account = std::move(account)});
}

std::optional<DeviceCgroup> makeDeviceCgroup(std::optional<OwnCgroup> own, const engine::ContainerPlan& plan,
                                             const RuntimeProgram& runtime, const Rootfs& rootfs,
                                             const std::vector<oci::BundleDeviceRule>& rulesOfHooks) {
    const auto leafName = leafNameOf(plan.uid, plan.name);
    if (runtime.kind != engine::OciRuntime::crun) {
        return own && own->unified ? std::optional(DeviceCgroup::createForRunc(std::move(*own), leafName)) : std::nullopt;
    }
    if (rootfs.devices().empty()) {
        return std::nullopt;
    }
    if (!own) {
        logInfo(subsystem, "There is no device cgroup: devices are restricted by the job's own cgroup alone");
        return std::nullopt;
    }
    auto rules = rootfs.devices();
    // What hooks ask for: on version 2 they cannot change the program when they run, and on version 1 they leave a cgroup alone
    // which holds the runtime besides the container.
    const auto more = findDeviceRulesOfHooks(plan);
    rules.insert(rules.end(), more.begin(), more.end());
    return DeviceCgroup::create(std::move(*own), leafName, rules, rulesOfHooks);
}

/// The runtime's own log, opened before the starter gives up its rights; empty where it is not needed.
UniqueFd openRuntimeLog(const RuntimeInvocation& invocation) {
    if (!invocation.keepLog) {
        return {};
    }
    return openFile(runtimeLogPath(invocation.bundleDir), O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
}

bool hasStage(const engine::ContainerPlan& plan, std::string_view stage) {
    return std::any_of(plan.hooks.begin(), plan.hooks.end(), [&](const auto& planned) { return planned.stage == stage; });
}

/// `foreign`: what checkCommand() has returned.
void explainEnd(const engine::ContainerPlan& plan, const RuntimeProgram& runtime, const UniqueFd& runtimeLog,
                const std::string& foreign, std::optional<std::size_t> lastBegunHook) {
    constexpr std::size_t largestLog = 16U << 20U;
    const auto log = runtimeLog ? readAll(runtimeLog.get(), largestLog, "the log of the OCI runtime") : std::string();
    for (const auto& text : {explainFailedHook(plan, log, lastBegunHook), explainRefusedLayout(log, runtime.path), foreign}) {
        if (!text.empty()) {
            printError(text);
        }
    }
    if (log.starts_with("executable file `")) {  // crun's words; with hooks, checkCommand() could not find it out
        printError(missingCommand(plan.args.front()));
    }
}

bool needsIdMapHelper(const engine::ContainerPlan& plan, const RuntimeProgram& runtime, const Credentials& credentials) {
    return engine::needsIdMapHelper(plan, {.runtime = runtime.kind, .privileged = credentials.privileged(), .idMapHelper = {}});
}

/// runc closes its process in a container to others (PR_SET_DUMPABLE) if it has entered a user namespace there and not made one:
/// hooks that run inside of that container could not look at it.
NamespaceSharing sharingOf(const engine::ContainerPlan& plan, const RuntimeProgram& runtime, bool idMapHelper,
                           const Credentials& credentials, const engine::SiteConfig& config,
                           const StateDirectories& directories) {
    if (runtime.kind == engine::OciRuntime::runc && hasStage(plan, "createContainer")) {
        return {};
    }
    return {.directory = prepareNamespacesDirectory(credentials, config, directories), .idMapHelper = idMapHelper};
}

/// From the start of the runtime to the end of everything that belongs to the container.
int runContainer(RuntimeInvocation& invocation, std::optional<DeviceCgroup> deviceCgroup, const Credentials& credentials,
                 Rootfs& rootfs, RecordFile record, const WatchedThings& watched,
                 const std::function<void(const ExitStatus&)>& explain, Timer& timer) {
    checkErrno(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "Failed to become the container's subreaper");
    if (const int number = takePendingTermination(); number != 0) {
        return 128 + number;
    }
    if (deviceCgroup && deviceCgroup->processes() >= 0) {
        invocation.cgroups.push_back(deviceCgroup->processes());
    }
    if (deviceCgroup) {
        record.noteCgroup(deviceCgroup->path());
    }
    // The container is there as long as this process or the janitor is.
    const UniqueFd lock(checkErrno(::fcntl(record.descriptor(), F_DUPFD_CLOEXEC, 0), "Failed to keep the lock of the container"));
    auto runtime = startRuntime(invocation);
    timer.done("Starting the OCI runtime");
    auto janitor = Janitor::start(credentials, runtime.pid(), cat(invocation.runtimeRoot, '/', invocation.containerName),
                                  std::move(deviceCgroup), std::move(record));
    dropToMonitor(credentials, runtime.pid());
    const auto reaped = [&](pid_t pid) { rootfs.forgetHelper(pid); };
    const auto end = watchRuntime(std::move(runtime), reaped, watched);
    timer.done("The container");
    if (!end.status.ok()) {
        explain(end.status);
    }
    reapLeftovers(reaped, janitor.pid());  // before the janitor removes their cgroup
    janitor.finish();
    return exitStatusOf(end, invocation.program.path);
}

ContainerRecord makeRecord(const engine::ContainerPlan& plan, const engine::LaunchRequest& request,
                           const engine::SiteConfig& config, bool idMapHelper) {
    ContainerRecord record{.image = request.imageReference,
                           .command = plan.args,
                           .environment = {},
                           .workdir = plan.workdir,
                           .apparmorProfile = config.apparmorProfile,
                           .selinuxLabel = config.selinuxLabel,
                           .idMapHelper = idMapHelper};
    for (const auto& [name, value] : plan.environment) {
        record.environment.push_back(cat(name, '=', value));
    }
    return record;
}

/// As long as nothing is in the directory, the end of the user's last container may remove it: then it is made again.
RecordFile createRecord(const std::string& runtimeRoot, const std::string& name, const ContainerRecord& record,
                        const std::function<void()>& makeDirectory) {
    constexpr int attempts = 100;
    for (int attempt = 1;; ++attempt) {
        try {
            return RecordFile::create(runtimeRoot, name, record);
        } catch (const Error& error) {
            if (error.errnum() != ENOENT || attempt == attempts) {
                throw;
            }
        }
        makeDirectory();
    }
}

engine::ContainerPlan makePlan(const Entry& entry, const Credentials& credentials, const engine::SiteConfig& config,
                               const engine::LaunchRequest& request, int requestFd, PathChecker& paths,
                               const std::string& bundleDir) {
    const auto hooks = loadHooks(config, paths);
    auto facts = gatherHostFacts(entry, credentials, config, {requestFd, request.imageFd});
    facts.hookOutput = cat(bundleDir, '/', hookLogName);
    const auto cdi =
        loadCdiEdits(request.devices, cdiDirectories(config, credentials.privileged(), request.hostEnvironment), paths);
    auto plan = engine::plan(config, request, facts, hooks, cdi);
    for (const auto& warning : plan.warnings) {
        logWarn(subsystem, warning);
    }
    checkHookPrograms(plan, config.securityChecks ? &paths : nullptr);
    return plan;
}

void logPlan(const engine::PlanReport& report) {
    if (logLevel() <= LogLevel::info) {
        for (const auto& line : engine::describePlan(report, logLevel() == LogLevel::debug)) {
            log(line.level, subsystem, line.text);
        }
    }
}

/// Makes nothing and starts nothing.
void printPlan(const Entry& entry, const Credentials& credentials, const engine::SiteConfig& config,
               const engine::LaunchRequest& request, int requestFd, PathChecker& paths) {
    constexpr int standardOutput = 1;
    const auto plan = makePlan(entry, credentials, config, request, requestFd, paths, config.ociBundleDir);
    const auto runtime = findRuntime(config.runcPath, config.securityChecks ? &paths : nullptr);
    const engine::RuntimeDialect dialect{.runtime = runtime.kind, .privileged = credentials.privileged(), .idMapHelper = "-"};
    const engine::PlanReport report{.plan = plan,
                                    .request = request,
                                    .runtime = runtime.path,
                                    .privileged = credentials.privileged(),
                                    .systemMounts = engine::makeRuntimeConfig(plan, config, dialect, {}).mounts};
    const auto text = request.json ? engine::formatPlanJson(report) : engine::formatPlan(report);
    dropToMonitor(credentials);  // a reader that stops reading must not make a process of root's wait which the user cannot end
    unblockSignals();
    writeAll(standardOutput, text, "standard output");
}

}  // namespace

std::vector<CallerLimit> payloadLimits(const Entry& entry, const engine::LaunchRequest& request) {
    auto limits = entry.limits;
    if (auto stack = stackLimit(request.stackLimit)) {
        limits.push_back(std::move(*stack));
    }
    return limits;
}

// The runtimes' own message for this is one that users cannot make sense of.
void checkTerminal(const engine::ContainerPlan& plan) {
    if (!plan.terminal) {
        return;
    }
    const UniqueFd terminal(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!terminal) {
        throw Error::fromErrno("The option --tty needs a controlling terminal: open /dev/tty", errno,
                               "Under a workload manager ask it for a terminal (srun --pty), or leave the option out");
    }
}

void checkRootlessAllowed(const Entry& entry, const engine::SiteConfig& config) {
    if (entry.mode == Mode::rootless && !config.allowRootless) {
        throw Error("This site does not allow containers without the set-user-ID starter (`allowRootless` in sarus.json)",
                    entry.privilegeNotice);
    }
}

int launch(const Entry& entry, Credentials credentials, int requestFd) {
    Timer timer;
    std::optional<PathChecker> paths(trustedOwners(entry, credentials));
    const auto config = loadInstallation(entry.prefix, *paths);
    const auto request = receiveRequest(requestFd, entry.descriptors);
    setLogLevel(request.logLevel);
    timer.done("Checking the installation and reading the request");
    if (!entry.privilegeNotice.empty()) {
        logInfo(subsystem, entry.privilegeNotice);
    }
    checkRootlessAllowed(entry, config);
    checkAppArmorProfile(config);
    checkSelinuxLabels(config);

    if (request.dryRun) {
        printPlan(entry, credentials, config, request, requestFd, *paths);
        return 0;
    }
    const auto directories = prepareStateDirectories(credentials, config, request.hostEnvironment);
    const auto plan = makePlan(entry, credentials, config, request, requestFd, *paths, directories.bundleDir);
    checkTerminal(plan);
    keepDescriptors(entry, plan, {requestFd, request.imageFd});
    const auto runtime = findRuntime(config.runcPath, config.securityChecks ? &*paths : nullptr);
    logPlan({.plan = plan, .request = request, .runtime = runtime.path, .privileged = credentials.privileged()});
    paths.reset();  // directories which it holds open could not be unmounted as long as the container runs
    const bool idMapHelper = needsIdMapHelper(plan, runtime, credentials);
    auto record = createRecord(directories.runtimeRoot, plan.name, makeRecord(plan, request, config, idMapHelper),
                               [&] { prepareStateDirectories(credentials, config, request.hostEnvironment); });
    timer.done("Planning the container");

    const bool needsCgroup = credentials.privileged() && (runtime.kind == engine::OciRuntime::runc || !plan.devices.empty());
    auto ownCgroup = needsCgroup ? OwnCgroup::open() : std::nullopt;
    const auto userNamespaces =
        enterNamespaces(credentials, sharingOf(plan, runtime, idMapHelper, credentials, config, directories));
    timer.done("Entering the namespaces");
    auto rootfs = makeRootfs(entry, plan, config, credentials, request, directories.bundleDir);
    ::close(request.imageFd);
    timer.done("Building the root filesystem");
    const auto foreign = checkCommand(plan, rootfs.rootFd(), credentials);
    if (runtime.kind == engine::OciRuntime::crun && detectCgroupLayout() == CgroupLayout::hybrid) {
        hideUnifiedHierarchy();
    }
    const bool rulesByHook = ownCgroup && !ownCgroup->unified && runtime.kind == engine::OciRuntime::runc;
    const auto runcDevices = rulesByHook ? std::optional(cat(ownCgroup->path, '/', plan.name)) : std::nullopt;
    const auto rulesOfHooks = writeBundle({.limits = payloadLimits(entry, request),
                                           .plan = plan,
                                           .config = config,
                                           .credentials = credentials,
                                           .runtime = runtime,
                                           .rootfs = rootfs,
                                           .idMapHelper = cat(entry.prefix, "/libexec/sarus-idmap"),
                                           .hookWrapper = cat(entry.prefix, "/libexec/sarus-hook"),
                                           .runcDevices = runcDevices,
                                           .userNamespaces = userNamespaces});
    timer.done("Writing the bundle");

    auto hookLog = plan.hooks.empty() ? std::nullopt : std::optional<HookLog>(std::in_place, rootfs.bundleDir(), plan);
    RuntimeInvocation invocation{.program = runtime,
                                 .runtimeRoot = directories.runtimeRoot,
                                 .bundleDir = rootfs.bundleDir(),
                                 .containerName = plan.name,
                                 .terminal = plan.terminal,
                                 .descriptors = plan.descriptors,
                                 .keepLog = runtime.kind == engine::OciRuntime::crun || logLevel() > LogLevel::debug,
                                 .deviceRulesByHook = runcDevices.has_value()};
    if (userNamespaces.payload) {
        invocation.descriptors.push_back({.from = userNamespaces.payload.get(), .to = payloadNamespaceNumber(plan)});
    }
    PidFile pidFile(invocation);
    const auto log = openRuntimeLog(invocation);
    const auto explain = [&](const ExitStatus& status) {
        explainEnd(plan, runtime, log, status.code == 1 ? foreign : std::string(),  // the status of a program that cannot be run
                   hookLog ? hookLog->lastBegun() : std::nullopt);
    };
    const PlannedState planned{.privileged = credentials.privileged(), .seccomp = config.seccompProfile.has_value()};
    return runContainer(invocation, makeDeviceCgroup(std::move(ownCgroup), plan, runtime, rootfs, rulesOfHooks), credentials,
                        rootfs, std::move(record),
                        {.hookLog = hookLog ? &*hookLog : nullptr,
                         .program = &pidFile,
                         .hooksFollow = hasStage(plan, "poststart") || hasStage(plan, "poststop"),
                         .planned = &planned},
                        explain, timer);
}

}  // namespace sarus::starter
