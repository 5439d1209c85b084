#include "engine/runtime_config_builder.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::engine {

namespace {

using Options = std::vector<std::string>;

oci::RuntimeProcess makeProcess(const ContainerPlan& plan, const SiteConfig& config, const RuntimeDialect& dialect,
                                const RuntimeInputs& inputs) {
    oci::RuntimeProcess process;
    process.terminal = plan.terminal;
    process.user.uid = plan.uid;
    process.user.gid = plan.gid;
    process.user.umask = plan.umask;
    process.args = plan.args;
    process.env = plan.environment;
    process.cwd = plan.workdir;
    process.rlimits = inputs.rlimits;
    process.noNewPrivileges = true;
    process.apparmorProfile = config.apparmorProfile;
    process.selinuxLabel = config.selinuxLabel;
    if (dialect.privileged) {
        process.user.additionalGids = plan.supplementaryGroups;
    }  // else the kernel keeps the groups: setgroups(2) is denied in the user namespace
    if (needsIdMapHelper(plan, dialect)) {
        process.user.uid = 0;
        process.user.gid = 0;
        const Options needed{"CAP_SETFCAP"};  // for writing a map with a parent's id 0 (Linux 5.12)
        process.capabilities.bounding = process.capabilities.effective = process.capabilities.permitted = needed;
        Options prefix{dialect.idMapHelper};
        if (inputs.payloadNamespace) {
            prefix.push_back(cat("--enter=", *inputs.payloadNamespace));
        }
        prefix.insert(prefix.end(), {cat(plan.uid), cat(plan.gid)});
        process.args.insert(process.args.begin(), prefix.begin(), prefix.end());
    }
    return process;
}

/// The starter mounted the root nosuid and nodev. Runtimes clear these flags where they change the root's others, which only a
/// user namespace prevents: then they do not own the mount. So they are told to change all of them together, by remounts that
/// they delay until hooks have had the root writable.
void addRootMount(const ContainerPlan& plan, OciRuntime runtime, std::vector<oci::RuntimeMount>& mounts) {
    Options options{"remount", "nosuid", "nodev"};
    if (plan.readonlyRoot) {
        options.emplace_back("ro");
    }
    if (runtime == OciRuntime::crun) {
        // crun binds the root on itself and remounts it. Its name must not be "/", which crun turns into an empty path; the
        // source of a remount is not looked at.
        options.emplace_back("bind");
        mounts.push_back({"/.", "bind", "/", options});
    } else if (plan.readonlyRoot) {
        // Only mounts of this type are made read-only in the end; a remount does not look at the type.
        mounts.push_back({"/.", "tmpfs", "tmpfs", options});
    }
}

/// What a user namespace that does not own the network, ipc or pid namespace may not mount is bound from the host instead.
void addSystemMounts(const ContainerPlan& plan, const RuntimeDialect& dialect, const RuntimeInputs& inputs,
                     std::vector<oci::RuntimeMount>& mounts) {
    const Options restricted{"nosuid", "noexec", "nodev"};
    const auto with = [](Options options, const Options& more) {
        options.insert(options.end(), more.begin(), more.end());
        return options;
    };
    if (dialect.privileged) {
        addRootMount(plan, dialect.runtime, mounts);
    }
    if (plan.privatePid) {
        mounts.push_back({"/proc", "proc", "proc", dialect.privileged ? Options{} : restricted});
    } else if (dialect.privileged) {
        mounts.push_back({"/proc", "proc", "proc", inputs.hostProcOptions});  // it shows the node's processes
    } else {
        mounts.push_back({"/proc", "bind", "/proc", with({"rbind", "rslave"}, restricted)});
    }

    Options devpts{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"};
    if (dialect.privileged) {
        devpts.push_back(
            cat("uid=", plan.uid));  // runc may not give a terminal to the user by its descriptor (stream_owners.hpp)
        if (plan.ttyGroup) {
            devpts.push_back(cat("gid=", *plan.ttyGroup));
        }
    }
    mounts.push_back({"/dev/pts", "devpts", "devpts", devpts});
    mounts.push_back({"/dev/shm", "bind", "/dev/shm", with(restricted, {"rbind", "slave", "rw"})});
    if (dialect.privileged) {
        mounts.push_back({"/dev/mqueue", "mqueue", "mqueue", restricted});
    } else if (inputs.hostHasMqueue) {  // the ipc namespace is the host's, so this is the same filesystem
        mounts.push_back({"/dev/mqueue", "bind", "/dev/mqueue", with(restricted, {"rbind", "rslave"})});
    }
    if (dialect.privileged) {
        mounts.push_back({"/sys", "sysfs", "sysfs", with(restricted, {"ro"})});
        mounts.push_back({"/sys/fs/cgroup", "cgroup", "cgroup", with(restricted, {"relatime", "ro"})});
    } else {
        mounts.push_back({"/sys", "bind", "/sys", with({"rbind", "rslave"}, with(restricted, {"ro"}))});
    }
}

void addUserNamespace(const ContainerPlan& plan, const RuntimeDialect& dialect, const RuntimeInputs& inputs,
                      oci::RuntimeLinux& section) {
    section.namespaces.push_back({"user", inputs.userNamespace});
    const bool helper = needsIdMapHelper(plan, dialect);
    section.uidMappings = {{helper ? 0 : plan.uid, 0, 1}};
    section.gidMappings = {{helper ? 0 : plan.gid, 0, 1}};
}

/// crun runs without a cgroup manager: the starter makes the device cgroup itself, and the affinity is inherited.
void addResources(const ContainerPlan& plan, const RuntimeDialect& dialect, const RuntimeInputs& inputs,
                  oci::RuntimeLinux& section) {
    if (dialect.runtime != OciRuntime::runc || !dialect.privileged) {
        return;
    }
    auto& resources = section.resources.emplace();
    resources.devices.push_back({false, 'a', std::nullopt, std::nullopt, "rwm"});
    resources.devices.insert(resources.devices.end(), inputs.deviceRules.begin(), inputs.deviceRules.end());
    // On version 2 a cgroup next to the job's processes has no controllers; the affinity is inherited as well.
    if (!plan.cpus.empty() && !inputs.cgroupsPath) {
        resources.cpus = oci::formatCpuList(plan.cpus);
    }
    section.cgroupsPath = inputs.cgroupsPath;
}

/// Stages in the order in which they happen, those without a hook left out; within a stage, the order of the files.
void addHooks(const ContainerPlan& plan, oci::RuntimeConfig& config) {
    for (const auto& stage : oci::hookStages()) {
        std::vector<oci::RuntimeHook> hooks;
        for (const auto& planned : plan.hooks) {
            if (planned.stage == stage && stage != oci::kPrecreateStage) {
                hooks.push_back(planned.hook);
            }
        }
        if (!hooks.empty()) {
            config.hooks.emplace_back(stage, std::move(hooks));
        }
    }
}

}  // namespace

bool needsIdMapHelper(const ContainerPlan& plan, const RuntimeDialect& dialect) {
    const bool hasHookInside = std::any_of(plan.hooks.begin(), plan.hooks.end(),
                                           [](const PlannedHook& planned) { return planned.stage == "createContainer"; });
    return !dialect.privileged && (dialect.runtime == OciRuntime::runc || hasHookInside || dialect.madeWithHelper);
}

oci::RuntimeConfig makeRuntimeConfig(const ContainerPlan& plan, const SiteConfig& config, const RuntimeDialect& dialect,
                                     const RuntimeInputs& inputs) {
    if (needsIdMapHelper(plan, dialect) && dialect.idMapHelper.empty()) {
        throw Error("Cannot start the container without privileges: the id-map helper is missing");
    }
    oci::RuntimeConfig result;
    result.process = makeProcess(plan, config, dialect, inputs);
    result.root = {config.rootfsFolder, plan.readonlyRoot && !dialect.privileged};
    addSystemMounts(plan, dialect, inputs, result.mounts);

    auto& section = result.linux_;
    section.namespaces.push_back({"mount", std::nullopt});
    if (plan.privatePid) {
        section.namespaces.push_back({"pid", std::nullopt});
    }
    if (!dialect.privileged) {
        addUserNamespace(plan, dialect, inputs, section);
    }
    addResources(plan, dialect, inputs, section);
    section.rootfsPropagation = "slave";
    section.maskedPaths = {"/proc/kcore",       "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
                           "/proc/sched_debug", "/sys/firmware",       "/proc/scsi"};
    section.readonlyPaths = {"/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"};
    section.mountLabel = config.selinuxMountLabel;
    section.seccomp = inputs.seccompProfile;

    result.annotations = plan.annotations;
    addHooks(plan, result);
    if (!plan.hookOutput.empty() && dialect.runtime == OciRuntime::crun) {  // crun drops the output of hooks otherwise
        result.annotations["run.oci.hooks.stdout"] = plan.hookOutput;
        result.annotations["run.oci.hooks.stderr"] = plan.hookOutput;
    }
    return result;
}

}  // namespace sarus::engine
