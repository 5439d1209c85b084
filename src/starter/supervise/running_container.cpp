#include "starter/supervise/running_container.hpp"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <optional>
#include <utility>
#include <vector>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/pipe.hpp"
#include "base/text.hpp"
#include "oci/json/json_node.hpp"
#include "starter/entry/entry.hpp"
#include "starter/namespaces/user_namespace.hpp"
#include "starter/supervise/read_back.hpp"

namespace sarus::starter {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t largestState = 64U << 20U;

struct StateKeys {
    const char* file;
    const char* pid;
    const char* started;
};

StateKeys keysOf(engine::OciRuntime runtime) {
    return runtime == engine::OciRuntime::crun
               ? StateKeys{"status", "pid", "process-start-time"}
               : StateKeys{"state.json", "init_process_pid", "init_process_start"};
}

Json parseState(std::string_view text, const StateKeys& keys) {
    auto state = oci::parseJson<Json>(text, "the OCI runtime's state of the container");
    for (const char* key : {keys.pid, keys.started}) {
        if (!state.is_object() || !state.contains(key) || !state[key].is_number_unsigned()) {
            throw Error(cat("The OCI runtime's state of the container has no number '", key, "'"),
                        "This version of the runtime keeps its state in a form that is not known here");
        }
    }
    return state;
}

std::string textOf(const Json& state, const char* key) {
    const auto found = state.find(key);
    return found != state.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// crun has a key for it, runc a label.
std::string bundleOf(const Json& state) {
    constexpr std::string_view label = "bundle=";
    const auto config = state.find("config");
    const auto labels =
        config == state.end() || !config->is_object() ? Json() : config->value("labels", Json());
    for (const auto& word : labels) {
        if (word.is_string() && word.get_ref<const std::string&>().starts_with(label)) {
            return word.get_ref<const std::string&>().substr(label.size());
        }
    }
    return textOf(state, "bundle");
}

std::string readProcessFile(int directory, const std::string& name) {
    return readAll(openFileAt(directory, name, O_RDONLY).get(), 1U << 20U, name);
}

void copyStateFiles(const std::string& from, const std::string& to, const std::string& except) {
    Directory entries(from, Missing::isError);
    while (const char* name = entries.next()) {
        struct stat status {};
        if (name == except || ::fstatat(entries.fd(), name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode)) {
            continue;
        }
        const auto target = openFile(cat(to, '/', name), O_WRONLY | O_CREAT | O_EXCL, 0600);
        writeAll(target.get(), readFile(cat(from, '/', name), largestState), printable(to));
    }
}

/// The anchor's report to its starter: 0 and its pid, or an errno.
struct AnchorMessage {
    int error = 0;
    pid_t pid = 0;
};

struct AnchorNamespaces {
    int user = -1;  ///< rootless only
    int mount = -1;
    int pid = -1;
    const std::vector<UniqueFd>& others;
};

bool join(int namespaceFd, int kind) {
    return namespaceFd < 0 || ::setns(namespaceFd, kind) == 0;
}

[[noreturn]] void report(int channel, int error, pid_t pid) {
    const AnchorMessage message{error, pid};
    [[maybe_unused]] const auto written = ::write(channel, &message, sizeof message);
    ::_exit(error == 0 ? 0 : 1);
}

/// The body of the anchor. A process enters a pid namespace through a child, and waits for it.
[[noreturn]] void runAnchor(const AnchorNamespaces& namespaces, int channel, pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    auto inherited = openDescriptors();
    const auto joinAny = [](const UniqueFd& other) { return join(other.get(), 0); };
    if (::getppid() != parent || !join(namespaces.user, CLONE_NEWUSER) ||
        !std::all_of(namespaces.others.begin(), namespaces.others.end(), joinAny) ||
        !join(namespaces.pid, CLONE_NEWPID) || !join(namespaces.mount, CLONE_NEWNS)) {
        report(channel, errno, 0);
    }
    // Only root may inspect it. A rootless anchor belongs to the user anyway, like everything else, and the
    // runtime has only the user's rights.
    if (::prctl(PR_SET_DUMPABLE, namespaces.user < 0 ? 0 : 1, 0, 0, 0) != 0) {
        report(channel, errno, 0);
    }
    std::erase(inherited, channel);
    for (const int fd : inherited) {  // including the standard streams: nobody may wait for the anchor to end
        ::close(fd);
    }
    const pid_t self = ::getpid();
    const pid_t child = namespaces.pid < 0 ? 0 : ::fork();
    if (child < 0) {
        report(channel, errno, 0);
    }
    if (child == 0 && namespaces.pid >= 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        for (;;) {
            ::pause();
        }
    }
    const AnchorMessage message{0, child > 0 ? child : self};
    [[maybe_unused]] const auto written = ::write(channel, &message, sizeof message);
    ::close(channel);
    while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    if (child == 0) {
        for (;;) {
            ::pause();
        }
    }
    ::_exit(0);
}

}  // namespace

bool isPayload(std::string_view status, uid_t user) {
    return statusFields(status, "NoNewPrivs") == "1" &&
           statusFields(status, "Uid") == cat(user, ' ', user, ' ', user, ' ', user);
}

RuntimeState parseRuntimeState(std::string_view json, engine::OciRuntime runtime) {
    const auto keys = keysOf(runtime);
    const auto state = parseState(json, keys);
    const auto pid = state[keys.pid].get<std::uint64_t>();
    if (pid == 0 || pid > INT_MAX) {
        throw Error("The OCI runtime's state of the container names no process");
    }
    RuntimeState result{.pid = static_cast<pid_t>(pid), .started = state[keys.started].get<std::uint64_t>()};
    result.bundle = bundleOf(state);
    result.created = textOf(state, "created");
    if (const auto cgroups = state.find("cgroup_paths");
        cgroups != state.end() && cgroups->is_object()) {  // only runc writes them
        for (const auto& [controller, path] : cgroups->items()) {
            if (path.is_string()) {
                result.cgroups.push_back(path.get<std::string>());
            }
        }
    }
    return result;
}

std::string runtimeStateFile(engine::OciRuntime runtime, const std::string& runtimeRoot,
                             const std::string& containerName) {
    return cat(runtimeRoot, '/', containerName, '/', keysOf(runtime).file);
}

std::string withOtherProcess(std::string_view json, engine::OciRuntime runtime, pid_t pid,
                             std::uint64_t started, bool keepCgroups) {
    const auto keys = keysOf(runtime);
    auto state = parseState(json, keys);
    state[keys.pid] = pid;
    state[keys.started] = started;
    if (state.contains("namespace_paths") && state["namespace_paths"].is_object()) {
        for (auto& [kind, path] : state["namespace_paths"].items()) {
            if (path.is_string()) {
                const auto text = path.get<std::string>();
                const auto name = text.rfind('/');
                path = cat("/proc/", pid, "/ns", name == std::string::npos ? "/none" : text.substr(name));
            }
        }
    }
    if (keepCgroups && state.contains("cgroup_paths")) {
        state["cgroup_paths"] = Json::object();
    }
    return state.dump();
}

std::optional<RunningContainer> RunningContainer::open(const Credentials& credentials,
                                                       engine::OciRuntime runtime,
                                                       const std::string& runtimeRoot,
                                                       const std::string& containerName) {
    const auto stateFile = runtimeStateFile(runtime, runtimeRoot, containerName);
    if (!pathExists(stateFile)) {
        return std::nullopt;
    }
    const auto state = parseRuntimeState(readFile(stateFile, largestState), runtime);
    RunningContainer container(Process(state.pid), runtime, containerName);
    const UniqueFd directory(::open(cat("/proc/", state.pid).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    // In this order: the directory then belongs to the process that still runs after the open.
    if (!directory || container.first.started() != state.started || !container.first.isRunning()) {
        return std::nullopt;
    }
    try {
        if (!isPayload(readProcessFile(directory.get(), "status"), credentials.uid())) {
            return std::nullopt;
        }
        container.cgroupText = readProcessFile(directory.get(), "cgroup");
        container.openNamespaces(credentials.privileged(), directory.get());
    } catch (const Error&) {
        if (!container.first.isRunning()) {
            return std::nullopt;
        }
        throw;
    }
    return container;
}

void RunningContainer::checkOwner(int namespaceFd, int owner) const {
    if (!sameNamespace(relatedNamespace(namespaceFd, NS_GET_USERNS).get(), owner)) {
        throw Error(cat("The first process of the container '", printable(name),
                        "' has moved to namespaces of its own"),
                    "A command can be run only in the namespaces that the container was started with");
    }
}

void RunningContainer::openNamespaces(bool privileged, int processDirectory) {
    const auto own = openFile("/proc/self/ns/user", O_RDONLY);
    mountNamespace = openFileAt(processDirectory, "ns/mnt", O_RDONLY);
    auto pids = openFileAt(processDirectory, "ns/pid", O_RDONLY);
    const bool privatePids = !sameNamespace(pids.get(), openFile("/proc/self/ns/pid", O_RDONLY).get());
    if (privileged) {
        checkOwner(mountNamespace.get(), own.get());
        if (privatePids) {
            checkOwner(pids.get(), own.get());
        }
    } else {
        constexpr int deepest = 32;  // the kernel's nesting limit
        starterNamespace = openFileAt(processDirectory, "ns/user", O_RDONLY);
        for (int depth = 0; depth < deepest; ++depth) {
            auto parent = relatedNamespace(starterNamespace.get(), NS_GET_PARENT);
            if (sameNamespace(parent.get(), own.get())) {
                break;
            }
            programNamespace =
                std::exchange(userNamespace, std::exchange(starterNamespace, std::move(parent)));
        }
        if (!userNamespace) {
            throw Error(cat("The first process of the container '", printable(name),
                            "' is not in a user namespace of its own"));
        }
        checkOwner(mountNamespace.get(), userNamespace.get());
        if (privatePids) {
            checkOwner(pids.get(), userNamespace.get());
        }
    }
    if (privatePids) {
        pidNamespace = std::move(pids);
    }
    for (const char* kind : {"net", "ipc", "uts"}) {
        auto other = openFileAt(processDirectory, cat("ns/", kind), O_RDONLY);
        if (!sameNamespace(other.get(), openFile(cat("/proc/self/ns/", kind), O_RDONLY).get())) {
            checkOwner(other.get(), privileged ? own.get() : userNamespace.get());
            otherNamespaces.push_back(std::move(other));
        }
    }
}

void RunningContainer::enterStarterNamespaces(Credentials& credentials) const {
    if (starterNamespace) {
        checkErrno(::setns(starterNamespace.get(), CLONE_NEWUSER),
                   "Failed to enter the user namespace of the container's starter");
        credentials.enteredUserNamespace();
    }
    checkErrno(::unshare(CLONE_NEWNS), "Failed to create a mount namespace");
    checkErrno(::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr),
               "Failed to detach the mount namespace from the host's");
}

Child RunningContainer::anchor(const std::string& runtimeRoot, const std::string& directory,
                               bool keepCgroups) const {
    auto [reader, writer] = makePipe();
    const pid_t parent = ::getpid();
    Child child(checkErrno(::fork(), "Failed to create a process in the container"));
    if (child.pid() == 0) {
        runAnchor({.user = userNamespace.get(),
                   .mount = mountNamespace.get(),
                   .pid = pidNamespace.get(),
                   .others = otherNamespaces},
                  writer.get(), parent);
    }
    writer.reset();
    AnchorMessage message;
    ssize_t count = 0;
    while ((count = ::read(reader.get(), &message, sizeof message)) < 0 && errno == EINTR) {
    }
    if (count != sizeof message || message.error != 0) {
        throw Error::fromErrno(cat("Failed to enter the container '", printable(name), "'"),
                               count == sizeof message ? message.error : ESRCH);
    }
    const Process process(message.pid);
    const auto keys = keysOf(runtime);
    const auto source = cat(runtimeRoot, '/', name);
    const auto target = cat(directory, '/', name);
    checkErrno(::mkdir(target.c_str(), 0700), cat("Failed to create ", printable(target)));
    copyStateFiles(source, target, keys.file);
    const auto state = readFile(cat(source, '/', keys.file), largestState);
    const auto file = openFile(cat(target, '/', keys.file), O_WRONLY | O_CREAT | O_EXCL, 0600);
    writeAll(file.get(), withOtherProcess(state, runtime, process.pid(), process.started(), keepCgroups),
             printable(target));
    return child;
}

}  // namespace sarus::starter
