#include "podman_hpc/shared_run/task.hpp"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/pipe.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "podman_hpc/shared_run/container_process.hpp"

namespace sarus::podman_hpc {

namespace {

constexpr unsigned maxCapability = 63;

/// A regular file of the container; "" if there is none. The image could have put a FIFO there.
std::string readImageFile(const char* path) {
    const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return {};
    }
    return readAll(fd.get(), 16U << 20U, path);
}

std::vector<std::string> ownEnvironment() {
    std::vector<std::string> variables;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        variables.emplace_back(*variable);
    }
    return variables;
}

/// As --user says; the user's capabilities are those that Podman gives to another user.
void changeUser(ContainerProcess& process, const std::string& name) {
    const auto passwd = readImageFile("/etc/passwd");
    const auto group = readImageFile("/etc/group");
    const auto before = lookUpUser(std::to_string(process.uid), passwd, group).home;
    if (process.ownHome && *process.ownHome != before && *process.ownHome != "/") {
        setVariable(process.environment, "HOME", *process.ownHome);  // somebody has set it
    }
    auto user = lookUpUser(name, passwd, group);
    process.uid = user.uid;
    process.gid = user.gid;
    process.groups = std::move(user.groups);
    process.ownHome = std::move(user.home);
    auto& capabilities = process.capabilities;
    capabilities = {.bounding = capabilities.bounding};
    if (process.uid == 0) {
        capabilities.effective = capabilities.permitted = capabilities.bounding;
    }
}

std::uint64_t ownBoundingSet() {
    std::uint64_t bits = 0;
    for (unsigned i = 0; i <= maxCapability; ++i) {
        bits |= ::prctl(PR_CAPBSET_READ, i, 0, 0, 0) == 1 ? std::uint64_t{1} << i : 0;
    }
    return bits;
}

void applyLimits(const ContainerProcess& process) {
    for (const auto& limit : process.limits) {
        // A task whose own hard limit is lower keeps it.
        if (::setrlimit(limit.resource, &limit.value) != 0 && errno != EPERM) {
            throwErrno("Failed to set a limit");
        }
    }
}

void dropBounding(std::uint64_t kept) {
    for (unsigned i = 0; i <= maxCapability; ++i) {
        if ((kept >> i & 1U) == 0 && ::prctl(PR_CAPBSET_READ, i, 0, 0, 0) == 1) {
            checkErrno(::prctl(PR_CAPBSET_DROP, i, 0, 0, 0), "Failed to drop a capability");
        }
    }
}

void setCapabilities(const Capabilities& wanted) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2]{};
    checkErrno(::syscall(SYS_capget, &header, data), "Failed to read the capabilities");
    const auto permitted = std::uint64_t{data[1].permitted} << 32U | data[0].permitted;
    for (unsigned half = 0; half < 2; ++half) {
        const auto part = [&](std::uint64_t bits) {
            return static_cast<std::uint32_t>((bits & permitted) >> (32U * half));
        };
        data[half] = {part(wanted.effective), part(wanted.permitted), part(wanted.inheritable)};
    }
    checkErrno(::syscall(SYS_capset, &header, data), "Failed to set the capabilities");
    for (unsigned i = 0; i <= maxCapability; ++i) {
        if (((wanted.ambient & permitted) >> i & 1U) != 0) {
            ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, i, 0, 0);
        }
    }
}

void becomeUser(const ContainerProcess& process) {
    dropBounding(process.capabilities.bounding);
    // EPERM: a user namespace without subordinate ids, in which nobody may change groups
    if (!process.keepsGroups && ::setgroups(process.groups.size(), process.groups.data()) != 0 &&
        errno != EPERM) {
        throwErrno("Failed to set the groups");
    }
    ::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
    checkErrno(::setresgid(process.gid, process.gid, process.gid), "Failed to set the group");
    checkErrno(::setresuid(process.uid, process.uid, process.uid), "Failed to set the user");
    setCapabilities(process.capabilities);
    ::prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
    if (process.noNewPrivileges) {
        checkErrno(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "Failed to set no_new_privs");
    }
    ::umask(process.umask);
}

std::string variableOf(const std::vector<std::string>& environment, std::string_view name) {
    for (const auto& variable : environment) {
        if (variable.starts_with(name) && variable.size() > name.size() && variable[name.size()] == '=') {
            return variable.substr(name.size() + 1);
        }
    }
    return {};
}

/// `executor`: the program podman-hpc-pause.
[[noreturn]] void execute(int executor, const std::vector<std::string>& command,
                          const std::vector<std::string>& environment) {
    const auto& name = command.front();
    const auto path = variableOf(environment, "PATH");
    const auto program = findProgram(name, path.empty() ? "/usr/bin:/bin" : path);
    const auto found = program && !isDirectory(*program) ? program : std::nullopt;
    if (!found && name.find('/') == std::string::npos) {
        throw Error(
            cat("executable file '", printable(name), "' not found in $PATH: No such file or directory"))
            .setExitStatus(127);
    }
    std::vector<std::string> arguments{"podman-hpc-pause", found.value_or(name)};
    arguments.insert(arguments.end(), command.begin(), command.end());
    ::syscall(SYS_execveat, executor, "", argumentPointers(arguments).data(),
              argumentPointers(environment).data(), AT_EMPTY_PATH);
    throw Error::fromErrno(cat("Failed to execute ", printable(name)), errno).setExitStatus(126);
}

UniqueFd makeExecutor(const std::string& program) {
    return makeMemoryFile("podman-hpc-pause", readFile(program));
}

/// What the child knows about its parent.
struct Parent {
    sigset_t signals;  ///< to block
    int alive;         ///< end of file when the parent is gone
    int executor;      ///< executes the command
};

void dieWith(const Parent& parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // after the change of the user, which would undo it
    pollfd end{parent.alive, POLLIN, 0};
    if (::poll(&end, 1, 0) != 0) {
        ::_exit(128 + SIGKILL);  // it ended before
    }
    ::sigprocmask(SIG_SETMASK, &parent.signals, nullptr);
}

/// Inside of the container's namespaces.
[[noreturn]] void becomeTask(ContainerProcess process, const ExecOptions& options,
                             const std::vector<std::string>& command,
                             const std::vector<std::string>& settings, const Parent& parent) {
    try {
        if (options.user && !options.user->empty()) {
            changeUser(process, *options.user);
        }
        if (options.privileged) {
            auto& capabilities = process.capabilities;
            capabilities.bounding = ownBoundingSet();
            if (process.uid == 0) {
                capabilities.effective = capabilities.permitted = capabilities.bounding;
            }
        }
        auto& environment = process.environment;
        for (const auto& setting : settings) {
            const auto equals = setting.find('=');
            setVariable(environment, setting.substr(0, equals), setting.substr(equals + 1));
        }
        if (process.ownHome && std::none_of(environment.begin(), environment.end(), [](const auto& variable) {
                return variable.starts_with("HOME=");
            })) {
            environment.push_back(cat("HOME=", *process.ownHome));
        }
        applyLimits(process);
        becomeUser(process);
        const auto& directory = options.directory.value_or(process.directory);
        if (::chdir(directory.c_str()) != 0) {
            throw Error::fromErrno(cat("chdir '", printable(directory), '\''), errno).setExitStatus(127);
        }
        dieWith(parent);
        execute(parent.executor, command, environment);
    } catch (const Error& error) {
        printError(cat("Error: ", error.what()));
        ::_exit(error.exitStatus() == 1 ? 126 : error.exitStatus());
    } catch (const std::exception& error) {
        printError(cat("Error: ", error.what()));
        ::_exit(126);
    }
}

/// What the intermediate process reports: the task's pid, or why it could not enter.
struct Report {
    pid_t pid;
    int failure;
};

}  // namespace

std::optional<Child> startTask(const ContainerEntry& entry, const std::string& pauseProgram,
                               const ExecOptions& options, const std::vector<std::string>& command,
                               const sigset_t& signals) {
    auto process = parseContainerProcess(entry.config());
    if (!process) {
        return std::nullopt;
    }
    std::vector<std::string> settings;
    addVariables(settings, options, ownEnvironment());
    const auto null = openFile("/dev/null", O_RDONLY);
    const auto reports = makePipe();
    auto alive = makePipe();
    const auto executor = makeExecutor(pauseProgram);
    const Parent parent{signals, alive.reader.get(), executor.get()};
    const pid_t helper = ::fork();
    if (helper == 0) {
        alive.writer.reset();
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  // processes of the container must not reach into this one
        if (!options.interactive) {
            ::dup2(null.get(), STDIN_FILENO);
        }
        closeOnExec(3 + static_cast<int>(options.keptDescriptors));
        Report report{-1, entry.enter()};
        if (report.failure == 0) {
            // A child of this process's parent, so that the parent has its status.
            report.pid = static_cast<pid_t>(::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0));
            if (report.pid == 0) {
                becomeTask(std::move(*process), options, command, settings, parent);
            }
            report.failure = report.pid < 0 ? errno : 0;
        }
        [[maybe_unused]] const auto written = ::write(reports.writer.get(), &report, sizeof report);
        ::_exit(0);
    }
    checkErrno(helper, "Failed to create a process");
    Child(helper).wait();
    Report report{-1, EIO};
    pollfd reported{reports.reader.get(), POLLIN, 0};
    if (::poll(&reported, 1, 0) == 1) {
        [[maybe_unused]] const auto size = ::read(reports.reader.get(), &report, sizeof report);
    }
    static_cast<void>(alive.writer.release());  // open as long as this process lives
    return report.failure == 0 ? std::optional(Child(report.pid)) : std::nullopt;
}

}  // namespace sarus::podman_hpc
