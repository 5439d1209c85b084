#include "engine/runtime_config_builder.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "hook_contracts/enter_call.hpp"
#include "hook_contracts/hook_wrapper.hpp"

namespace sarus::engine {

namespace {

using Options = std::vector<std::string>;

/// What Podman leaves root of a container, each for the files and processes of the user namespace alone.
Options capabilitiesOfRoot() {
    return {"CAP_CHOWN",   "CAP_DAC_OVERRIDE",     "CAP_FOWNER",    "CAP_FSETID",
            "CAP_KILL",    "CAP_NET_BIND_SERVICE", "CAP_SETFCAP",   "CAP_SETGID",
            "CAP_SETPCAP", "CAP_SETUID",           "CAP_SYS_CHROOT"};
}

oci::RuntimeProcess makeProcess(const ContainerPlan& plan, const SiteConfig& config,
                                const RuntimeDialect& dialect, const RuntimeInputs& inputs) {
    oci::RuntimeProcess process;
    process.terminal = plan.terminal;
    process.consoleSize = inputs.consoleSize;
    process.user.uid = plan.uid;
    process.user.gid = plan.gid;
    process.user.umask = plan.umask;
    process.env = plan.environment;
    process.rlimits = inputs.rlimits;
    process.noNewPrivileges = true;
    process.apparmorProfile = config.apparmorProfile;
    process.selinuxLabel = config.selinuxLabel;
    if (dialect.privileged) {
        process.user.additionalGids = plan.supplementaryGroups;
    }  // otherwise the kernel keeps the groups: setgroups(2) is denied in the user namespace
    // The runtime would look up the directory and the program with its own rights: sarus-enter has the
    // user's.
    process.cwd = "/";
    process.args = {hook_contracts::enterProgram};
    if (plan.remapRoot) {
        process.user.uid = 0;
        process.user.gid = 0;
        process.capabilities.bounding = process.capabilities.effective = process.capabilities.permitted =
            capabilitiesOfRoot();
        process.args.emplace_back("--root");
    }
    if (createsUserInside(plan, dialect)) {
        process.user.uid = 0;
        process.user.gid = 0;
        const Options needed{"CAP_SETFCAP"};  // for writing a map with a parent's id 0 (Linux 5.12)
        process.capabilities.bounding = process.capabilities.effective = process.capabilities.permitted =
            needed;
        process.args.push_back(cat("--ids=", plan.uid, ':', plan.gid));
        if (inputs.payloadNamespace) {
            process.args.push_back(cat("--namespace=", *inputs.payloadNamespace));
        }
    }
    if (!inputs.ignoredSignals.empty()) {
        std::vector<std::string> numbers;
        for (const int signal : inputs.ignoredSignals) {
            numbers.push_back(cat(signal));
        }
        process.args.push_back(cat("--ignore=", join(numbers, ",")));
    }
    if (inputs.oomScore) {
        process.args.push_back(cat("--oom-score-adj=", *inputs.oomScore));
    }
    if (!plan.cpus.empty()) {
        process.args.push_back(cat("--cpus=", oci::formatCpuList(plan.cpus)));
    }
    if (!plan.localeVariables.empty()) {
        process.args.push_back(cat("--locale=", join(plan.localeVariables, ",")));
    }
    for (auto& word : hook_contracts::enterWords({.workdir = plan.workdir,
                      .isDefaultWorkdir = !plan.workdirChosen,
                      .command = plan.args,
                      .environment = plan.environment})) {
        process.args.push_back(std::move(word));
    }
    return process;
}

/// The starter mounted the root nosuid and nodev. Runtimes clear these flags when they change others of the
/// root, except in a user namespace that does not own the mount. So the configuration makes them set all
/// flags together, by remounts that they delay until hooks have used the writable root.
void addRootMount(const ContainerPlan& plan, OciRuntime runtime, bool isReadonly,
                  std::vector<oci::RuntimeMount>& mounts) {
    Options options{"remount", "nosuid", "nodev"};
    if (plan.readonlyRoot) {
        options.emplace_back("ro");
    }
    if (runtime == OciRuntime::crun) {
        // crun binds the root on itself and remounts it. The destination must not be "/", which crun turns
        // into an empty path; a remount ignores its source.
        options.emplace_back("bind");
        mounts.push_back({"/.", "bind", "/", options});
    } else if (plan.readonlyRoot && !isReadonly) {
        // runc 1.3.6 refuses this mount: there, hooks that write to a read-only root need crun.
        // Only mounts of this type are made read-only at the end; a remount ignores the type.
        mounts.push_back({"/.", "tmpfs", "tmpfs", options});
    }
}

/// If the user namespace does not own the network or pid namespace, it may not mount these filesystems; they
/// are bound from the host instead. The starter has mounted the rest of /dev.
void addSystemMounts(const ContainerPlan& plan, const RuntimeDialect& dialect, const RuntimeInputs& inputs,
                     std::vector<oci::RuntimeMount>& mounts) {
    const Options restricted{"nosuid", "noexec", "nodev"};
    const auto with = [](Options options, const Options& more) {
        options.insert(options.end(), more.begin(), more.end());
        return options;
    };
    if (dialect.privileged) {
        addRootMount(plan, dialect.runtime, inputs.rootIsReadonly, mounts);
    }
    if (plan.privatePid) {
        mounts.push_back({"/proc", "proc", "proc", restricted});
    } else if (dialect.privileged) {
        mounts.push_back({"/proc", "proc", "proc",
                          with(restricted, inputs.hostProcOptions)});  // it shows the node's processes
    } else {
        mounts.push_back({"/proc", "bind", "/proc", with({"rbind", "rslave"}, restricted)});
    }

    Options devpts{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"};
    if (dialect.privileged) {
        devpts.push_back(
            cat("uid=",
                plan.uid));  // runc may not give a terminal to the user by its descriptor (stream_owners.hpp)
        if (plan.ttyGroup) {
            devpts.push_back(cat("gid=", *plan.ttyGroup));
        }
    }
    mounts.push_back({"/dev/pts", "devpts", "devpts", devpts});
    if (plan.privateIpc) {
        mounts.push_back({"/dev/mqueue", "mqueue", "mqueue", restricted});
    }
    if (dialect.privileged) {
        mounts.push_back({"/sys", "sysfs", "sysfs", with(restricted, {"ro"})});
        mounts.push_back({"/sys/fs/cgroup", "cgroup", "cgroup", with(restricted, {"relatime", "ro"})});
    } else {
        mounts.push_back({"/sys", "bind", "/sys", with({"rbind", "rslave"}, with(restricted, {"ro"}))});
    }
}

/// crun binds files and directories over themselves or /dev/null, and drops all flags except read-only. With
/// privileges it therefore gets mounts instead. (In a user namespace it cannot drop all flags, and
/// set-user-ID has no effect.)
void addKernelPaths(const RuntimeDialect& dialect, const RuntimeInputs& inputs, oci::RuntimeConfig& result) {
    const bool mounted = dialect.privileged && dialect.runtime == OciRuntime::crun;
    for (const auto& path : hiddenPaths()) {
        const auto known = inputs.kernelPaths.find(path);
        if (!mounted || known == inputs.kernelPaths.end()) {
            result.linux_.maskedPaths.push_back(path);
        } else if (known->second) {
            result.mounts.push_back(
                {path, "tmpfs", "tmpfs", Options{"ro", "nosuid", "noexec", "nodev", "size=0k"}});
        } else {
            result.mounts.push_back({path, "bind", "/dev/null", Options{"bind", "ro", "nosuid", "noexec"}});
        }
    }
    for (const auto& path : readonlyPaths()) {
        if (!mounted || !inputs.kernelPaths.contains(path)) {
            result.linux_.readonlyPaths.push_back(path);
        } else {
            result.mounts.push_back(
                {path, "bind", path, Options{"rbind", "ro", "nosuid", "noexec", "nodev"}});
        }
    }
}

using Mappings = std::vector<oci::RuntimeIdMapping>;

/// A map may not join ranges of the map above it.
Mappings sameIds(const std::vector<std::uint32_t>& ranges) {
    Mappings mappings;
    std::uint32_t first = 0;
    for (const auto size : ranges) {
        mappings.push_back({first, first, size});
        first += size;
    }
    return mappings;
}

void addUserNamespace(const ContainerPlan& plan, const RuntimeDialect& dialect, const RuntimeInputs& inputs,
                      oci::RuntimeLinux& section) {
    section.namespaces.push_back({"user", inputs.userNamespace});
    const bool later = createsUserInside(plan, dialect);
    section.uidMappings = plan.remapRoot ? sameIds(inputs.uids) : Mappings{{later ? 0 : plan.uid, 0, 1}};
    section.gidMappings = plan.remapRoot ? sameIds(inputs.gids) : Mappings{{later ? 0 : plan.gid, 0, 1}};
}

/// crun runs without a cgroup manager: the starter creates the device cgroup. sarus-enter binds the command
/// to the CPUs of the caller.
void addResources(const ContainerPlan& plan, const RuntimeDialect& dialect, const RuntimeInputs& inputs,
                  oci::RuntimeLinux& section) {
    if (dialect.runtime != OciRuntime::runc || !dialect.privileged) {
        return;
    }
    auto& resources = section.resources.emplace();
    resources.devices.push_back({false, 'a', std::nullopt, std::nullopt, "rwm"});
    resources.devices.insert(resources.devices.end(), inputs.deviceRules.begin(), inputs.deviceRules.end());
    // On version 2 a cgroup next to the job's processes has no controllers.
    const bool isVersion2 = inputs.cgroupsPath && inputs.cgroupsPath->starts_with('/');
    if (!plan.cpus.empty() && !isVersion2) {
        resources.cpus = oci::formatCpuList(plan.cpus);
    }
    section.cgroupsPath = inputs.cgroupsPath;
}

}  // namespace

bool createsUserInside(const ContainerPlan& plan, const RuntimeDialect& dialect) {
    const bool hasHookInside =
        std::any_of(plan.hooks.begin(), plan.hooks.end(),
                    [](const PlannedHook& planned) { return planned.stage == "createContainer"; });
    return !dialect.privileged && !plan.remapRoot &&
           (dialect.runtime == OciRuntime::runc || hasHookInside || dialect.createsUser);
}

const std::vector<std::string>& hiddenPaths() {
    static const std::vector<std::string> paths{
        "/proc/kcore",       "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
        "/proc/sched_debug", "/sys/firmware",       "/proc/scsi"};
    return paths;
}

const std::vector<std::string>& readonlyPaths() {
    static const std::vector<std::string> paths{"/proc/asound", "/proc/bus", "/proc/fs",
                                                "/proc/irq",    "/proc/sys", "/proc/sysrq-trigger"};
    return paths;
}

oci::RuntimeConfig makeRuntimeConfig(const ContainerPlan& plan, const SiteConfig& config,
                                     const RuntimeDialect& dialect, const RuntimeInputs& inputs) {
    oci::RuntimeConfig result;
    result.process = makeProcess(plan, config, dialect, inputs);
    result.root = {config.rootfsFolder, plan.readonlyRoot && !dialect.privileged};
    addSystemMounts(plan, dialect, inputs, result.mounts);

    auto& section = result.linux_;
    section.namespaces.push_back({"mount", std::nullopt});
    if (plan.privatePid) {
        section.namespaces.push_back({"pid", std::nullopt});
    }
    if (plan.privateNetwork) {
        section.namespaces.push_back({"network", std::nullopt});
    }
    if (plan.privateIpc) {
        section.namespaces.push_back({"ipc", std::nullopt});
    }
    if (plan.privateUts) {
        section.namespaces.push_back({"uts", std::nullopt});
    }
    if (!dialect.privileged) {
        addUserNamespace(plan, dialect, inputs, section);
    }
    addResources(plan, dialect, inputs, section);
    section.rootfsPropagation = "slave";
    addKernelPaths(dialect, inputs, result);
    section.mountLabel = config.selinuxMountLabel;
    section.seccomp = inputs.seccompProfile;

    result.annotations = plan.annotations;
    // Otherwise crun drops the output of hooks. On the host, sarus-hook opens the pipe itself: crun would
    // wait forever for a reader, even for poststop hooks after the starter was killed.
    const bool hooksInside =
        std::any_of(plan.hooks.begin(), plan.hooks.end(),
                    [](const PlannedHook& planned) { return planned.stage == "startContainer"; });
    if (hooksInside && dialect.runtime == OciRuntime::crun) {
        result.annotations["run.oci.hooks.stdout"] =
            cat(plan.hookOutput, hook_contracts::wrapper::outputSuffix);
        result.annotations["run.oci.hooks.stderr"] = plan.hookOutput;
    }
    return result;
}

}  // namespace sarus::engine
