#include "hooks/ssh/daemon.hpp"

#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "base/begin_process.hpp"
#include "base/capabilities.hpp"
#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/pipe.hpp"
#include "base/process_tree.hpp"
#include "base/read_bytes.hpp"
#include "base/received_message.hpp"
#include "base/same_file.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "hook_contracts/enter_call.hpp"
#include "hooks/kit/container_cgroups.hpp"
#include "hooks/kit/container_namespaces.hpp"
#include "hooks/ssh/container_files.hpp"
#include "oci/runtime/rlimits.hpp"

namespace sarus::hooks::ssh {

namespace {

UniqueFd openUserNamespace(pid_t pid) {
    auto theirs = openFile(cat("/proc/", pid, "/ns/user"), O_RDONLY);
    const auto ours = openFile("/proc/self/ns/user", O_RDONLY);
    return isSameFile(statusOf(theirs.get(), "a namespace"), statusOf(ours.get(), "a namespace"))
               ? UniqueFd()
               : std::move(theirs);
}

bool isReachable(pid_t pid) {
    return pid > 1 && procIsOurs();
}

/// The container's first process; 0 if it is unknown. crun reports none to a createContainer hook, but starts
/// the hook from it: it is the nearest ancestor that has executed nothing yet, but for the child of this hook
/// that works.
pid_t firstProcess(pid_t reported) {
    if (reported != 0 || !procIsOurs()) {
        return isReachable(reported) ? reported : 0;
    }
    const auto program = [](const std::string& process) {
        struct stat status {};
        ::stat(cat("/proc/", process, "/exe").c_str(), &status);
        return status;
    };
    pid_t pid = ::getppid();
    while (pid > 1 && (isSameFile(program(cat(pid)), program("self")) ||
                       hasExecutedProgram(Process(pid).read("stat")))) {
        pid = Process(pid).parent();
    }
    return pid;
}

bool isFirstOfItsNamespace(const Process& process) {
    const auto status = process.read("status");
    const auto key = status.find("NSpid:");  // proc(5): the numbers in all namespaces, the innermost one last
    const auto numbers = splitWords(std::string_view(status).substr(0, status.find('\n', key)));
    return key != std::string::npos && numbers.back() == "1";
}

/// The file "stat" in /proc of the container's first process (0: not found by firstProcess()); empty if there
/// is none. A createContainer hook can be in the container's pid namespace while /proc is still that of the
/// node.
UniqueFd openState(pid_t first) {
    if (first == 0 && !procIsOurs()) {
        char self[24]{};
        const auto length = ::readlink("/proc/self", self, sizeof self - 1);
        const auto number = parseNumber({self, static_cast<std::size_t>(std::max<ssize_t>(length, 0))});
        first = static_cast<pid_t>(number.value_or(0));
        while (first > 1 && !isFirstOfItsNamespace(Process(first))) {
            first = Process(first).parent();
        }
    }
    return UniqueFd(first > 1 ? ::open(cat("/proc/", first, "/stat").c_str(), O_RDONLY | O_CLOEXEC) : -1);
}

void enterUserNamespace(const Identity& identity) {
    if (identity.userNamespace) {
        checkErrno(::setns(identity.userNamespace.get(), CLONE_NEWUSER),
                   "Failed to enter the container's user namespace");
    }
    if (identity.makesNamespace) {
        checkErrno(::unshare(CLONE_NEWUSER), "Failed to make a user namespace");
        const auto write = [](const char* path, const std::string& text) {
            writeAll(openFile(path, O_WRONLY).get(), text, path);
        };
        write("/proc/self/setgroups", "deny");
        write("/proc/self/uid_map", cat(identity.user.uid, " 0 1\n"));
        write("/proc/self/gid_map", cat(identity.user.gid, " 0 1\n"));
    }
}

/// Every right is gone afterwards but those of the user, for good.
void dropPrivileges(const ContainerUser& user, bool isNodesOwnNamespace) {
    constexpr unsigned long lastPossible = 63;
    for (unsigned long capability = 0; capability <= lastPossible; ++capability) {
        if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EINVAL && errno != EPERM) {
            throwErrno("Failed to drop a capability");
        }
    }
    // In a user namespace, the kernel may forbid it: the groups are the caller's own.
    if (::setgroups(user.groups.size(), user.groups.data()) != 0 && isNodesOwnNamespace && ::geteuid() == 0) {
        throwErrno("Failed to set the groups");
    }
    checkErrno(::setresgid(user.gid, user.gid, user.gid), "Failed to set the group");
    checkErrno(::setresuid(user.uid, user.uid, user.uid), "Failed to set the user");
    ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    setCapabilities({});
    checkErrno(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "Failed to set no_new_privs");
    if (::getuid() != user.uid || ::geteuid() != user.uid || ::getgid() != user.gid) {
        throw Error("The ids are not what was set");
    }
}

/// The container's, where the runtime may have others.
void setLimits(const oci::BundleConfig& config) {
    for (const auto& limit : config.rlimits()) {
        const auto resource = oci::findRlimit(limit.type);
        rlimit value{};
        if (!resource || ::getrlimit(*resource, &value) != 0) {
            continue;
        }
        value.rlim_max = std::min<rlim_t>(value.rlim_max, limit.hard);
        value.rlim_cur = std::min<rlim_t>(value.rlim_max, limit.soft);
        checkErrno(::setrlimit(*resource, &value), cat("Failed to set ", limit.type));
    }
}

constexpr int firstListener = 3;  ///< the number of Dropbear's first listening socket

/// What the processes of the daemon are started with. Nothing of it is in the container yet.
struct Start {
    const DaemonRequest& request;
    int ready;   ///< a socket for the pid of the later Dropbear, once it listens
    int errors;  ///< a pipe for what goes wrong until then
    int end;     ///< becomes readable when the container's first process has ended; -1: not known
    int state;   ///< the file "stat" of that process in /proc; -1: not known
    int null;
    bool isNodesOwnNamespace;
    const std::vector<JoinableCgroup>& cgroups;  ///< those of the container
};

/// Gives these descriptors the numbers from 3 on, inherited by programs, and closes all others.
void closeAllBut(const std::vector<int>& descriptors) {
    std::vector<int> all{STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
    all.insert(all.end(), descriptors.begin(), descriptors.end());
    if (!arrangeDescriptors(all)) {
        throwErrno("Failed to keep a descriptor");
    }
}

void useStreams(int input, int output, int errors) {
    checkErrno(::dup2(input, STDIN_FILENO), "Failed to set a stream");
    checkErrno(::dup2(output, STDOUT_FILENO), "Failed to set a stream");
    checkErrno(::dup2(errors, STDERR_FILENO), "Failed to set a stream");
}

/// Sockets that listen on the port, for IPv4 and for IPv6 where the node has it.
std::vector<UniqueFd> listenOn(std::uint16_t port) {
    std::vector<UniqueFd> listeners;
    const auto listenAt = [&](const auto& address) {
        const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
        UniqueFd socket(::socket(generic->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const int on = 1;
        const auto set = [&](int level, int option) {
            return ::setsockopt(socket.get(), level, option, &on, sizeof on) == 0;
        };
        if (socket && set(SOL_SOCKET, SO_REUSEADDR) && set(IPPROTO_TCP, TCP_NODELAY) &&
            (generic->sa_family == AF_INET || set(IPPROTO_IPV6, IPV6_V6ONLY)) &&
            ::bind(socket.get(), generic, sizeof address) == 0 && ::listen(socket.get(), SOMAXCONN) == 0) {
            listeners.push_back(std::move(socket));
        } else if (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL) {
            throwErrno(cat("Failed to listen on port ", port));
        }
    };
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    listenAt(any);
    sockaddr_in6 any6{};
    any6.sin6_family = AF_INET6;
    any6.sin6_port = htons(port);
    listenAt(any6);
    if (listeners.empty()) {
        throw Error(cat("Failed to listen on port ", port, ": the node has no network addresses"));
    }
    return listeners;
}

/// Waits until the container's first process has executed its program: then no privileged process works in
/// the container any more. False if it ends before. The kernel reports this to nobody, so it is asked.
bool waitForCommand(int state, int end) {
    constexpr int moment = 5;  // milliseconds
    pollfd source{end, POLLIN, 0};
    while (::poll(&source, 1, 0) == 0) {
        const auto text = readableBytes(state, 0, 4096);
        if (text.empty()) {
            return false;
        }
        if (hasExecutedProgram(text)) {
            return true;
        }
        ::poll(&source, 1, moment);
    }
    return false;
}

/// Nothing else could say later what is wrong.
void requireReadable(const std::string& path, int mode) {
    checkErrno(::faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS),
               cat("The container's user cannot use ", printable(path)));
}

/// As the user for good, and in the container; but no program of the container and no process that its user
/// can trace runs there before the container's command does. Clients that connect meanwhile wait.
[[noreturn]] void executeDropbear(const Start& start, pid_t keeper) {
    const auto& request = start.request;
    const auto mask = request.context.config().user().umask;
    resetSignalActions(IgnoredSignals::reset);
    unblockSignals();
    ::umask(mask.value_or(022));
    checkErrno(::fchdir(request.root), "Failed to enter the container's root directory");
    checkErrno(::chroot("."), "Failed to enter the container's root directory");
    setLimits(request.context.config());
    dropPrivileges(request.identity.user, start.isNodesOwnNamespace);
    ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (::getppid() != keeper) {
        ::_exit(1);
    }
    const auto program = cat(directoryInside, "/bin/dropbear");
    requireReadable(program, X_OK);
    requireReadable(request.hostKey, R_OK);
    const auto listeners = listenOn(request.port);
    const auto pid = cat(::getpid());
    checkErrno(::send(start.ready, pid.data(), pid.size(), MSG_NOSIGNAL), "Failed to report readiness");
    useStreams(start.null, start.null, start.null);
    std::vector<int> kept;
    for (const auto& listener : listeners) {
        kept.push_back(listener.get());
    }
    const auto waitsAt = firstListener + static_cast<int>(kept.size());
    for (const int descriptor : {start.state, start.end}) {
        if (descriptor >= 0) {
            kept.push_back(descriptor);
        }
    }
    closeAllBut(kept);
    if (start.state >= 0 && !waitForCommand(waitsAt, start.end >= 0 ? waitsAt + 1 : -1)) {
        ::_exit(0);
    }
    closeRange(waitsAt);
    const auto port = cat(request.port);
    const auto variable = cat("SSH_HOOK_LISTENERS=", listeners.size());
    // The hook writes the pid files, with the rights that each of them takes.
    std::array<const char*, 10> arguments{"dropbear", "-F",         "-E", "-r", request.hostKey.c_str(),
                                          "-p",       port.c_str(), "-P", "",   nullptr};
    std::array<const char*, 2> environment{variable.c_str(), nullptr};
    ::execve(program.c_str(), const_cast<char* const*>(arguments.data()),
             const_cast<char* const*>(environment.data()));
    throwErrno(cat("Failed to execute ", program));
}

/// Prints what went wrong to `errors`, and ends the process.
template <typename Work>
[[noreturn]] void runAsProcess(int errors, Work work) noexcept {
    try {
        work();
    } catch (const std::exception& error) {
        const auto* const text = error.what();
        [[maybe_unused]] const auto ignored = ::write(errors, text, std::strlen(text));
    }
    ::_exit(1);
}

/// Ends with the container, or with the last process below it.
void keep(int end, const sigset_t& childEnded) {
    const UniqueFd signals(
        checkErrno(::signalfd(-1, &childEnded, SFD_CLOEXEC | SFD_NONBLOCK), "Failed to watch signals"));
    std::array<pollfd, 2> sources{{{signals.get(), POLLIN, 0}, {end, POLLIN, 0}}};
    while (true) {
        pid_t pid = 0;
        while ((pid = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
        }
        if (pid < 0 && errno == ECHILD) {
            return;
        }
        ::poll(sources.data(), sources.size(), -1);
        signalfd_siginfo info{};
        while (::read(signals.get(), &info, sizeof info) == sizeof info) {
        }
        if (sources[1].revents != 0) {
            constexpr int attempts = 100;
            killDescendants(Process(::getpid()), attempts);
            return;
        }
    }
}

void runKeeper(const Start& start) {
    sigset_t childEnded;
    ::sigemptyset(&childEnded);
    ::sigaddset(&childEnded, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &childEnded, nullptr);
    checkErrno(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "Failed to become the reaper");
    for (const auto& cgroup : start.cgroups) {
        joinCgroup(cgroup, start.request.log);
    }
    enterUserNamespace(start.request.identity);
    ::prctl(PR_SET_NAME, "ssh-keeper", 0, 0, 0);
    const pid_t self = ::getpid();
    const pid_t daemon = ::fork();
    checkErrno(daemon, "Failed to start a process");
    if (daemon == 0) {
        runAsProcess(start.errors, [&] { executeDropbear(start, self); });
    }
    // Not in the container's root: the runtime moves this process's root there together with its own.
    dropPrivileges(start.request.identity.user, start.isNodesOwnNamespace);
    useStreams(start.null, start.null, start.null);
    const bool knowsEnd = start.end >= 0;
    closeAllBut(knowsEnd ? std::vector{start.end} : std::vector<int>());
    keep(knowsEnd ? STDERR_FILENO + 1 : -1, childEnded);
    ::_exit(0);
}

/// The keeper becomes a child of the container's first process, which the kernel makes reap it at the end.
void forkKeeper(const Start& start) {
    const pid_t child = ::fork();
    checkErrno(child, "Failed to start a process");
    if (child == 0) {
        runAsProcess(start.errors, [&] {
            ::setsid();
            const pid_t keeper = ::fork();
            checkErrno(keeper, "Failed to start a process");
            if (keeper != 0) {
                ::_exit(0);
            }
            runKeeper(start);
        });
    }
    Child(child).wait();
}

/// nullopt if the process has ended instead.
std::optional<StartedDaemon> waitUntilReady(int socket) {
    constexpr int patience = 30'000;  // milliseconds
    pollfd source{socket, POLLIN, 0};
    if (::poll(&source, 1, patience) <= 0) {
        throw Error("The SSH daemon did not get ready");
    }
    std::array<char, 32> text{};
    const auto message = receiveMessage(socket, text);
    if (message.size <= 0 || !message.sender) {
        return std::nullopt;
    }
    const auto inside = parseNumber(trim({text.data(), static_cast<std::size_t>(message.size)}));
    return StartedDaemon{message.sender->pid, static_cast<pid_t>(inside.value_or(0))};
}

}  // namespace

Identity findIdentity(const HookContext& context, const ContainerUser& user) {
    const auto pid = context.state().pid;
    const auto& config = context.config();
    Identity identity{.userNamespace = {}, .makesNamespace = false, .user = user};
    if (isReachable(pid)) {
        identity.userNamespace = openUserNamespace(pid);
    }
    if (const auto ids = hook_contracts::findEnteredIds(config)) {
        UniqueFd payload(
            ids->payloadNamespace && isReachable(pid)
                ? ::open(cat("/proc/", pid, "/fd/", *ids->payloadNamespace).c_str(), O_RDONLY | O_CLOEXEC)
                : -1);
        identity.makesNamespace = !payload;
        if (payload) {
            identity.userNamespace = std::move(payload);
        }
        identity.user = {.uid = ids->uid, .gid = ids->gid, .groups = {}};
    } else if (identity.userNamespace) {
        const auto inside = config.user();
        identity.user = {.uid = inside.uid, .gid = inside.gid, .groups = inside.additionalGids};
    }
    return identity;
}

StartedDaemon startDaemon(const DaemonRequest& request) {
    std::array<int, 2> ends{};
    checkErrno(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()),
               "Failed to create a socket");
    const UniqueFd receiver(ends[0]);
    UniqueFd sender(ends[1]);
    const int on = 1;
    checkErrno(::setsockopt(receiver.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on),
               "Failed to prepare a socket");
    auto errors = makePipe();
    const auto null = openFile("/dev/null", O_RDWR);
    const auto pid = request.context.state().pid;
    const auto first = firstProcess(pid);
    const UniqueFd end(first > 1 ? static_cast<int>(::syscall(SYS_pidfd_open, first, 0)) : -1);
    const auto state = openState(first);
    if (!state && ::geteuid() == 0 && isInitialUserNamespace()) {
        throw Error("The hook cannot see when the container's command starts",
                    "Run it where /proc shows the processes of the OCI runtime");
    }
    const bool isNodesOwnNamespace = isInitialUserNamespace() && !request.identity.userNamespace;
    const auto cgroups =
        first > 1 && isInitialUserNamespace() ? openCgroupsOf(first) : std::vector<JoinableCgroup>();
    if (request.joinsPidNamespace) {
        enterNamespace(pid, NamespaceKind::pid);
    }
    forkKeeper({request, sender.get(), errors.writer.get(), end.get(), state.get(), null.get(),
                isNodesOwnNamespace, cgroups});
    sender.reset();
    errors.writer.reset();
    auto started = waitUntilReady(receiver.get());
    if (!started) {
        constexpr std::size_t limit = 4096;
        constexpr std::chrono::seconds patience{1};
        std::string text;
        readToEnd({{errors.reader.get(), appendTo(text, limit)}}, patience);
        throw Error(cat("The SSH daemon did not start: ", printable(trim(text))));
    }
    return *started;
}

}  // namespace sarus::hooks::ssh
