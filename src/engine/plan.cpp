#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "engine/annotations.hpp"
#include "engine/cdi.hpp"
#include "engine/container_plan.hpp"
#include "engine/environment.hpp"
#include "engine/hook_report.hpp"
#include "engine/mount_rules.hpp"
#include "engine/pmix.hpp"
#include "engine/run_options.hpp"
#include "engine/site_rule.hpp"
#include "hook_contracts/enter_call.hpp"
#include "oci/runtime/device_request.hpp"
#include "oci/runtime/mount_request.hpp"
#include "oci/runtime/runtime_devices.hpp"

namespace sarus::engine {

namespace {

// Before the user's command:
constexpr std::size_t initArguments = 2;
constexpr std::size_t holdArguments = 2;

std::string planName(const LaunchRequest& request, const HostFacts& facts) {
    auto name = request.name.value_or(cat("sarus-container-", facts.randomName));
    checkContainerName(name);
    return name;
}

void checkKept(const LaunchRequest& request) {
    constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyz0123456789-";
    constexpr std::size_t longest = 256;
    const auto& content = request.imageContent;
    if ((request.keep && content.empty()) || content.size() > longest ||
        content.find_first_not_of(allowed) != std::string::npos) {
        throw Error("Invalid request: it does not say what is in the image");
    }
    if (!request.keptDirectory.empty() && !isPlainPath(request.keptDirectory)) {
        throw Error(cat("The directory for the container in SARUS_CONTAINER_DIR is invalid: '",
                        printable(request.keptDirectory),
                        "' is not an absolute path below '/' without '.', '..' and control characters"));
    }
}

void checkMountCount(const SiteConfig& config, std::size_t count) {
    const auto& limit = config.containerLimits.mounts;
    if (limit && count > *limit) {
        throw siteForbids(cat("more than ", *limit, " mounts of a user in a container"),
                          "containerLimits.mounts");
    }
}

void checkNetwork(const LaunchRequest& request, const Environment& host, ContainerPlan& plan) {
    if (request.privateNetwork && isSlurmPmixStep(host)) {
        plan.warnings.emplace_back(
            "The PMIx server of the job step cannot be reached without a network (--network=none)");
    }
}

/// What the site lets users ask for.
void checkSiteRules(const SiteConfig& config, const LaunchRequest& request) {
    if (!config.allowMount && !request.mounts.empty()) {
        throw siteForbids("mounts of users", "allowMount");
    }
    if (!config.allowDevice && !request.devices.empty()) {
        throw siteForbids("devices of users", "allowDevice");
    }
    checkMountCount(config, request.mounts.size());
}

std::vector<std::string> planArguments(const LaunchRequest& request) {
    const auto& entrypoint = request.entrypoint ? *request.entrypoint : request.metadata.entrypoint;
    const bool imageCommandApplies = request.command.empty() && !request.entrypoint;
    const auto& command = imageCommandApplies ? request.metadata.cmd : request.command;

    std::vector<std::string> args;
    if (request.init) {
        args = {hook_contracts::initProgram, "--"};
    }
    if (request.hold) {
        args.insert(args.end(), {hook_contracts::enterProgram, hook_contracts::holdOption});
    }
    args.insert(args.end(), entrypoint.begin(), entrypoint.end());
    args.insert(args.end(), command.begin(), command.end());
    if (entrypoint.empty() && command.empty()) {
        throw Error(cat("No command to run in a container of image ", printable(request.imageReference)),
                    "Neither the command line nor the image names a command or an entrypoint");
    }
    return args;
}

std::optional<std::string> planInit(const SiteConfig& config, const LaunchRequest& request) {
    if (!request.init) {
        return std::nullopt;
    }
    if (!config.initPath) {
        throw Error("The option '--init' is not available: no init process is configured",
                    "The administrator names one with the key 'initPath' in sarus.json")
            .setId("init-not-configured");
    }
    return config.initPath;
}

std::string planWorkdir(const LaunchRequest& request) {
    auto workdir = request.metadata.workingDir;
    if (!workdir.starts_with('/')) {
        workdir.insert(0, 1, '/');  // images hold "" for the root and, rarely, a path relative to it
    }
    if (request.workdir) {
        workdir = resolveWorkdir(*request.workdir, workdir);
    }
    checkWorkdir(workdir);
    return workdir;
}

/// Other engines mount empty directories there. The image may name anything.
std::vector<std::string> planVolumes(const LaunchRequest& request) {
    constexpr std::array<std::string_view, 3> kernels{"/dev", "/proc", "/sys"};
    std::vector<std::string> volumes;
    for (const auto& volume : request.metadata.volumes) {
        const auto path = normalizePath(volume);
        if (std::none_of(kernels.begin(), kernels.end(),
                         [&](auto directory) { return isSameOrBelow(path, directory); })) {
            volumes.push_back(path);
        }
    }
    return volumes;
}

/// The mounts of the user at that place, or those of everybody that the site has only as a default, are not
/// performed. Those that the site configures for all containers stay.
void leaveOut(const oci::MountRequest& unmount, ContainerPlan& plan) {
    const auto place = normalizePath(unmount.destination);
    const auto isThere = [&](const PlannedMount& mount) { return normalizePath(mount.destination) == place; };
    const auto count = std::erase_if(plan.mounts, [&](const PlannedMount& mount) {
        return mount.origin == MountOrigin::user && isThere(mount);
    });
    if (count > 0) {
        return;
    }
    if (whyEnginesOwn(place) || std::any_of(plan.mounts.begin(), plan.mounts.end(), isThere)) {
        throw Error(cat("Invalid mount request '", printable(unmount.text), "': what is mounted on ",
                        printable(place), " belongs to every container"),
                    "Only your own mounts can be left out, and the home and working directory");
    }
    plan.warnings.push_back(cat("The mount request '", printable(unmount.text),
                                "' has no effect: nothing is mounted on ", printable(place), " before it"));
}

void planMounts(const SiteConfig& config, const LaunchRequest& request, ContainerPlan& plan) {
    for (const auto& mount : config.siteMounts) {
        plan.mounts.push_back({.source = mount.source,
                               .destination = mount.destination,
                               .readonly = mount.readonly || mount.isSquashfs,
                               .origin = MountOrigin::site,
                               .request = oci::toText(mount),
                               .isSquashfs = mount.isSquashfs});
    }
    for (const auto& mount : request.mounts) {
        oci::checkMountRequest(mount);
        if (mount.isUnmount) {
            leaveOut(mount, plan);
            continue;
        }
        checkUserMountDestination(config.userMounts, mount.destination, mount.text);
        if (mount.tmpfsSize && !request.privateIpc &&
            isSameOrBelow(normalizePath(mount.destination), "/dev/shm")) {
            throw Error(cat("Invalid mount request '", printable(mount.text),
                            "': a memory file system cannot replace /dev/shm"),
                        "A container uses the node's /dev/shm, with its size: leave the option out, or add "
                        "--ipc=private");
        }
        plan.mounts.push_back({.source = mount.tmpfsSize ? "tmpfs" : mount.source,
                               .destination = mount.destination,
                               .readonly = mount.readonly || mount.isSquashfs,
                               .request = mount.text,
                               .tmpfsSize = mount.tmpfsSize,
                               .tmpfsMode = mount.tmpfsMode,
                               .isSquashfs = mount.isSquashfs,
                               .mustBeDirectory = mount.mustBeDirectory});
    }
}

/// The directories of the workload manager's PMIx server, mounted at the same paths: those of Slurm's step,
/// or with the site's key all that variables name. userMounts does not apply. But the user chooses the paths:
/// they must not cover what userMounts protects as a whole, and they are mounts of a user for the site's
/// rules. Nobody asks for those of a step, so they do not count.
void planPmixMounts(const SiteConfig& config, const LaunchRequest& request, const Environment& host,
                    ContainerPlan& plan) {
    const bool onlyOfStep = !config.enablePmixV3Support;
    if (onlyOfStep ? !isSlurmPmixStep(host) : !*config.enablePmixV3Support) {
        return;
    }
    auto directories = pmixDirectories(host);
    for (const auto& directory : request.workloadDirectories) {
        directories.push_back(normalizePath(directory));
    }
    if (onlyOfStep) {
        directories = directoriesOfSlurmStep(directories, host);
    }
    if (!config.allowMount && !directories.empty()) {
        plan.warnings.emplace_back(
            "The directories of the PMIx server are not mounted: this site does not allow mounts of users "
            "(`allowMount` in sarus.json)");
        return;
    }
    const auto& rules = config.userMounts;
    std::vector<std::string> planned;
    for (const auto& directory : directories) {
        const auto inside = [&](const std::string& other) { return isSameOrBelow(directory, other); };
        if (std::any_of(planned.begin(), planned.end(), inside)) {
            continue;
        }
        const auto covers = [&](const std::string& path) {
            return isSameOrBelow(normalizePath(path), directory);
        };
        if (covers("/dev") || whyNotMountable({}, directory) ||
            std::any_of(rules.notAllowedPaths.begin(), rules.notAllowedPaths.end(), covers) ||
            std::any_of(rules.notAllowedPrefixesOfPath.begin(), rules.notAllowedPrefixesOfPath.end(),
                        covers)) {
            plan.warnings.push_back(
                cat("The PMIx directory ", printable(directory), " cannot be mounted in the container"));
            continue;
        }
        planned.push_back(directory);
        plan.mounts.push_back(
            {directory, directory, false, MountOrigin::workloadManager, cat("PMIx: ", directory)});
    }
    checkMountCount(config, request.mounts.size() + (onlyOfStep ? 0 : planned.size()));
}

/// Whether this is a standard device, such as /dev/null, at its usual path: the OCI runtime creates it
/// anyway.
bool isThereAnyway(const std::string& source, const std::string& destination) {
    return normalizePath(source) == normalizePath(destination) &&
           oci::isRuntimeDevice(normalizePath(destination));
}

void planDevices(const SiteConfig& config, const LaunchRequest& request, ContainerPlan& plan) {
    for (const auto& device : config.siteDevices) {
        if (isThereAnyway(device.source, device.destination)) {
            continue;
        }
        auto text = cat(device.source, ":", device.destination, ":", device.access);
        plan.devices.push_back(
            {device.source, device.destination, device.access, MountOrigin::site, std::move(text)});
    }
    for (const auto& text : request.devices) {
        if (isCdiRequest(text)) {
            continue;  // the starter has looked it up in the administrator's files
        }
        auto device = oci::parseDeviceRequest(text);
        if (isThereAnyway(device.source, device.destination)) {
            continue;
        }
        const auto sameSource = [&](const SiteDevice& site) {
            return normalizePath(site.source) == normalizePath(device.source);
        };
        if (std::any_of(config.siteDevices.begin(), config.siteDevices.end(), sameSource)) {
            plan.warnings.push_back(cat("Skipping device request '", printable(text), "': the device ",
                                        printable(device.source),
                                        " is already in every container by the site's configuration"));
            continue;
        }
        if (whyEnginesOwn(device.destination)) {
            throw Error(cat("Invalid device request '", printable(text), "': container device path '",
                            printable(normalizePath(device.destination)),
                            "' belongs to the container engine"));
        }
        plan.devices.push_back({std::move(device.source), std::move(device.destination),
                                std::move(device.access), MountOrigin::user, text});
    }
}

/// PMI_FD names a connected socket of the process manager. The container gets it as the lowest free number,
/// 3.
void planPmiDescriptor(int imageFd, const HostFacts& facts, const Environment& host, Environment& container,
                       ContainerPlan& plan) {
    constexpr int firstPreserved = 3;
    const auto found = host.find("PMI_FD");
    if (found == host.end()) {
        return;
    }
    const auto number = parseNumber(found->second);
    if (!number) {
        throw Error(
            cat("Invalid value of the environment variable PMI_FD: expected the number of a file descriptor, "
                "found '",
                printable(found->second), "'"));
    }
    const auto inContainer = container.find("PMI_FD");
    if (inContainer == container.end() || inContainer->second != found->second || *number < firstPreserved) {
        return;  // a foreign value, or a standard stream, which the container has anyway
    }
    const auto isNumber = [&](int descriptor) { return static_cast<std::uint64_t>(descriptor) == *number; };
    const auto& open = facts.inheritedDescriptors;
    if (isNumber(imageFd) || std::none_of(open.begin(), open.end(), isNumber)) {
        plan.warnings.push_back(
            cat("PMI_FD=", *number, " is not an open file descriptor: not passed to the container"));
        container.erase(inContainer);
        return;
    }
    plan.descriptors.push_back({static_cast<int>(*number), firstPreserved});
    inContainer->second = cat(firstPreserved);
}

void setEnvironment(const Environment& environment, ContainerPlan& plan) {
    plan.environment.assign(environment.begin(), environment.end());
}

void setCaller(const HostFacts& facts, ContainerPlan& plan) {
    plan.uid = facts.uid;
    plan.gid = facts.gid;
    plan.supplementaryGroups = facts.supplementaryGroups;
    plan.umask = facts.umask;
    plan.cpus = facts.cpus;
}

void planEnvironment(const SiteConfig& config, const LaunchRequest& request, const HostFacts& facts,
                     const Environment& host, ContainerPlan& plan) {
    auto environment = makeEnvironment(config, request, request.dryRun ? &plan.environmentOrigins : nullptr);
    planPmiDescriptor(request.imageFd, facts, host, environment, plan);
    plan.localeVariables = localesOfHost(environment, ownVariables(config, request));
    setEnvironment(environment, plan);
}

/// The variables that a new container would have, started by the caller of `exec`. What the site adds to them
/// is in the container's own.
Environment environmentOfOwnStep(const SiteConfig& config, const ExecRequest& request, const ExecBase& base,
                                 std::vector<std::string>& warnings) {
    LaunchRequest again;
    again.hostEnvironment = request.hostEnvironment;
    again.env = request.env;
    const auto ofContainer = parseEnvironment(base.environment);
    for (const auto& [name, value] : ofContainer) {
        if (std::binary_search(base.ownVariables.begin(), base.ownVariables.end(), name)) {
            again.metadata.env.push_back(cat(name, '=', value));
        }
    }
    SiteConfig rules;
    rules.enablePmixV3Support = config.enablePmixV3Support;
    rules.environment.unset = config.environment.unset;
    const auto gpus = ofContainer.find("NVIDIA_VISIBLE_DEVICES");
    if (gpus == ofContainer.end()) {
        return makeEnvironment(rules, again);
    }
    const auto host = parseEnvironment(request.hostEnvironment);
    const auto absent = renumberDevices(valueOf(host, "CUDA_VISIBLE_DEVICES"), gpus->second).absent;
    if (!absent.empty()) {
        warnings.push_back(cat("GPU ", absent, " of this step cannot be used: the container '", request.name,
                               "' was started with ", printable(gpus->second)));
    }
    return makeEnvironment(rules, again, nullptr, gpus->second);
}

void planHooks(const std::vector<oci::HookConfig>& hooks, const std::string& hookOutput, bool reasons,
               ContainerPlan& plan) {
    const auto subject = hookSubject(plan);
    const auto explain = [&](const oci::HookConfig& config) {
        return reasons ? oci::explainConditions(config.when, subject) : std::string();
    };
    std::vector<oci::HookConfig> firing;
    for (const auto& config : hooks) {
        if (!oci::hookFires(config.when, subject)) {
            if (reasons) {
                plan.idleHooks.push_back({.name = config.name(),
                                          .stage = join(config.stages, ","),
                                          .hook = config.hook,
                                          .file = config.file,
                                          .reason = explain(config)});
            }
            continue;
        }
        firing.push_back(config);
        for (const auto& stage : config.stages) {
            plan.hooks.push_back({.name = config.name(),
                                  .stage = stage,
                                  .hook = config.hook,
                                  .file = config.file,
                                  .reason = explain(config)});
        }
    }
    for (auto& warning : secondSshHooks(firing)) {
        plan.warnings.push_back(std::move(warning));
    }
    plan.hookOutput = plan.hooks.empty() ? std::string() : hookOutput;
}

/// "mpich3" for the usual pattern "^mpich3$".
std::string withoutAnchors(std::string_view pattern) {
    pattern.remove_prefix(pattern.starts_with('^') ? 1 : 0);
    pattern.remove_suffix(pattern.ends_with('$') ? 1 : 0);
    return printable(pattern);
}

/// The MPI types that hooks require; an empty one stands for every type.
std::vector<std::string> mpiTypes(const std::vector<oci::HookConfig>& hooks) {
    std::vector<std::string> types;
    for (const auto& hook : hooks) {
        if (auto type = oci::mpiTypePattern(hook.when)) {
            types.push_back(std::move(*type));
        }
    }
    return types;
}

/// Only hooks implement --mpi and --glibc: a container must not start without them unnoticed.
void checkHookOptions(const SiteConfig& config, const LaunchRequest& request,
                      const std::vector<oci::HookConfig>& hooks, ContainerPlan& plan) {
    const auto subject = hookSubject(plan);
    const auto isAnswered = [&](std::string_view key) {
        return std::any_of(hooks.begin(), hooks.end(), [&](const oci::HookConfig& hook) {
            return oci::dependsOnAnnotation(hook.when, key) && oci::hookFires(hook.when, subject);
        });
    };
    if ((request.mpi || request.mpiType) && !isAnswered("com.hooks.mpi.enabled") &&
        !isAnswered("com.hooks.mpi.type")) {
        const auto types = mpiTypes(hooks);
        const auto type = request.mpiType ? request.mpiType : config.defaultMpiType;
        const auto isType = [&](const std::string& pattern) {
            return pattern.empty() || oci::matchesWhole(pattern, *type);
        };
        const bool isUnknown = type && std::none_of(types.begin(), types.end(), isType);
        std::vector<std::string> names(types.size());
        std::transform(types.begin(), types.end(), names.begin(), withoutAnchors);
        std::erase(names, "");
        if (isUnknown && request.mpiType) {
            throw Error(
                cat("No MPI hook has the type '", printable(*type), "'"),
                names.empty() ? "No MPI hook is configured" : cat("Configured types: ", join(names, ", ")));
        }
        constexpr std::string_view noEffect = "The option '--mpi' has no effect: ";
        plan.warnings.push_back(
            isUnknown ? cat(noEffect, "no MPI hook has the default type '", printable(*type), "'")
            : type || names.empty() ? cat(noEffect, "no MPI hook runs for this container")
                                    : cat(noEffect, "choose one of the types ", join(names, ", "),
                                          " (--mpi-type=TYPE; as an option of srun, --container-mpi=TYPE)"));
    }
    if (request.glibc && !isAnswered("com.hooks.glibc.enabled")) {
        plan.warnings.push_back("The option '--glibc' has no effect: no glibc hook runs for this container");
    }
}

}  // namespace

std::optional<std::string> homeOf(const ContainerPlan& plan) {
    const auto found = std::find_if(plan.environment.begin(), plan.environment.end(),
                                    [](const auto& variable) { return variable.first == "HOME"; });
    return found != plan.environment.end() && found->second.starts_with('/') ? std::optional(found->second)
                                                                             : std::nullopt;
}

bool wantsReasons(const LaunchRequest& request) {
    return request.dryRun || request.logLevel == LogLevel::debug;
}

/// The command is the user's, even with an init. The image, `/dev`, the files in /etc, devices and the
/// content of squashfs files do not count as bind mounts for the condition.
oci::HookSubject hookSubject(const ContainerPlan& plan) {
    const auto& command = plan.args.at((plan.initPath ? initArguments : 0) + (plan.hold ? holdArguments : 0));
    const bool hasBindMounts =
        std::any_of(plan.mounts.begin(), plan.mounts.end(),
                    [](const PlannedMount& mount) { return !mount.tmpfsSize && !mount.isSquashfs; });
    return {.annotations = plan.annotations, .command = command, .hasBindMounts = hasBindMounts};
}

ContainerPlan plan(const SiteConfig& config, const LaunchRequest& request, const HostFacts& facts,
                   const std::vector<oci::HookConfig>& hooks, const std::vector<CdiEdits>& cdi) {
    ContainerPlan plan;
    plan.name = planName(request, facts);
    checkKept(request);
    plan.args = planArguments(request);
    plan.initPath = planInit(config, request);
    plan.hold = request.hold;
    plan.workdir = planWorkdir(request);
    plan.volumes = planVolumes(request);
    plan.workdirChosen = request.workdir.has_value();
    setCaller(facts, plan);
    plan.terminal = request.tty;
    plan.privatePid = request.privatePid || request.ssh;
    plan.privateNetwork = request.privateNetwork;
    plan.privateIpc = request.privateIpc;
    plan.privateUts = request.privateUts;
    plan.readonlyRoot = request.readonlyRoot;
    plan.remapRoot = request.remapRoot;
    plan.ttyGroup = facts.ttyGroup;
    if (facts.privileged && !facts.ttyGroup) {
        plan.warnings.push_back(
            "There is no group 'tty' in the group file of the installation: terminals keep the user's group");
    }
    if (request.mpiType) {
        checkMpiType(*request.mpiType);
    }
    if (facts.privileged) {
        checkSiteRules(config, request);
    }
    const auto host = parseEnvironment(request.hostEnvironment);
    checkNetwork(request, host, plan);
    planEnvironment(config, request, facts, host, plan);
    planMounts(config, request, plan);
    planPmixMounts(config, request, host, plan);
    planDevices(config, request, plan);
    plan.annotations = makeAnnotations(config, request, facts);
    checkHookOptions(config, request, hooks, plan);
    planHooks(hooks, facts.hookOutput, wantsReasons(request), plan);
    applyCdiEdits(cdi, facts, plan);
    return plan;
}

ContainerPlan planExec(const SiteConfig& config, const ExecRequest& request, const HostFacts& facts,
                       const ExecBase& base) {
    ContainerPlan plan;
    plan.name = request.name;
    checkContainerName(plan.name);
    if (request.command.empty()) {
        throw Error(cat("No command to run in the container '", plan.name, "'"));
    }
    plan.args = request.command;
    plan.workdir = request.workdir ? resolveWorkdir(*request.workdir, base.workdir) : base.workdir;
    plan.workdirChosen = request.workdir.has_value();
    checkWorkdir(plan.workdir);
    setCaller(facts, plan);
    plan.remapRoot = base.remapRoot;
    plan.terminal = request.tty;
    const auto host = parseEnvironment(request.hostEnvironment);
    Environment environment;
    if (request.ownStep) {
        environment = environmentOfOwnStep(config, request, base, plan.warnings);
        planPmiDescriptor(-1, facts, host, environment, plan);
    } else {
        environment = parseEnvironment(base.environment);
        applyEnvironmentOptions(request.env, host, environment);
    }
    auto own = base.ownVariables;
    for (const auto& option : request.env) {
        own.push_back(parseEnvironmentOption(option).first);
    }
    plan.localeVariables = localesOfHost(environment, own);
    setEnvironment(environment, plan);
    return plan;
}

}  // namespace sarus::engine
