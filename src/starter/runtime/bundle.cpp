#include "starter/runtime/bundle.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/begin_process.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/mount_table.hpp"
#include "base/mounts.hpp"
#include "base/path_in_root.hpp"
#include "base/read_bytes.hpp"
#include "base/text.hpp"
#include "hook_contracts/enter_call.hpp"
#include "hook_contracts/hook_wrapper.hpp"
#include "node/cgroups.hpp"
#include "oci/runtime/runtime_config.hpp"
#include "starter/devices/device_cgroup.hpp"
#include "starter/devices/hook_devices.hpp"
#include "starter/devices/runtime_cgroups.hpp"
#include "starter/rootfs/program_interpreter.hpp"
#include "starter/runtime/foreign_program.hpp"
#include "starter/runtime/hooks.hpp"

namespace sarus::starter {

namespace {

constexpr std::size_t largestSeccompProfile = 4U << 20U;
/// A privileged crun keeps a copy beside its state in /run, which is small and shared by all users.
constexpr std::size_t largestCopiedConfig = 4U << 20U;

/// The options of the topmost /proc mount of the host that hide something (proc(5)).
std::vector<std::string> hidingProcOptions() {
    std::vector<std::string> found;
    for (const auto& mount : readMountTable()) {
        if (mount.mountPoint != "/proc") {
            continue;
        }
        found.clear();
        for (auto& option : split(mount.superOptions, ',')) {
            if (mount.type == "proc" && (option.starts_with("hidepid=") || option.starts_with("gid=") ||
                                         option.starts_with("subset="))) {
                found.push_back(std::move(option));
            }
        }
    }
    return found;
}

/// A link in the bundle to the shared user namespace. runc (since 1.1.11) takes any /proc/PID/NAME for a file
/// of a process in that namespace and compares PID's own id map with the container's; for another path it
/// looks inside the namespace.
std::string linkUserNamespace(const BundleRequest& request) {
    auto path = cat(request.rootfs.bundleDir(), "/user-namespace");
    const auto target = pathForOthers(request.userNamespaces.container.get());
    checkErrno(::symlink(target.c_str(), path.c_str()), cat("Failed to create ", printable(path)));
    return path;
}

engine::RuntimeInputs makeInputs(const BundleRequest& request) {
    engine::RuntimeInputs inputs;
    inputs.deviceRules = request.rootfs.devices();
    if (request.config.seccompProfile) {
        inputs.seccompProfile = readFile(*request.config.seccompProfile, largestSeccompProfile);
    }
    const bool runcMakesCgroups =
        request.runtime.kind == engine::OciRuntime::runc && request.credentials.privileged();
    if (runcMakesCgroups) {
        inputs.cgroupsPath = runcCgroupsPath(leafNameOf(request.plan.uid, request.plan.name));
    }
    if (runcMakesCgroups && node::detectCgroupLayout() == node::CgroupLayout::unified) {
        // Here the rules are a program that only runc can install: hooks cannot add theirs when they run.
        const auto more = findDeviceRulesOfHooks(request.plan);
        inputs.deviceRules.insert(inputs.deviceRules.end(), more.begin(), more.end());
    }
    inputs.rlimits = callerLimits(request.limits);
    inputs.ignoredSignals = signalsIgnoredByCaller();
    inputs.consoleSize = request.consoleSize;
    inputs.oomScore = request.oomScore;
    inputs.rootIsReadonly = request.rootIsReadonly;
    inputs.uids = request.credentials.uids();
    inputs.gids = request.credentials.gids();
    if (request.credentials.privileged() && !request.plan.privatePid) {
        inputs.hostProcOptions = hidingProcOptions();
    }
    if (request.credentials.privileged() && request.runtime.kind == engine::OciRuntime::crun) {
        for (const auto* paths : {&engine::hiddenPaths(), &engine::readonlyPaths()}) {
            for (const auto& path : *paths) {
                if (struct stat status{}; ::lstat(path.c_str(), &status) == 0) {
                    inputs.kernelPaths[path] = S_ISDIR(status.st_mode);
                }
            }
        }
    }
    if (request.userNamespaces.container) {
        inputs.userNamespace = linkUserNamespace(request);
    }
    if (request.userNamespaces.payload) {
        inputs.payloadNamespace = payloadNamespaceNumber(request.plan);
    }
    return inputs;
}

void bringHelper(const std::string& helper, const char* inside, const BundleRequest& request) {
    const UniqueFd source(::open(helper.c_str(), O_PATH | O_CLOEXEC));
    if (!source) {
        throw Error::fromErrno(cat("Failed to open ", printable(helper), ", which the container needs"),
                               errno, "Install it again");
    }
    bringProgram(source.get(), request.rootfs.devFd(), inside, request.config.selinuxMountLabel);
}

/// The runtime mounts these later, so they cannot be examined yet.
bool liesInRuntimeMount(std::string_view path) {
    constexpr std::array<std::string_view, 3> mounts{"/proc", "/sys", "/dev/pts"};
    return std::any_of(mounts.begin(), mounts.end(), [&](std::string_view mount) {
        return path == mount ||
               (path.starts_with(mount) && path.size() > mount.size() && path[mount.size()] == '/');
    });
}

enum class Candidate { executable, notExecutable, missing, unknown };

Candidate examine(int rootfs, const std::string& path) {
    if (liesInRuntimeMount(path)) {
        return Candidate::unknown;
    }
    const auto file = tryOpenInRoot(rootfs, path);
    struct stat status {};
    if (!file) {
        return errno == ENOENT || errno == ENOTDIR ? Candidate::missing
               : errno == EACCES                   ? Candidate::notExecutable
                                                   : Candidate::unknown;
    }
    if (::fstat(file.get(), &status) != 0) {
        return Candidate::unknown;
    }
    if (S_ISDIR(status.st_mode)) {
        return Candidate::notExecutable;
    }
    if (::faccessat(file.get(), "", X_OK, AT_EMPTY_PATH | AT_EACCESS) == 0) {
        return Candidate::executable;
    }
    return errno == EACCES ? Candidate::notExecutable : Candidate::unknown;
}

/// Open for reading; empty if that is not permitted.
UniqueFd openProgram(int rootfs, const std::string& path) {
    const auto place = tryOpenInRoot(rootfs, path);
    return UniqueFd(place ? ::open(descriptorPath(place.get()).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)
                          : -1);
}

/// The header of an ELF file, up to the target machine; empty if it cannot be read.
std::string beginningOf(int file) {
    return readableBytes(file, 0, 64);
}

std::string joinPath(const std::string& directory, const std::string& name) {
    return name.starts_with('/') ? name : cat(directory, directory.ends_with('/') ? "" : "/", name);
}

std::optional<std::string> searchPath(const engine::ContainerPlan& plan) {
    for (const auto& [name, value] : plan.environment) {
        if (name == "PATH") {
            return value;
        }
    }
    return std::nullopt;
}

/// Hooks can mount programs into the container before its command starts; one for the host's workload manager
/// does.
bool mayBeProvidedByHooks(const engine::ContainerPlan& plan) {
    return std::any_of(plan.hooks.begin(), plan.hooks.end(), [](const engine::PlannedHook& planned) {
        return planned.stage != "poststart" && planned.stage != "poststop";
    });
}

}  // namespace

int payloadNamespaceNumber(const engine::ContainerPlan& plan) {
    return 3 + static_cast<int>(plan.descriptors.size());
}

std::vector<oci::RuntimeRlimit> callerLimits(const std::vector<CallerLimit>& limits) {
    std::vector<oci::RuntimeRlimit> result;
    for (const auto& limit : limits) {
        result.push_back({.type = limit.name, .soft = limit.soft, .hard = limit.hard});
    }
    return result;
}

namespace {

/// runc fails if the job's own cgroup allows less than runc's usual rules. Told to continue
/// (RuntimeInvocation::deviceRulesByHook), it leaves a cgroup in which nothing can be opened. This hook runs
/// first and sets the rules.
void addDeviceHook(oci::RuntimeConfig& config, const BundleRequest& request, const std::string& rulesPath) {
    constexpr const char* firstStage = "prestart";
    if (config.hooks.empty() || config.hooks.front().first != firstStage) {
        config.hooks.insert(config.hooks.begin(), {firstStage, {}});
    }
    auto& hooks = config.hooks.front().second;
    const std::vector<std::string> arguments{
        "sarus-hook", hook_contracts::wrapper::devices, "0", "0", *request.runcDevices, rulesPath};
    hooks.insert(hooks.begin(), {.path = request.hookWrapper, .args = arguments, .env = {}, .timeout = {}});
}

void writeNewFile(const std::string& path, std::string_view text) {
    writeAll(openFile(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600).get(), text, path);
}

}  // namespace

std::vector<oci::RuntimeDeviceRule> writeBundle(const BundleRequest& request) {
    const engine::RuntimeDialect dialect{.runtime = request.runtime.kind,
                                         .privileged = request.credentials.privileged()};
    bringHelper(request.enterProgram, hook_contracts::enterProgram, request);
    auto config = engine::makeRuntimeConfig(request.plan, request.config, dialect, makeInputs(request));
    if (hasHooksInside(request.plan)) {
        bringHelper(request.hookWrapper, hookWrapperInside, request);
    }
    config.hooks = wrapHooks(request.plan, request.early, {request.hookWrapper, request.rootfs.rootPath()},
                             request.runtime.kind);
    const std::string rulesPath = cat(request.rootfs.bundleDir(), "/device-rules");
    if (request.runcDevices) {
        addDeviceHook(config, request, rulesPath);
    }
    auto [text, rules] =
        runPrecreateHooks(request.plan, oci::serializeRuntimeConfig(config), request.rootfs.bundleDir());
    if (request.credentials.privileged() && request.runtime.kind == engine::OciRuntime::crun &&
        text.size() > largestCopiedConfig) {
        throw Error(
            cat("The container's environment and arguments are too large: its configuration would have ",
                text.size(), " bytes, of at most ", largestCopiedConfig),
            "Unset large variables; control characters count six times");
    }
    writeNewFile(cat(request.rootfs.bundleDir(), "/config.json"), text);
    if (request.runcDevices) {
        writeNewFile(rulesPath, deviceRulesText(request.rootfs.devices(), rules));
    }
    return rules;
}

namespace {

constexpr std::string_view noPackages =
    "To install packages, be root in the container: sarus run --remap-root";

using ProgramHint = std::pair<std::string_view, std::string_view>;
constexpr std::array hintsForPrograms{
    ProgramHint{"nvidia-smi", "GPUs and their programs come with --gpus=all"},
    ProgramHint{"rocm-smi", "AMD GPUs come with --rocm, their programs with the image"},
    ProgramHint{"sudo", noPackages},
    ProgramHint{"su", noPackages},
    ProgramHint{"apt", noPackages},
    ProgramHint{"apt-get", noPackages},
    ProgramHint{"yum", noPackages},
    ProgramHint{"dnf", noPackages},
    ProgramHint{"apk", noPackages},
};

/// Worded like runc's, with a hint for common mistakes. `args`: the command line.
Error missingCommand(const std::vector<std::string>& args) {
    const auto& command = args.front();
    const bool isPath = command.find('/') != std::string::npos;
    std::string hint;
    if (command.starts_with('-')) {
        hint = "Options of sarus come before the image: what follows the image is the command";
    } else if (args.size() == 1 && command.find(' ') != std::string::npos) {
        hint = "This is one word with spaces in it: leave out the quotes, or run: sh -c 'COMMAND'";
    } else if (isPath && !command.starts_with('/')) {
        hint =
            "A container has files of the node only where they are mounted: 'sarus run --cwd' mounts the "
            "working directory";
    } else if (command == "bash" || command.ends_with("/bash")) {
        hint = "The image has no bash: try sh";
    } else if (const auto found =
                   std::find_if(hintsForPrograms.begin(), hintsForPrograms.end(),
                                [&](const auto& known) { return known.first == fileNameOf(command); });
               found != hintsForPrograms.end()) {
        hint = found->second;
    }
    return Error(cat("exec: \"", printable(command),
                     isPath ? "\": no such file or directory" : "\": executable file not found in $PATH"),
                 std::move(hint));
}

}  // namespace

std::string checkCommand(const engine::ContainerPlan& plan, int rootfs, const Credentials& credentials) {
    if (plan.hold || mayBeProvidedByHooks(plan)) {
        return {};
    }
    const auto& command = plan.args.front();
    std::string foreign;
    std::optional<std::string> interpreter;  // set if it is missing
    const auto look = [&](const std::string& file) {
        const auto found = examine(rootfs, file);
        if (found == Candidate::executable) {
            const auto program = openProgram(rootfs, file);
            foreign = program ? describeForeignProgram(command, beginningOf(program.get())) : std::string();
            interpreter = program && foreign.empty() ? interpreterOf(program.get()) : std::nullopt;
            if (interpreter && examine(rootfs, joinPath(plan.workdir, *interpreter)) != Candidate::missing) {
                interpreter.reset();
            }
        }
        return found;
    };
    const auto result = credentials.asUser([&] {
        if (command.find('/') != std::string::npos) {
            return look(joinPath(plan.workdir, command));
        }
        const auto path = searchPath(plan);
        auto best = path ? Candidate::missing : Candidate::unknown;
        for (const auto& directory : split(path.value_or(""), ':')) {
            const auto found =
                look(joinPath(joinPath(plan.workdir, directory.empty() ? "." : directory), command));
            if (found == Candidate::executable || found == Candidate::unknown) {
                return found;
            }
            best = found == Candidate::notExecutable ? found : best;
        }
        return best;
    });
    if (result == Candidate::notExecutable) {
        throw Error(cat("exec: \"", printable(command), "\": permission denied"));
    }
    if (result == Candidate::missing) {
        throw missingCommand(plan.args);
    }
    if (interpreter) {
        throw Error(cat("exec: \"", printable(command), "\": no such file or directory"),
                    cat("The file is there, but not its interpreter ", printable(*interpreter),
                        ", which the image lacks"));
    }
    return foreign;
}

}  // namespace sarus::starter
