#include "starter/verbs/launch.hpp"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/mounts.hpp"
#include "base/signal_name.hpp"
#include "base/text.hpp"
#include "engine/container_plan.hpp"
#include "engine/container_settings.hpp"
#include "engine/environment.hpp"
#include "engine/plan_report.hpp"
#include "node/cgroups.hpp"
#include "node/memory_cgroups.hpp"
#include "node/subordinate_ids.hpp"
#include "starter/devices/device_cgroup.hpp"
#include "starter/devices/hook_devices.hpp"
#include "starter/devices/runtime_cgroups.hpp"
#include "starter/image/image_mount.hpp"
#include "starter/namespaces/namespaces.hpp"
#include "starter/rootfs/rootfs.hpp"
#include "starter/runtime/bundle.hpp"
#include "starter/runtime/hooks.hpp"
#include "starter/runtime/runtime.hpp"
#include "starter/supervise/container_record.hpp"
#include "starter/supervise/container_storage.hpp"
#include "starter/supervise/job_step.hpp"
#include "starter/supervise/memory_watch.hpp"
#include "starter/supervise/supervision.hpp"
#include "starter/supervise/terminal.hpp"
#include "starter/verbs/lost_privileges.hpp"
#include "starter/verbs/planning.hpp"
#include "starter/verbs/site_rules.hpp"
#include "starter/verbs/unprivileged.hpp"

namespace sarus::starter {

namespace {

constexpr std::string_view subsystem = "Runtime";

std::string howItEnded(const ExitStatus& status) {
    const auto name = signalName(status.signal);
    return status.signal == 0 ? cat("with status ", status.code)
                              : cat("by ", name.empty() ? cat("signal ", status.signal) : cat("SIG", name));
}

/// One container, from its plan to its end. The members are in order of creation; their destructors, in
/// reverse order, clean up if a phase fails.
class Launch {
public:
    Launch(Session& theSession, const engine::LaunchRequest& theRequest)
        : session(theSession),
          request(theRequest),
          image(theRequest.imageFd),
          directories(prepareDirectories()),
          plan(planContainer(session, request, directories.bundleDir)) {}

    int run() {
        prepare();
        enter();
        buildRoot();
        writeConfiguration();
        runEarly();
        return watch();
    }

private:
    // The phases.
    void prepare();
    void enter();
    void buildRoot();
    void writeConfiguration();
    void runEarly();
    int watch();

    // Their steps.
    StateDirectories prepareDirectories() const;
    void keepDescriptors() const;
    void logPlan() const;
    RecordFile createRecord() const;
    ContainerRecord describe() const;
    NamespaceSharing sharing() const;
    std::optional<node::SubordinateIds> idsOfRoot() const;
    std::optional<ContainerStorage::Opened> openStorage() const;
    void discardStorage();
    void makeRoot();
    RuntimeInvocation makeInvocation() const;
    std::optional<DeviceCgroup> makeDeviceCgroup();
    Remains takeRemains();
    void explainEnd(const RuntimeEnd& end, const UniqueFd& runtimeLog,
                    std::optional<std::size_t> lastBegunHook) const;
    void reaped(pid_t pid, const ExitStatus& status, bool tell);

    bool privileged() const noexcept { return session.credentials.privileged(); }
    std::string leafName() const { return leafNameOf(plan.uid, plan.name); }
    /// As the kernel gives half of the node's memory.
    std::optional<std::uint64_t> memoryShare() const {
        return memoryLimit ? std::optional(*memoryLimit / 2) : std::nullopt;
    }
    bool isCrun() const noexcept { return runtime.kind == engine::OciRuntime::crun; }
    bool hasStage(std::string_view stage) const {
        return std::any_of(plan.hooks.begin(), plan.hooks.end(),
                           [&](const auto& planned) { return planned.stage == stage; });
    }
    /// Whether a read-only root is made so here: privileged runc would drop nosuid and nodev.
    bool makesRootReadonly() const {
        return plan.readonlyRoot && privileged() && !isCrun() && !needsWritableRoot(plan);
    }
    std::string program(std::string_view name) const { return cat(session.entry.prefix, "/libexec/", name); }

    Session& session;
    const engine::LaunchRequest& request;
    UniqueFd image;
    StateDirectories directories;
    engine::ContainerPlan plan;

    std::optional<UserTerminal> terminal;
    UniqueFd jobStep;
    RuntimeProgram runtime;
    bool createsUser = false;  ///< whether sarus-enter creates the container's user
    std::optional<RecordFile> record;

    std::optional<MemoryWatch> memory;
    std::optional<std::uint64_t> memoryLimit;  ///< of the job
    std::optional<OwnCgroup> ownCgroup;
    std::string sharingDirectory;  ///< where the user's starters find each other; "": nowhere
    std::string notByKernel;       ///< why the kernel does not mount the image
    UserNamespaces userNamespaces;

    std::optional<ContainerStorage::Opened> storage;
    std::optional<Rootfs> rootfs;
    std::string foreign;                  ///< the result of checkCommand()
    std::vector<std::size_t> earlyHooks;  ///< positions in the plan
    std::optional<HookLog> hookLog;

    /// runc's v1 device cgroup, if a hook sets its rules.
    std::optional<std::string> runcDevices;
    std::vector<oci::RuntimeDeviceRule> rulesOfHooks;  ///< added by precreate hooks
};

StateDirectories Launch::prepareDirectories() const {
    return prepareStateDirectories(session.credentials, session.config, request.hostEnvironment);
}

void Launch::prepare() {
    recordPlan(session, plan);
    checkImage(session, request);
    if (plan.terminal) {
        terminal.emplace();
    }
    jobStep = watchJobStep(request.hostEnvironment);
    runtime = findRuntime(session.config.runcPath, session.checker());
    logPlan();
    session.paths.reset();
    createsUser = engine::createsUserInside(plan, {.runtime = runtime.kind, .privileged = privileged()});
    const auto turn = turnToAddContainer(session, directories.runtimeRoot);
    record.emplace(createRecord());
    checkContainerCount(session, directories.runtimeRoot);
    keepDescriptors();  // now: a caller may use the end of one as the sign that the name is taken
    session.timer.done("Planning the container");
}

/// Closes everything that the container is not given.
void Launch::keepDescriptors() const {
    std::vector<int> kept;
    for (const auto& descriptor : plan.descriptors) {
        kept.push_back(descriptor.from);
    }
    closeInherited(session.entry.descriptors, kept);
}

void Launch::logPlan() const {
    if (logLevel() > LogLevel::info) {
        return;
    }
    const engine::PlanReport report{
        .plan = plan, .request = request, .runtime = runtime.path, .privileged = privileged()};
    for (const auto& line : engine::describePlan(report, logLevel() == LogLevel::debug)) {
        log(line.level, subsystem, line.text);
    }
}

ContainerRecord Launch::describe() const {
    ContainerRecord description{.image = request.imageReference,
                                .command = plan.args,
                                .environment = {},
                                .workdir = plan.workdir,
                                .ownVariables = engine::ownVariables(session.config, request),
                                .apparmorProfile = session.config.apparmorProfile,
                                .selinuxLabel = session.config.selinuxLabel,
                                .createsUser = createsUser,
                                .remapRoot = plan.remapRoot,
                                .imageContent = request.imageContent,
                                .settings = engine::settingsOf(request)};
    for (const auto& [name, value] : plan.environment) {
        description.environment.push_back(cat(name, '=', value));
    }
    return description;
}

/// While the directory is empty, the end of the user's last container may remove it: then it is created
/// again.
RecordFile Launch::createRecord() const {
    constexpr int attempts = 100;
    const auto description = describe();
    for (int attempt = 1;; ++attempt) {
        try {
            return RecordFile::create(directories.runtimeRoot, plan.name, description);
        } catch (const Error& error) {
            if (error.errnum() != ENOENT || attempt == attempts) {
                throw;
            }
        }
        prepareDirectories();
    }
}

void Launch::enter() {
    const auto& config = session.config;
    auto memoryCgroups = node::memoryCgroups();
    memoryLimit = node::lowestMemoryLimit(memoryCgroups);
    memory.emplace(std::move(memoryCgroups));
    if (privileged()) {
        if (!isCrun() || !plan.devices.empty()) {
            ownCgroup = OwnCgroup::open();
        }
        if (config.imageMount != engine::ImageMountPolicy::fuse) {
            notByKernel = whyNotByKernel(image.get());
        }
    }
    const auto shared = plan.remapRoot ? NamespaceSharing() : sharing();
    userNamespaces = enterNamespaces(session.credentials, shared, idsOfRoot());
    if (privileged()) {
        sharingDirectory = "/run/sarus/images";
    } else if (userNamespaces.container) {
        sharingDirectory = shared.directory;
    }
    session.timer.done("Entering the namespaces");
}

/// If runc enters a user namespace for a container instead of creating one, it hides its process there from
/// others (PR_SET_DUMPABLE): hooks inside that container could not inspect it.
NamespaceSharing Launch::sharing() const {
    if (!isCrun() && hasStage("createContainer")) {
        return {};
    }
    return {.directory = prepareNamespacesDirectory(session.credentials, session.config, directories),
            .createsUser = createsUser};
}

std::optional<node::SubordinateIds> Launch::idsOfRoot() const {
    return plan.remapRoot ? std::optional(subordinateIdsOf(session.config, session.credentials))
                          : std::nullopt;
}

/// Asks with the caller's rights, so root loads no module of a name service. A container starts without an
/// answer, too.
NameService namesForCaller(const Credentials& credentials) {
    return [&credentials](const std::string& database, const std::vector<std::string>& keys) {
        try {
            return credentials.asUser([&] { return askNameService(database, keys); });
        } catch (const Error& error) {
            logWarn("Runtime", cat("The container lacks names of /etc/", database, ": ", error.what()));
            return std::string();
        }
    };
}

/// The keys that Podman writes there, for programs that read them and shells that execute them.
std::string containerenvOf(const engine::LaunchRequest& request, const engine::ContainerPlan& plan,
                           bool privileged) {
    const auto line = [](std::string_view key, std::string_view value) {
        std::string quoted;
        for (const char c : printable(value)) {
            quoted += std::string_view("\"\\$`").find(c) == std::string_view::npos ? std::string(1, c)
                                                                                   : cat('\\', c);
        }
        return cat(key, "=\"", quoted, "\"\n");
    };
    return cat(line("engine", "sarus"), line("name", plan.name), line("image", request.imageReference),
               "rootless=", privileged ? 0 : 1, '\n');
}

/// What the container has kept, or is to keep. Its name may be that of one that was kept before.
std::optional<ContainerStorage::Opened> Launch::openStorage() const {
    const auto kept = ContainerStorage::find(session.credentials, session.config,
                                             request.keep   ? ContainerStorage::Look::create
                                             : request.name ? ContainerStorage::Look::full
                                                            : ContainerStorage::Look::quick);
    if (!kept) {
        return std::nullopt;
    }
    const auto job = markJob(request.hostEnvironment);
    for (const auto& name : kept->removeOfEndedJobs(job)) {
        logInfo(subsystem, cat("Removed the container ", name, ": its job is over"));
    }
    if (!request.name) {
        return std::nullopt;
    }
    auto opened = kept->open({.name = *request.name,
                              .image = request.imageReference,
                              .content = request.imageContent,
                              .job = job,
                              .created = std::time(nullptr),
                              .remapRoot = request.remapRoot,
                              .directory = request.keptDirectory},
                             request.keep);
    if (opened) {
        session.audit.about().text("kept", opened->directory);
        logInfo(subsystem,
                cat(opened->isNew ? "The container keeps its files in " : "The container has files in ",
                    printable(opened->directory)));
    }
    return opened;
}

/// A new container that cannot be built is not kept.
void Launch::discardStorage() {
    const bool isNew = storage && storage->isNew;
    storage.reset();
    if (!isNew) {
        return;
    }
    try {
        const auto kept =
            ContainerStorage::find(session.credentials, session.config, ContainerStorage::Look::full);
        const auto entry = kept ? kept->find(plan.name, markJob(request.hostEnvironment)) : std::nullopt;
        if (entry) {
            kept->remove(*entry, ContainerStorage::whileOthersList);
        }
    } catch (const Error& error) {
        logWarn(subsystem, error.what());  // the caller reports why there is no container
    }
}

void Launch::buildRoot() {
    storage = openStorage();
    try {
        makeRoot();
    } catch (const Error&) {
        discardStorage();
        throw;
    }
    plan.workdir = rootfs->workdir();
    image.reset();
    session.timer.done("Building the root filesystem");
}

void Launch::makeRoot() {
    rootfs.emplace(buildRootfs(
        {.plan = plan,
         .config = session.config,
         .credentials = session.credentials,
         .imageFd = image.get(),
         .imagePath = request.imagePath,
         .containerenv = containerenvOf(request, plan, privileged()),
         .bundleDir = directories.bundleDir,
         .storage = storage ? storage->layers.get() : -1,
         .storagePath = storage ? storage->directory : std::string(),
         .imageBuilderPath = program("sarus-image-builder"),
         .squashfsServerPath = cat(session.entry.prefix, "/bin/sarus-squashfs"),
         .accounts = plan.remapRoot || (storage && storage->remapRoot) ? Accounts::ofImage : Accounts::ofNode,
         .account = CallerAccount{.ask = namesForCaller(session.credentials),
                                  .home = callerVariable(request.hostEnvironment, "HOME")},
         .memoryShare = memoryShare(),
         .whyNotByKernel = notByKernel,
         .imageSharingDirectory = sharingDirectory}));
}

void Launch::writeConfiguration() {
    foreign = checkCommand(plan, rootfs->rootFd(), session.credentials);
    if (isCrun() && node::detectCgroupLayout() == node::CgroupLayout::hybrid) {
        hideUnifiedHierarchy();
    }
    if (!isCrun() && privileged()) {
        hideFreezer();
    }
    if (ownCgroup && !ownCgroup->unified && !isCrun()) {
        runcDevices = cat(ownCgroup->path, '/', runcCgroupName(leafName()));
    }
    earlyHooks = findEarlyHooks(plan);
    rulesOfHooks = writeBundle({.limits = payloadLimits(session.entry, request.stackLimit),
                                .plan = plan,
                                .config = session.config,
                                .credentials = session.credentials,
                                .runtime = runtime,
                                .rootfs = *rootfs,
                                .enterProgram = program("sarus-enter"),
                                .hookWrapper = program("sarus-hook"),
                                .early = earlyHooks,
                                .runcDevices = runcDevices,
                                .userNamespaces = userNamespaces,
                                .consoleSize = terminal ? terminal->size() : std::nullopt,
                                .oomScore = node::raisedOomScore(memoryLimit),
                                .rootIsReadonly = makesRootReadonly()});
    session.timer.done("Writing the bundle");
}

void Launch::runEarly() {
    if (!plan.hooks.empty()) {
        hookLog.emplace(rootfs->bundleDir(), plan);
    }
    if (!earlyHooks.empty()) {
        runEarlyHooks(plan, earlyHooks, {program("sarus-hook"), rootfs->rootPath()}, rootfs->bundleDir(),
                      *hookLog);
        session.timer.done("Running hooks in front of the OCI runtime");
    }
    if (makesRootReadonly()) {
        rootfs->makeReadonly();
    }
}

int Launch::watch() {
    auto invocation = makeInvocation();
    if (terminal) {
        terminal->attach(invocation);
    }
    auto remains = takeRemains();
    if (remains.deviceCgroup && remains.deviceCgroup->processes() >= 0) {
        invocation.cgroups.push_back(remains.deviceCgroup->processes());
    }
    PidFile pidFile(invocation);
    // The runtime's own log, opened before the starter drops its rights.
    const auto log =
        openFile(runtimeLogPath(invocation.bundleDir), O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    bool running = true;
    Supervised supervised{.invocation = invocation, .remains = std::move(remains)};
    supervised.watched.hookLog = hookLog ? &*hookLog : nullptr;
    supervised.watched.program = &pidFile;
    supervised.watched.hooksFollow = hasStage("poststart") || hasStage("poststop");
    const PlannedState planned{.privileged = privileged(),
                               .seccomp = session.config.seccompProfile.has_value(),
                               .isRoot = plan.remapRoot};
    supervised.watched.planned = &planned;
    supervised.watched.terminal = terminal ? &*terminal : nullptr;
    supervised.watched.jobStep = jobStep.get();
    supervised.watched.servers = rootfs->foreignServers();
    supervised.spared = rootfs->sharedChildren();
    supervised.reaped = [&](pid_t pid, const ExitStatus& status) { reaped(pid, status, running); };
    supervised.ended = [&](const RuntimeEnd& end) {
        running = false;
        explainEnd(end, log, hookLog ? hookLog->lastBegun() : std::nullopt);
    };
    return supervise(session, std::move(supervised));
}

RuntimeInvocation Launch::makeInvocation() const {
    RuntimeInvocation invocation{.program = runtime,
                                 .runtimeRoot = directories.runtimeRoot,
                                 .bundleDir = rootfs->bundleDir(),
                                 .containerName = plan.name,
                                 .uid = session.credentials.ownerUid(),
                                 .gid = session.credentials.ownerGid(),
                                 .terminal = plan.terminal,
                                 .descriptors = plan.descriptors,
                                 .keepLog = true,
                                 .deviceRulesByHook = runcDevices.has_value()};
    if (userNamespaces.payload) {
        invocation.descriptors.push_back(
            {.from = userNamespaces.payload.get(), .to = payloadNamespaceNumber(plan)});
    }
    return invocation;
}

std::optional<DeviceCgroup> Launch::makeDeviceCgroup() {
    if (!isCrun()) {
        return ownCgroup && ownCgroup->unified
                   ? std::optional(DeviceCgroup::createForRunc(std::move(*ownCgroup), leafName()))
                   : std::nullopt;
    }
    if (rootfs->devices().empty()) {
        return std::nullopt;
    }
    if (!ownCgroup) {
        logInfo(subsystem, "There is no device cgroup: devices are restricted by the job's own cgroup alone");
        return std::nullopt;
    }
    auto rules = rootfs->devices();
    // Devices requested by hooks: on version 2 hooks cannot change the program when they run, and on version
    // 1 they do not change a cgroup that holds the runtime as well as the container.
    const auto more = findDeviceRulesOfHooks(plan);
    rules.insert(rules.end(), more.begin(), more.end());
    return DeviceCgroup::create(std::move(*ownCgroup), leafName(), rules, rulesOfHooks);
}

Remains Launch::takeRemains() {
    Remains remains{.stateDirectory = cat(directories.runtimeRoot, '/', plan.name),
                    .deviceCgroup = makeDeviceCgroup(),
                    .record = std::move(record),
                    .storageLock = storage ? std::move(storage->lock) : UniqueFd()};
    if (remains.deviceCgroup) {
        remains.record->noteCgroup(remains.deviceCgroup->path());
    }
    if (privileged() && !isCrun()) {
        for (const auto& cgroup : runcCgroups(leafName())) {
            remains.record->noteCgroup(cgroup);
        }
    }
    return remains;
}

void Launch::reaped(pid_t pid, const ExitStatus& status, bool tell) {
    if (const auto task = rootfs->forgetHelper(pid); !task.empty() && tell) {
        printError(cat("The process which provides ", task, " was ended ", howItEnded(status),
                       ": the container cannot use its files any more"));
    }
}

void Launch::explainEnd(const RuntimeEnd& end, const UniqueFd& runtimeLog,
                        std::optional<std::size_t> lastBegunHook) const {
    constexpr std::size_t largestLog = 16U << 20U;
    const auto& status = end.status;
    if (status.ok() || end.startEndedBy != 0) {
        return;
    }
    const auto log = readAll(runtimeLog.get(), largestLog, "the log of the OCI runtime");
    for (const auto& text :
         {explainFailedHook(plan, log, lastBegunHook), explainRefusedLayout(log, runtime.path),
          status.code == 1 ? foreign : std::string(),  // that of a program which cannot be run
          memory->explain(!isCrun() && status.shellStatus() == 128 + SIGKILL, rootfs->bytesWritten())}) {
        if (!text.empty()) {
            printErrorOnce(text, text);
        }
    }
}

void checkNotKeptWithPrivileges(const Session& session, const engine::LaunchRequest& request) {
    const auto kept =
        ContainerStorage::find(session.credentials, session.config, ContainerStorage::Look::full);
    if (request.name && kept && kept->find(*request.name, markJob(request.hostEnvironment))) {
        throw ContainerStorage::madeWithoutRoot(*request.name);
    }
}

}  // namespace

int launch(Session& session, const engine::LaunchRequest& request) {
    session.timer.done("Checking the installation and reading the request");
    recordCaller(session, "run", request.hostEnvironment);
    recordImage(session, request);
    warnOfLostPrivileges(session.entry, request.hostEnvironment);
    checkNode(session);
    const bool wasKept =
        request.name && wasKeptUnprivileged(session, *request.name, markJob(request.hostEnvironment));
    if (session.credentials.privileged() && (request.remapRoot || wasKept)) {
        if (!wasKept) {
            checkNotKeptWithPrivileges(session, request);
        }
        checkImage(session, request);
        planContainer(session, request, session.config.ociBundleDir);
        continueWithoutPrivileges(session, request);
    }
    return Launch(session, request).run();
}

}  // namespace sarus::starter
