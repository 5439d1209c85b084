#include "starter/verbs/containers.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/passwd_file.hpp"
#include "base/signal_name.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "engine/environment.hpp"
#include "engine/run_options.hpp"
#include "hook_contracts/enter_call.hpp"
#include "starter/runtime/runtime.hpp"
#include "starter/supervise/container_record.hpp"
#include "starter/supervise/container_storage.hpp"
#include "starter/verbs/container_list.hpp"
#include "starter/verbs/planning.hpp"
#include "starter/verbs/unprivileged.hpp"

namespace sarus::starter {

namespace {

constexpr const char* runtimePath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

std::vector<std::string> environmentOf(const std::string& sessionDirectory) {
    return {cat("XDG_RUNTIME_DIR=", sessionDirectory)};
}

/// What the starter knows about a container. One whose record cannot be read is listed without it.
void addRecord(const std::string& root, ListedContainer& container) {
    try {
        auto record = readRecord(root, container.id);
        if (!record) {
            return;
        }
        const auto environment = engine::parseEnvironment(record->environment);
        container.job = engine::valueOf(environment, "SLURM_JOB_ID");
        container.step = engine::valueOf(environment, "SLURM_STEP_ID");
        container.task = engine::valueOf(environment, "SLURM_PROCID");
        container.image = std::move(record->image);
        container.command = std::move(record->command);
    } catch (const Error& error) {
        logInfo("Runtime", error.what());
    }
}

std::string_view wordFor(KnownContainer::Status status) {
    switch (status) {
        case KnownContainer::Status::creating:
            return creating;
        case KnownContainer::Status::created:
            return "created";
        case KnownContainer::Status::running:
            return "running";
        case KnownContainer::Status::stopped:
            break;
    }
    return stopped;
}

std::vector<ListedContainer> containersIn(const std::string& root, const std::string& owner) {
    if (pathExists(root) && !isDirectory(root)) {
        throw Error("It is not a directory");
    }
    sweepDeadContainers(root);
    std::vector<ListedContainer> containers;
    for (const auto& known : knownContainers(root)) {
        const auto state =
            known.state.value_or(RuntimeState{.bundle = {}, .created = formatUtcTime(std::time(nullptr))});
        containers.push_back({.id = printable(known.name),
                              .pid = state.pid,
                              .status = std::string(wordFor(known.status)),
                              .bundle = printable(state.bundle),
                              .created = withoutLastZeros(printable(state.created)),
                              .owner = owner,
                              .runtimeRoot = root});
        addRecord(root, containers.back());
    }
    return containers;
}

/// Those that were kept and do not run.
std::vector<ListedContainer> idleContainers(const Session& session) {
    std::vector<ListedContainer> idle;
    const auto storage =
        ContainerStorage::find(session.credentials, session.config, ContainerStorage::Look::full);
    if (!storage) {
        return idle;
    }
    const auto owner = userName(session.config, session.credentials.uid());
    for (auto& entry : storage->list()) {
        if (!entry.isRunning) {
            idle.push_back({.id = entry.container.name,
                            .status = std::string(stopped),
                            .bundle = entry.directory,
                            .created = withoutLastZeros(formatUtcTime(entry.container.created)),
                            .owner = owner,
                            .image = std::move(entry.container.image),
                            .job = std::move(entry.container.job.id)});
        }
    }
    return idle;
}

enum class Whose { callers, everybodys };

/// As runc shows it: who has started the OCI runtime; to root, whose they are.
std::string ownerOf(const Session& session, const std::string& root, Whose whose) {
    const uid_t starter = session.credentials.privileged() ? 0 : session.credentials.uid();
    const auto owner = whose == Whose::everybodys ? parseNumber(fileNameOf(root)) : std::nullopt;
    return userName(session.config, static_cast<uid_t>(owner.value_or(starter)));
}

/// Sorted by name. Also those that are about to begin.
std::vector<ListedContainer> listedContainers(const Session& session, const std::string& sessionDirectory,
                                              Whose whose) {
    std::vector<ListedContainer> all;
    auto roots = findRuntimeRoots(session.credentials, session.config, environmentOf(sessionDirectory));
    if (whose == Whose::everybodys) {
        for (auto& root : findAllRuntimeRoots(session.credentials)) {
            if (std::find(roots.begin(), roots.end(), root) == roots.end()) {
                roots.push_back(std::move(root));
            }
        }
    }
    for (const auto& root : roots) {
        try {
            auto containers = containersIn(root, ownerOf(session, root, whose));
            std::move(containers.begin(), containers.end(), std::back_inserter(all));
        } catch (Error& error) {
            error.addContext(printable(root));
            if (whose == Whose::callers) {
                throw;
            }
            // One user's damaged directory must not hide the containers of all others.
            logWarn("Runtime", error.what());
        }
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    return all;
}

Error noSuchContainer(const std::string& name) {
    return Error(cat("There is no container with the name '", printable(name), "'"), "See 'sarus ps'");
}

/// For root: the only root of all users' that has the container.
std::optional<std::string> rootOfAnybody(const Session& session, const std::string& name) {
    std::optional<std::string> found;
    for (auto& root : findAllRuntimeRoots(session.credentials)) {
        if (!pathExists(cat(root, '/', name))) {
            continue;
        }
        if (found) {
            throw Error(cat("Several users have a container with the name '", printable(name), "'"),
                        "Run the command as its user: sudo -u USER sarus ...");
        }
        found = std::move(root);
    }
    return found;
}

/// The caller's runtime root that has the container. Leaves the request to a starter without privileges if
/// one of those has it.
template <typename Request>
std::string rootOf(const Session& session, const Request& request) {
    const auto& name = request.name;
    const auto environment = environmentOf(request.sessionDirectory);
    engine::checkContainerName(name);
    auto root = findRuntimeRootOf(name, session.credentials, session.config, environment);
    if (!root || !pathExists(cat(*root, '/', name))) {
        root = rootOfAnybody(session, name);
    }
    if (root) {
        sweepDeadContainers(*root);
    }
    if (!root || !pathExists(cat(*root, '/', name))) {
        if (runsUnprivileged(session, environment, name)) {
            continueWithoutPrivileges(session, request);
        }
        throw noSuchContainer(name);
    }
    return std::move(*root);
}

}  // namespace

int parseSignal(std::string_view signal) {
    if (const auto number = parseNumber(signal);
        number && *number >= 1 && *number < static_cast<std::uint64_t>(NSIG)) {
        return static_cast<int>(*number);
    }
    std::string name(signal);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    if (name.starts_with("SIG")) {
        name.erase(0, 3);
    }
    for (int number = 1; number < NSIG; ++number) {
        if (!name.empty() && name == signalName(number)) {
            return number;
        }
    }
    throw Error(cat("Unknown signal '", printable(signal), "'"), "Name it like SIGTERM, TERM or 15");
}

namespace {

/// Adds those of another list that are not in this one.
void addOthers(std::vector<ListedContainer>& containers, const std::string& list) {
    for (auto& other : parseContainerList(list)) {
        const auto isSame = [&](const ListedContainer& one) {
            return other.pid > 0 && one.pid == other.pid && one.id == other.id;
        };
        if (std::none_of(containers.begin(), containers.end(), isSame)) {
            containers.push_back(std::move(other));
        }
    }
    const auto place = [](const ListedContainer& one) {
        return std::tuple(one.status == stopped, one.id, one.owner);
    };
    std::sort(containers.begin(), containers.end(),
              [&](const auto& a, const auto& b) { return place(a) < place(b); });
}

}  // namespace

std::string listContainers(const Session& session, const engine::ListRequest& request) {
    const bool hasOthers = !request.others.empty();
    if (request.all && !hasOthers && !(session.credentials.privileged() && session.credentials.uid() == 0)) {
        throw Error("Only root can list the containers of all users", "Leave '--all' out to list your own");
    }
    auto containers =
        listedContainers(session, request.sessionDirectory, request.all ? Whose::everybodys : Whose::callers);
    if (const auto storage =
            ContainerStorage::find(session.credentials, session.config, ContainerStorage::Look::full)) {
        storage->removeOfEndedJobs(node::markSlurmJob("", ""));
    }
    if (request.kept) {
        auto idle = idleContainers(session);
        std::move(idle.begin(), idle.end(), std::back_inserter(containers));
    } else {
        std::erase_if(containers, [](const ListedContainer& one) { return one.status == creating; });
    }
    if (hasOthers) {
        addOthers(containers, request.others);
    }
    if (mayRunUnprivileged(session) || (request.kept && mayHaveKeptUnprivileged(session))) {
        auto rest = request;
        rest.others = formatContainerJson(containers);
        continueWithoutPrivileges(session, rest);
    }
    return request.json    ? formatContainerJson(containers)
           : request.brief ? formatBriefTable(containers, std::time(nullptr), request.all,
                                              static_cast<std::size_t>(std::max(request.width, 0)))
                           : formatContainerTable(containers);
}

std::string inspectContainer(const Session& session, const engine::InspectRequest& request) {
    const auto environment = environmentOf(request.sessionDirectory);
    if (const auto root = findRuntimeRootOf(request.name, session.credentials, session.config, environment)) {
        awaitRuntimeState(*root, request.name);
    }
    auto containers = listedContainers(session, request.sessionDirectory, Whose::everybodys);
    const auto hasName = [&](const ListedContainer& entry) { return entry.id == request.name; };
    if (std::none_of(containers.begin(), containers.end(), hasName)) {
        containers = idleContainers(session);
        if (const auto idle = std::find_if(containers.begin(), containers.end(), hasName);
            idle != containers.end()) {
            return request.json ? formatDetailsJson(*idle, std::nullopt) : formatDetails(*idle, std::nullopt);
        }
        if (runsUnprivileged(session, environment, request.name) ||
            wasKeptUnprivileged(session, request.name, {})) {
            continueWithoutPrivileges(session, request);
        }
        throw noSuchContainer(request.name)
            .setHint("'sarus ps' lists the containers, 'sarus images' the images");
    }
    const auto root = rootOf(session, request);
    const auto found = std::find_if(containers.begin(), containers.end(), [&](const ListedContainer& entry) {
        return hasName(entry) && entry.runtimeRoot == root;
    });
    if (found == containers.end()) {
        throw noSuchContainer(request.name);  // it has ended meanwhile
    }
    const auto record = readRecord(root, request.name);
    return request.json ? formatDetailsJson(*found, record) : formatDetails(*found, record);
}

namespace {

/// A container that is held open for the tasks of a job step ignores all signals that can be ignored, because
/// Slurm sends them to all processes of the step. Those that end programs are meant to end it.
int signalFor(const std::string& root, const std::string& name, int number) {
    constexpr std::array ending{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    constexpr std::array hold{std::string_view(hook_contracts::enterProgram),
                              std::string_view(hook_contracts::holdOption)};
    if (std::find(ending.begin(), ending.end(), number) == ending.end()) {
        return number;
    }
    const auto record = readRecord(root, name);
    const auto command = record ? record->command : std::vector<std::string>();
    const auto behindInit = !command.empty() && command.front() == hook_contracts::initProgram ? 2U : 0U;
    const bool isHeld = command.size() >= behindInit + hold.size() &&
                        std::equal(hold.begin(), hold.end(), command.begin() + behindInit);
    return isHeld ? SIGKILL : number;
}

}  // namespace

void killContainer(const Session& session, const engine::KillRequest& request) {
    const auto& name = request.name;
    const int wanted = parseSignal(request.signal);
    const auto root = rootOf(session, request);
    awaitRuntimeState(root, name);
    const int number = signalFor(root, name, wanted);
    const auto runtime = findRuntime(session.config.runcPath);
    const auto output = runAndCapture({.path = runtime.path,
                                       .args = {runtime.kind == engine::OciRuntime::crun ? "crun" : "runc",
                                                "--root", root, "kill", name, cat(number)},
                                       .environment = std::vector<std::string>{runtimePath},
                                       .ignoredSignals = IgnoredSignals::reset});
    if (!output.status.ok() && hasEnded(root, name)) {
        throw Error(cat("The container '", printable(name), "' has ended"), "See 'sarus ps'");
    }
    if (!output.status.ok()) {
        const auto said = printable(trim(output.err));
        throw Error(cat("Failed to send a signal to the container '", printable(name), "'",
                        said.empty() ? "" : ": ", said));
    }
}

namespace {

node::SlurmJobMark jobOf(const engine::RemoveRequest& request) {
    return node::markSlurmJob(request.job, "");
}

bool isUnprivileged(const Session& session, const std::optional<ContainerStorage>& storage,
                    const std::string& name, const node::SlurmJobMark& job) {
    engine::checkContainerName(name);
    return !(storage && storage->find(name, job)) && wasKeptUnprivileged(session, name, job);
}

constexpr int whileItEnds = 10'000;  // milliseconds

/// Ends it first. It may be about to start or to end: there is no program to kill then.
bool removeByForce(const Session& session, const engine::RemoveRequest& request,
                   const ContainerStorage& storage, const ContainerStorage::Entry& entry) {
    constexpr int untilTheNext = 500;
    std::optional<Error> failure;
    for (int waited = 0; waited < whileItEnds; waited += untilTheNext) {
        try {
            failure.reset();
            killContainer(session, {.sessionDirectory = request.sessionDirectory,
                                    .name = entry.container.name,
                                    .signal = "SIGKILL"});
        } catch (const Error& error) {
            failure = error;
        }
        if (storage.remove(entry, untilTheNext)) {
            return true;
        }
    }
    if (failure) {
        throw *failure;
    }
    return false;
}

/// Ends it first if it runs and the request says so. False if it runs. Throws Error.
bool endAndRemove(const Session& session, const engine::RemoveRequest& request,
                  const ContainerStorage& storage, const ContainerStorage::Entry& entry) {
    if (request.force && entry.isRunning) {
        return removeByForce(session, request, storage, entry);
    }
    const int patience = request.force     ? whileItEnds
                         : request.allIdle ? 0
                                           : ContainerStorage::whileOthersList;
    return storage.remove(entry, patience);
}

void removeContainer(const Session& session, const engine::RemoveRequest& request,
                     const std::optional<ContainerStorage>& storage, const std::string& name) {
    const auto entry = storage ? storage->find(name, jobOf(request)) : std::nullopt;
    if (!entry) {
        throw Error(cat("No container with the name '", name, "' was kept"),
                    "'sarus ps --all' lists them; 'sarus rmi' removes images");
    }
    if (!endAndRemove(session, request, *storage, *entry)) {
        throw Error(cat("The container '", name, "' is running"), "End it with 'sarus kill', or use --force");
    }
}

}  // namespace

Removal removeContainers(const Session& session, const engine::RemoveRequest& request) {
    const auto storage =
        ContainerStorage::find(session.credentials, session.config, ContainerStorage::Look::full);
    Removal result{.names = request.removed, .complete = !request.hasFailed};
    auto rest = request;
    rest.names.clear();
    if (storage && request.allIdle) {
        for (const auto& entry : storage->list()) {
            const bool isMeant = request.onlyJob.empty() || entry.container.job.id == request.onlyJob;
            try {
                if (isMeant && endAndRemove(session, request, *storage, entry)) {
                    result.names += cat(entry.container.name, '\n');
                }
            } catch (const Error& error) {
                printError(error);
                result.complete = false;
            }
        }
    }
    if (storage && request.ofEndedJobs) {
        for (const auto& name : storage->removeOfEndedJobs(jobOf(request))) {
            result.names += cat(name, '\n');
        }
    }
    for (const auto& name : request.names) {
        try {
            if (isUnprivileged(session, storage, name, jobOf(request))) {
                rest.names.push_back(name);
                continue;
            }
            removeContainer(session, request, storage, name);
            result.names += cat(name, '\n');
        } catch (const Error& error) {
            printError(error);
            result.complete = false;
        }
    }
    const bool isForAll = request.allIdle || request.ofEndedJobs;
    if (!rest.names.empty() || (isForAll && mayHaveKeptUnprivileged(session))) {
        rest.removed = result.names;
        rest.hasFailed = !result.complete;
        continueWithoutPrivileges(session, rest);
    }
    return result;
}

}  // namespace sarus::starter
