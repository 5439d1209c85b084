#include "starter/verbs/exec.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/begin_process.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/within.hpp"
#include "engine/container_plan.hpp"
#include "engine/container_settings.hpp"
#include "engine/run_options.hpp"
#include "engine/runtime_config_builder.hpp"
#include "engine/site_rule.hpp"
#include "node/apparmor.hpp"
#include "node/cgroups.hpp"
#include "node/memory_cgroups.hpp"
#include "node/selinux.hpp"
#include "oci/runtime/runtime_config.hpp"
#include "starter/devices/runtime_cgroups.hpp"
#include "starter/entry/host_facts.hpp"
#include "starter/runtime/bundle.hpp"
#include "starter/runtime/runtime.hpp"
#include "starter/supervise/container_record.hpp"
#include "starter/supervise/container_storage.hpp"
#include "starter/supervise/job_step.hpp"
#include "starter/supervise/memory_watch.hpp"
#include "starter/supervise/running_container.hpp"
#include "starter/supervise/supervision.hpp"
#include "starter/supervise/terminal.hpp"
#include "starter/verbs/planning.hpp"
#include "starter/verbs/site_rules.hpp"
#include "starter/verbs/unprivileged.hpp"

namespace sarus::starter {

namespace {

/// The socket to the process that holds the container open for a command.
class Keeper {
public:
    /// Throws Error if the request names another descriptor.
    Keeper(const Session& session, int number) : fd(number) {
        int domain = 0;
        socklen_t size = sizeof domain;
        const auto& open = session.entry.descriptors;
        if (number != -1 &&
            (number <= STDERR_FILENO || std::find(open.begin(), open.end(), number) == open.end() ||
             ::getsockopt(number, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX)) {
            throw Error("Invalid request: the keeper is no Unix socket");
        }
    }
    int descriptor() const noexcept { return fd; }

    /// With the rights of the user, who may let the socket wait for ever. Returns the status of the command.
    int leave(int status) const {
        if (fd < 0) {
            return status;
        }
        ::shutdown(fd, SHUT_WR);
        unsigned char other = 0;
        ssize_t count = 0;
        while ((count = ::read(fd, &other, 1)) < 0 && errno == EINTR) {
        }
        return count == 1 && status == 0 ? other : status;
    }

private:
    int fd;
};

/// A command has only the standard streams, and in a job step of its own the descriptor of the process
/// manager.
std::vector<int> descriptorsOf(const Session& session, const engine::ExecRequest& request) {
    const auto number = parseNumber(callerVariable(request.hostEnvironment, "PMI_FD"));
    std::vector<int> kept;
    for (const int descriptor : session.entry.descriptors) {
        if (request.ownStep && number && static_cast<std::uint64_t>(descriptor) == *number) {
            kept.push_back(descriptor);
        }
    }
    return kept;
}

engine::ContainerPlan planCommand(const Session& session, const engine::ExecRequest& request,
                                  const ContainerRecord& record) {
    auto plan = engine::planExec(session.config, request, gatherHostFacts(session),
                                 {.environment = record.environment,
                                  .workdir = record.workdir,
                                  .ownVariables = record.ownVariables,
                                  .remapRoot = record.remapRoot});
    logWarnings(plan);
    if (record.incomplete) {
        logWarn("Runtime",
                cat("The environment of the container '", plan.name,
                    "' is too large to be remembered as a whole: the command does not get all of it"));
    }
    return plan;
}

/// Throws Error if the container is another than the caller expects.
void checkExpected(const engine::ExecRequest& request, const ContainerRecord& record) {
    std::vector<std::string> differences;
    const auto& wanted = request.imageReference;
    const bool isKnown = !request.imageContent.empty() && !record.imageContent.empty();
    const bool isOtherImage = isKnown ? request.imageContent != record.imageContent : wanted != record.image;
    const bool isOwn = request.keeper >= 0;  // started for this step, whatever has become of its image since
    if (!wanted.empty() && isOtherImage && !isOwn) {
        differences.push_back(cat("image: ", printable(record.image),
                                  wanted == record.image ? " as it was then" : "", " instead of ",
                                  printable(wanted)));
    }
    if (!request.settings.empty() && !record.settings) {
        logWarn("Runtime", cat("The container '", request.name,
                               "' has too many mounts and options to be remembered: they are not compared"));
    } else if (record.settings) {
        const auto text = engine::describeDifferences(*record.settings, request.settings);
        differences.insert(differences.end(), text.empty() ? 0 : 1, text);
    }
    if (!differences.empty()) {
        throw Error(
            cat("The container '", request.name,
                "' runs already and cannot change: ", join(differences, "; ")),
            isOwn ? "All tasks of a step on a node share a container: 'srun sarus run' starts one for each"
                  : "Leave these options out to join it as it is, or choose another name");
    }
}

/// It may have been kept from an earlier start.
Error notRunning(const Session& session, const engine::ExecRequest& request) {
    Error error(cat("There is no running container with the name '", request.name, "'"), "See 'sarus ps'");
    const auto storage =
        ContainerStorage::find(session.credentials, session.config, ContainerStorage::Look::full);
    const auto kept = storage ? storage->find(request.name, markJob(request.hostEnvironment)) : std::nullopt;
    if (kept && !kept->container.image.empty()) {
        error.setHint(cat("It was kept, but does not run: sarus run --name ", request.name, ' ',
                          printable(kept->container.image), " COMMAND"));
    }
    return error;
}

/// The runtime may record a container slightly after its program has begun to run. Waits for one that starts;
/// a starter that was killed ends the wait.
std::pair<ContainerRecord, RunningContainer> findContainer(const Session& session,
                                                           const engine::ExecRequest& request,
                                                           engine::OciRuntime runtime,
                                                           const std::string& runtimeRoot) {
    const auto& name = request.name;
    std::optional<ContainerRecord> record;
    std::optional<RunningContainer> container;
    const bool isDecided = within(longestStart, [&] {
        record = readRecord(runtimeRoot, name);
        container.reset();
        if (record) {
            container = RunningContainer::open(session.credentials, runtime, runtimeRoot, name);
        }
        // Without a payload namespace sarus-enter still runs.
        return !record || (container && (!record->createsUser || container->payloadNamespace() >= 0));
    });
    if (!isDecided || !record) {
        throw notRunning(session, request);
    }
    return {std::move(*record), std::move(*container)};
}

/// The command is confined like its container, even if sarus.json has changed.
engine::SiteConfig confinedLike(const ContainerRecord& record, engine::SiteConfig config) {
    config.apparmorProfile = record.apparmorProfile;
    config.selinuxLabel = record.selinuxLabel;
    config.selinuxMountLabel.reset();  // nothing is mounted in the container
    node::checkAppArmorProfile(config.apparmorProfile);
    node::checkSelinuxLabel(config.selinuxLabel, "selinuxLabel");
    return config;
}

/// The description of the process, in memory because it contains the user's variables.
UniqueFd writeProcess(const engine::ContainerPlan& plan, const Session& session,
                      const engine::ExecRequest& request, engine::OciRuntime runtime,
                      const ContainerRecord& record, const std::optional<UserTerminal>& terminal,
                      std::optional<std::uint64_t> memoryLimit) {
    const engine::RuntimeDialect dialect{.runtime = runtime,
                                         .privileged = session.credentials.privileged(),
                                         .createsUser = record.createsUser};
    engine::RuntimeInputs inputs;
    if (record.createsUser) {
        inputs.payloadNamespace = payloadNamespaceNumber(plan);
    }
    inputs.rlimits = callerLimits(payloadLimits(session.entry, request.stackLimit));
    inputs.ignoredSignals = signalsIgnoredByCaller();
    inputs.oomScore = node::raisedOomScore(memoryLimit);
    inputs.consoleSize = terminal ? terminal->size() : std::nullopt;
    const auto process =
        engine::makeRuntimeConfig(plan, confinedLike(record, session.config), dialect, inputs).process;
    return makeMemoryFile("sarus-process", oci::serializeRuntimeProcess(process));
}

/// The command is in the cgroups of one of them: whoever may not enter the container's stays in his own.
struct ExecMemory {
    std::optional<MemoryWatch> container{};  ///< nullopt: not entered
    MemoryWatch caller;
};

void explainEnd(const RuntimeEnd& end, const ExecMemory& memory) {
    if (end.status.ok() || end.startEndedBy != 0) {
        return;
    }
    auto text = memory.container ? memory.container->explain(false, 0) : std::string();
    text = text.empty() ? memory.caller.explain(false, 0) : text;
    if (!text.empty()) {
        printErrorOnce(text, text);
    }
}

/// A private directory for the runtime's state, which goes away with the mount namespace. The monitor, which
/// then has the user's rights, reads only the bundle. runc expects a root filesystem at the usual place, as
/// its working directory.
std::string makePrivateState(const std::string& bundleDir, const std::string& rootfsFolder) {
    checkErrno(::mount("tmpfs", bundleDir.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=711"),
               cat("Failed to mount a private directory on ", printable(bundleDir)));
    createDirectories(cat(bundleDir, '/', rootfsFolder), 0700);
    auto state = cat(bundleDir, "/.state");
    createDirectories(state, 0700);
    return state;
}

}  // namespace

int execInContainer(Session& session, const engine::ExecRequest& request) {
    recordCaller(session, "exec", request.hostEnvironment);
    session.audit.about().text("container", request.name);
    checkRootlessAllowed(session);
    checkCaller(session);
    if (session.credentials.privileged() && !session.config.allowExec) {
        throw engine::siteForbids("commands in running containers", "allowExec");
    }
    engine::checkContainerName(request.name);
    const auto& environment = request.hostEnvironment;
    auto root = findRuntimeRootOf(request.name, session.credentials, session.config, environment);
    if (session.credentials.privileged() && !root &&
        (runsUnprivileged(session, environment, request.name) ||
         wasKeptUnprivileged(session, request.name, markJob(environment)))) {
        continueWithoutPrivileges(session, request);
    }
    const Keeper keeper(session, request.keeper);
    const auto kept = descriptorsOf(session, request);
    auto open = kept;
    open.push_back(keeper.descriptor());
    closeInherited(std::exchange(session.entry.descriptors, kept), open);
    const auto jobStep = watchJobStep(request.hostEnvironment);
    auto& credentials = session.credentials;
    auto directories = prepareStateDirectories(credentials, session.config, request.hostEnvironment);
    if (root) {
        directories.runtimeRoot = std::move(*root);
    }
    const auto runtime = findRuntime(session.config.runcPath, session.checker());
    const bool isCrun = runtime.kind == engine::OciRuntime::crun;
    session.paths.reset();
    const auto [record, container] = findContainer(session, request, runtime.kind, directories.runtimeRoot);
    session.audit.about().text("image", record.image);
    checkExpected(request, record);
    const auto plan = planCommand(session, request, record);
    auto terminal = plan.terminal ? std::optional<UserTerminal>(std::in_place) : std::nullopt;
    // runc itself enters the cgroups that it made for the container.
    const auto cgroups = isCrun && !request.ownStep
                             ? openCgroupsToJoin(container.cgroups(), credentials.privileged())
                             : std::vector<UniqueFd>();
    auto callersCgroups = node::memoryCgroups();
    const auto memoryLimit = node::lowestMemoryLimit(callersCgroups);
    ExecMemory memory{.caller = MemoryWatch(std::move(callersCgroups))};
    if (!request.ownStep) {
        memory.container.emplace(node::memoryCgroups(container.cgroups()));
    }

    container.enterStarterNamespaces(credentials);
    if (isCrun && node::detectCgroupLayout() == node::CgroupLayout::hybrid) {
        hideUnifiedHierarchy();
    }
    const auto state = makePrivateState(directories.bundleDir, session.config.rootfsFolder);
    auto anchor = container.anchor(directories.runtimeRoot, state, request.ownStep);
    const auto process = writeProcess(plan, session, request, runtime.kind, record, terminal, memoryLimit);
    RuntimeInvocation invocation{.program = runtime,
                                 .runtimeRoot = state,
                                 .bundleDir = directories.bundleDir,
                                 .containerName = plan.name,
                                 .uid = credentials.ownerUid(),
                                 .gid = credentials.ownerGid(),
                                 .terminal = plan.terminal,
                                 .descriptors = plan.descriptors,
                                 .keepLog = !isCrun && logLevel() > LogLevel::debug,
                                 .execProcess = process.get()};
    if (record.createsUser) {
        invocation.descriptors.push_back(
            {.from = container.payloadNamespace(), .to = payloadNamespaceNumber(plan)});
    }
    for (const auto& cgroup : cgroups) {
        invocation.cgroups.push_back(cgroup.get());
    }
    if (terminal) {
        terminal->attach(invocation);
    }
    PidFile pidFile(invocation);
    const PlannedState planned{
        .privileged = credentials.privileged(), .seccomp = false, .isRoot = record.remapRoot};
    const int status = supervise(session, {.invocation = invocation,
                                           .watched = {.container = &container.firstProcess(),
                                                       .program = &pidFile,
                                                       .planned = &planned,
                                                       .terminal = terminal ? &*terminal : nullptr,
                                                       .jobStep = jobStep.get()},
                                           .reaped =
                                               [&](pid_t pid, const ExitStatus&) {
                                                   if (pid == anchor.pid()) {
                                                       anchor.release();
                                                   }
                                               },
                                           .ended =
                                               [&](const RuntimeEnd& end) {
                                                   anchor = Child();
                                                   explainEnd(end, memory);
                                               }});
    return keeper.leave(status);
}

}  // namespace sarus::starter
