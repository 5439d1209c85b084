#include "starter/runtime/runtime.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdlib>

#include "base/begin_process.hpp"
#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/mounts.hpp"
#include "base/pipe.hpp"
#include "base/private_directory.hpp"
#include "base/process_tree.hpp"
#include "base/text.hpp"
#include "starter/runtime/stream_owners.hpp"

namespace sarus::starter {

namespace {

constexpr const char* privilegedBase = "/run/sarus";
constexpr const char* runtimeSearchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// crun re-executes itself from a read-only mount, to prevent a root container from overwriting it through
/// /proc/PID/exe. It skips this if it already runs from such a mount and finds this variable. Doing it here
/// saves the second exec.
constexpr const char* startedReadOnly = "_LIBCONTAINER_CLONED_BINARY=1";

/// The descriptor with the description of a process that joins a container: the next one after those that the
/// runtime passes on.
int execProcessNumber(const RuntimeInvocation& invocation) {
    return 3 + static_cast<int>(invocation.descriptors.size());
}

std::optional<std::string> valueOf(const std::vector<std::string>& environment, std::string_view name) {
    for (const auto& entry : environment) {
        if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
            return entry.substr(name.size() + 1);
        }
    }
    return std::nullopt;
}

/// $XDG_RUNTIME_DIR/sarus, if that variable names a directory of the caller's.
std::optional<OwnDirectory> sessionDirectory(const Credentials& credentials,
                                             const std::vector<std::string>& environment) {
    const auto base = valueOf(environment, "XDG_RUNTIME_DIR");
    if (!base || !base->starts_with('/') || base->find('\0') != std::string::npos) {
        return std::nullopt;
    }
    try {
        const auto parent = openFile(*base, O_PATH | O_DIRECTORY);
        verifyPrivate(parent.get(), *base, credentials.ownerUid(), 022);
        const std::string path = cat(*base, "/sarus");
        return OwnDirectory{makePrivateDirectory(parent.get(), "sarus", path, 0700, credentials.ownerUid()),
                            path};
    } catch (const Error&) {
        return std::nullopt;  // the variable often names the directory of a login session that has ended
    }
}

OwnDirectory fixedDirectory(const Credentials& credentials, const engine::SiteConfig& config) {
    return makeOwnDirectory(config.tempDir, cat("sarus-", credentials.uid()), credentials.ownerUid());
}

constexpr const char* sessionsName = "sessions";

/// Links a session's directory from the fixed one, so that it is found without the session's environment. A
/// failure affects only `ps` and similar commands.
void noteSession(const Credentials& credentials, const engine::SiteConfig& config, const std::string& path) {
    auto name = path;
    std::replace(name.begin(), name.end(), '/', '+');
    try {
        const auto fixed = fixedDirectory(credentials, config);
        const auto sessions = makePrivateDirectory(
            fixed.fd.get(), sessionsName, cat(fixed.path, '/', sessionsName), 0700, credentials.ownerUid());
        if (::symlinkat(path.c_str(), sessions.get(), name.c_str()) != 0 && errno != EEXIST) {
            throwErrno(cat("Failed to note ", printable(path)));
        }
    } catch (const Error& error) {
        logInfo("Runtime", cat("Containers can be listed in this session alone: ", error.what()));
    }
}

/// The session directories that still exist. Removes links to others.
std::vector<std::string> notedSessions(const Credentials& credentials, const OwnDirectory& fixed) {
    Directory list(fixed.fd.get(), sessionsName, cat(fixed.path, '/', sessionsName), Missing::isEmpty);
    std::vector<std::string> paths;
    while (const char* name = list.next()) {
        std::string target(PATH_MAX, '\0');
        const auto size = ::readlinkat(list.fd(), name, target.data(), target.size());
        if (size <= 0) {
            continue;
        }
        target.resize(static_cast<std::size_t>(size));
        const UniqueFd directory(::open(target.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        struct stat status {};
        if (!directory || ::fstat(directory.get(), &status) != 0 || status.st_uid != credentials.ownerUid() ||
            (status.st_mode & 077) != 0) {
            ::unlinkat(list.fd(), name, 0);
            continue;
        }
        paths.push_back(std::move(target));
    }
    return paths;
}

StateDirectories rootlessDirectories(const Credentials& credentials, const engine::SiteConfig& config,
                                     const std::vector<std::string>& environment) {
    auto base = sessionDirectory(credentials, environment);
    if (base) {
        noteSession(credentials, config, base->path);
    } else {
        base = fixedDirectory(credentials, config);
    }
    StateDirectories directories{.runtimeRoot = cat(base->path, "/state"),
                                 .bundleDir = cat(base->path, "/bundle")};
    makePrivateDirectory(base->fd.get(), "state", directories.runtimeRoot, 0700, credentials.ownerUid());
    makePrivateDirectory(base->fd.get(), "bundle", directories.bundleDir, 0700, credentials.ownerUid());
    return directories;
}

/// The child of the fork: only system calls on prepared data. It runs in the memory of the waiting parent.
class RuntimeChild {
public:
    RuntimeChild(const RuntimeInvocation& theInvocation, std::vector<std::string>& arguments, pid_t parentPid)
        : invocation(theInvocation), parent(parentPid) {
        for (auto& argument : arguments) {
            argv.push_back(argument.data());
        }
        argv.push_back(nullptr);
        // Sources lie above every target, so none is overwritten before it is copied.
        const int free = execProcessNumber(invocation) + 1;
        if (invocation.execProcess >= 0) {  // the file needs a number that survives exec
            sources.emplace_back(checkErrno(::fcntl(invocation.execProcess, F_DUPFD_CLOEXEC, free),
                                            "Failed to keep the description of the process"));
            targets.push_back(execProcessNumber(invocation));
        }
        for (const auto& descriptor : invocation.descriptors) {
            sources.emplace_back(checkErrno(::fcntl(descriptor.from, F_DUPFD_CLOEXEC, free),
                                            cat("Failed to keep descriptor ", descriptor.from)));
            targets.push_back(descriptor.to);
        }
        const bool background = !invocation.terminal && isInBackground(STDIN_FILENO);
        const auto null = background ? openFile("/dev/null", O_RDONLY) : UniqueFd();
        auto streams = invocation.streams;
        if (background) {
            streams[STDIN_FILENO] = null.get();
        }
        for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
            if (const int source = streams.at(static_cast<std::size_t>(stream)); source != stream) {
                sources.emplace_back(checkErrno(::fcntl(source, F_DUPFD_CLOEXEC, free),
                                                "Failed to keep a stream of the runtime"));
                targets.push_back(stream);
            }
        }
        auto [reader, writer] = makePipe();
        failureReader = std::move(reader);
        failureWriter.reset(
            checkErrno(::fcntl(writer.get(), F_DUPFD_CLOEXEC, free), "Failed to duplicate a pipe"));
        if (invocation.program.kind == engine::OciRuntime::crun) {
            const auto tree = cloneReadOnly(openFile(invocation.program.path, O_PATH).get());
            program.reset(tree ? ::fcntl(tree.get(), F_DUPFD_CLOEXEC, free) : -1);
        }
    }

    /// Starts the process. Returns once it has executed the runtime or failed.
    pid_t start() {
        constexpr std::size_t stackSize = 256U << 10U;
        const std::unique_ptr<std::byte[]> stack(new std::byte[stackSize]);
        const auto main = [](void* self) -> int { static_cast<RuntimeChild*>(self)->run(); };
        return checkErrno(::clone(main, stack.get() + stackSize, CLONE_VM | CLONE_VFORK | SIGCHLD, this),
                          "Failed to create a process for the OCI runtime");
    }

    /// In the parent: 0, or the errno with which the process failed before or in execve.
    int waitForExec() {
        failureWriter.reset();
        int error = 0;
        ssize_t count = 0;
        while ((count = ::read(failureReader.get(), &error, sizeof error)) < 0 && errno == EINTR) {
        }
        return count == sizeof error ? error : 0;
    }

private:
    [[noreturn]] void run() {
        if (invocation.execProcess < 0) {  // otherwise the janitor ends it (janitor.cpp)
            ::prctl(PR_SET_PDEATHSIG, SIGHUP);
        }
        // Everything that the container's program leaves behind stays below the runtime; `runc exec` does not
        // ensure that.
        ::prctl(PR_SET_CHILD_SUBREAPER, 1);
        if (invocation.janitor >= 0) {
            const Process self(::getpid());  // allocates, which is safe: the only thread of the parent waits
            if (::write(invocation.janitor, &self, sizeof self) != sizeof self) {
                fail();
            }
        }
        if (::getppid() != parent) {  // from here on the janitor ends it if the parent is gone
            ::_exit(1);
        }
        ::setsid();
        for (const int cgroup : invocation.cgroups) {
            if (::write(cgroup, "0", 1) != 1) {
                fail();
            }
        }
        for (std::size_t i = 0; i < sources.size(); ++i) {
            if (::dup2(sources[i].get(), targets[i]) < 0) {
                fail();
            }
        }
        resetSignalActions(IgnoredSignals::reset);  // sarus-enter ignores those of the caller again
        unblockSignals();
        if (invocation.terminal || !streamsAreOwnPipes(invocation.uid, invocation.gid)) {
            if (const int error = keepStreamOwners(); error != 0) {
                errno = error;
                fail();
            }
        }
        // execve does not modify the environment
        std::array<char*, 3> environment{const_cast<char*>(runtimeSearchPath),
                                         const_cast<char*>(startedReadOnly), nullptr};
        if (program) {
            ::syscall(SYS_execveat, program.get(), "", argv.data(), environment.data(), AT_EMPTY_PATH);
        }
        environment[1] = nullptr;
        ::execve(invocation.program.path.c_str(), argv.data(), environment.data());
        fail();
    }

    [[noreturn]] void fail() {
        const int error = errno;
        [[maybe_unused]] const auto written = ::write(failureWriter.get(), &error, sizeof error);
        ::_exit(1);
    }

    const RuntimeInvocation& invocation;
    pid_t parent;
    std::vector<char*> argv;
    std::vector<UniqueFd> sources;
    std::vector<int> targets;
    UniqueFd failureReader;
    UniqueFd failureWriter;
    UniqueFd program;  ///< the runtime through a read-only mount, or empty
};

}  // namespace

RuntimeProgram findRuntime(const std::string& runcPath, PathChecker* verified) {
    std::string real(PATH_MAX, '\0');
    const auto checked = verified != nullptr ? verified->check(runcPath) : std::nullopt;
    if (checked) {
        real = checked->realPath;
    } else if (::realpath(runcPath.c_str(), real.data()) != nullptr) {
        real.resize(real.find('\0'));
    } else {
        throw Error::fromErrno(cat("Failed to find the OCI runtime ", printable(runcPath)), errno,
                               "Install the package crun or runc, or correct `runcPath` in sarus.json")
            .setId("oci-runtime-missing");
    }
    const bool isCrun = real.find("crun", real.rfind('/')) != std::string::npos;
    return {.path = real, .kind = isCrun ? engine::OciRuntime::crun : engine::OciRuntime::runc};
}

StateDirectories prepareStateDirectories(const Credentials& credentials, const engine::SiteConfig& config,
                                         const std::vector<std::string>& callerEnvironment) {
    if (!credentials.privileged()) {
        return rootlessDirectories(credentials, config, callerEnvironment);
    }
    const auto run = openFile("/run", O_PATH | O_DIRECTORY);
    const auto base = makePrivateDirectory(run.get(), "sarus", privilegedBase, 0755, 0);
    const std::string path = cat(privilegedBase, '/', credentials.uid());
    makePrivateDirectory(base.get(), cat(credentials.uid()), path, 0700, 0);
    return {.runtimeRoot = path, .bundleDir = config.ociBundleDir};
}

void removeCrunsCache(const std::string& runtimeRoot) noexcept try {
    constexpr std::string_view cache = ".cache";
    Directory entries(runtimeRoot, Missing::isEmpty);
    while (const char* name = entries.next()) {
        if (name != cache) {
            return;
        }
    }
    removeTree(cat(runtimeRoot, '/', cache));
} catch (const std::exception& error) {
    logDebug("Runtime", error.what());  // it is small; the next container tries again
}

void removeEmptyRuntimeRoots() noexcept try {
    Directory entries(privilegedBase, Missing::isEmpty);
    while (const char* name = entries.next()) {
        // The one that is no number holds the hints of loop devices.
        if (parseNumber(name) && ::unlinkat(entries.fd(), name, AT_REMOVEDIR) != 0 && errno == ENOTEMPTY) {
            removeCrunsCache(cat(privilegedBase, '/', name));
            ::unlinkat(entries.fd(), name, AT_REMOVEDIR);
        }
    }
} catch (const std::exception& error) {
    logDebug("Runtime", error.what());  // only empty directories stay; the next container tries again
}

std::string prepareNamespacesDirectory(const Credentials& credentials, const engine::SiteConfig& config,
                                       const StateDirectories& directories) {
    if (credentials.privileged()) {
        return {};
    }
    const auto make = [&](const OwnDirectory& base) {
        auto path = cat(base.path, "/namespaces");
        makePrivateDirectory(base.fd.get(), "namespaces", path, 0700, credentials.ownerUid());
        return path;
    };
    try {
        return make(fixedDirectory(credentials, config));
    } catch (const Error& error) {
        logDebug("Runtime", error.what());
    }
    try {
        const auto base = directories.runtimeRoot.substr(0, directories.runtimeRoot.rfind('/'));
        return make({openFile(base, O_PATH | O_DIRECTORY), base});
    } catch (const Error& error) {
        logDebug("Runtime", error.what());
        return {};
    }
}

std::vector<std::string> findRuntimeRoots(const Credentials& credentials, const engine::SiteConfig& config,
                                          const std::vector<std::string>& callerEnvironment) {
    std::vector<std::string> roots{
        prepareStateDirectories(credentials, config, callerEnvironment).runtimeRoot};
    if (credentials.privileged()) {
        return roots;
    }
    try {
        const auto fixed = fixedDirectory(credentials, config);
        auto bases = notedSessions(credentials, fixed);
        bases.push_back(fixed.path);
        for (const auto& base : bases) {
            auto root = cat(base, "/state");
            if (isDirectory(root) && std::find(roots.begin(), roots.end(), root) == roots.end()) {
                roots.push_back(std::move(root));
            }
        }
    } catch (const Error& error) {
        logInfo("Runtime", cat("Containers of other sessions are not looked for: ", error.what()));
    }
    return roots;
}

std::vector<std::string> findAllRuntimeRoots(const Credentials& credentials) {
    std::vector<std::string> roots;
    if (!credentials.privileged() || credentials.uid() != 0) {
        return roots;
    }
    Directory list(AT_FDCWD, privilegedBase, privilegedBase, Missing::isEmpty);
    while (const char* name = list.next()) {
        if (parseNumber(name)) {
            roots.push_back(cat(privilegedBase, '/', name));
        }
    }
    return roots;
}

std::optional<std::string> findRuntimeRootOf(const std::string& containerName, const Credentials& credentials,
                                             const engine::SiteConfig& config,
                                             const std::vector<std::string>& callerEnvironment) {
    const auto roots = findRuntimeRoots(credentials, config, callerEnvironment);
    const auto found = std::find_if(roots.begin(), roots.end(), [&](const auto& root) {
        return pathExists(cat(root, '/', containerName));
    });
    return found == roots.end() ? std::nullopt : std::optional(*found);
}

std::string runtimeLogPath(const std::string& bundleDir) {
    return cat(bundleDir, "/runtime.log");
}

std::vector<std::string> runtimeArguments(const RuntimeInvocation& invocation) {
    const bool crun = invocation.program.kind == engine::OciRuntime::crun;
    std::vector<std::string> arguments{crun ? "crun" : "runc", "--root", invocation.runtimeRoot};
    if (crun) {
        arguments.emplace_back("--cgroup-manager=disabled");
    }
    if (invocation.deviceRulesByHook) {
        arguments.emplace_back("--rootless=true");  // no other effect for root on version 1
    }
    if (invocation.keepLog) {
        arguments.emplace_back("--log");  // errors still reach the user's stderr
        arguments.emplace_back(runtimeLogPath(invocation.bundleDir));
    }
    arguments.emplace_back(invocation.execProcess >= 0 ? "exec" : "run");
    if (!invocation.pidFile.empty()) {
        arguments.insert(arguments.end(), {"--pid-file", invocation.pidFile});
    }
    if (!invocation.consoleSocket.empty()) {
        arguments.insert(arguments.end(), {"--console-socket", invocation.consoleSocket});
    }
    if (invocation.execProcess >= 0) {
        arguments.insert(arguments.end(),
                         {"--process", cat("/proc/self/fd/", execProcessNumber(invocation))});
    } else {
        // The payload keeps the job's session keyring (Kerberos tickets); with many ranks keys are scarce.
        arguments.insert(arguments.end(), {"--no-new-keyring", "--bundle", invocation.bundleDir});
    }
    if (!invocation.descriptors.empty()) {
        arguments.emplace_back(cat("--preserve-fds=", invocation.descriptors.size()));
    }
    arguments.emplace_back(invocation.containerName);
    return arguments;
}

bool isInBackground(int terminal) noexcept {
    const pid_t foreground = ::tcgetpgrp(terminal);
    return foreground >= 0 && foreground != ::getpgrp();
}

Child startRuntime(const RuntimeInvocation& invocation) {
    int next = 3;
    for (const auto& descriptor : invocation.descriptors) {
        if (descriptor.to != next++) {
            throw Error(cat("Descriptor ", descriptor.to, " of the container is not the next free one"));
        }
    }
    auto arguments = runtimeArguments(invocation);
    if (logLevel() == LogLevel::debug) {
        logDebug("Runtime", cat("Executing ", printable(invocation.program.path), " as ",
                                printable(join(arguments, " "))));
    }
    RuntimeChild process(invocation, arguments, ::getpid());
    Child child(process.start());
    if (const int error = process.waitForExec(); error != 0) {
        child.wait();
        throw Error::fromErrno(cat("Failed to execute the OCI runtime ", printable(invocation.program.path)),
                               error);
    }
    return child;
}

}  // namespace sarus::starter
