#include "starter/verbs/planning.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <exception>

#include "base/log.hpp"
#include "base/mounts.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "node/apparmor.hpp"
#include "node/selinux.hpp"
#include "node/slurm_job.hpp"
#include "squashfs/identity.hpp"
#include "starter/devices/cdi_files.hpp"
#include "starter/entry/host_facts.hpp"
#include "starter/image/image_mount.hpp"
#include "starter/runtime/hooks.hpp"
#include "starter/verbs/site_rules.hpp"

namespace sarus::starter {

namespace {

/// A record misses what cannot be found out, and is no reason to start nothing.
template <typename Describe>
void addToRecords(Session& session, Describe&& describe) noexcept {
    if (!session.audit.isOn()) {
        return;
    }
    try {
        describe(session.audit.about());
    } catch (const std::exception& error) {
        logInfo("Audit", error.what());
    }
}

}  // namespace

void checkNode(const Session& session) {
    if (!session.entry.privilegeNotice.empty()) {
        logInfo("Runtime", session.entry.privilegeNotice);
    }
    checkRootlessAllowed(session);
    checkCaller(session);
    node::checkAppArmorProfile(session.config.apparmorProfile);
    node::checkSelinuxLabel(session.config.selinuxLabel, "selinuxLabel");
    node::checkSelinuxLabel(session.config.selinuxMountLabel, "selinuxMountLabel");
}

engine::ContainerPlan planContainer(const Session& session, const engine::LaunchRequest& request,
                                    const std::string& bundleDir) {
    const auto& config = session.config;
    const auto hooks = loadHooks(config, *session.paths);
    auto facts = gatherHostFacts(session);
    facts.hookOutput = cat(bundleDir, '/', hookLogName);
    const auto directories =
        cdiDirectories(config, session.credentials.privileged(), request.hostEnvironment);
    auto plan = engine::plan(config, request, facts, hooks,
                             loadCdiEdits(request.devices, directories, *session.paths));
    logWarnings(plan);
    checkHookStages(plan, session.entry.prefix);
    checkHookPrograms(plan, session.checker());
    return plan;
}

std::string callerVariable(const std::vector<std::string>& environment, std::string_view name) {
    for (const auto& entry : environment) {
        if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
            return entry.substr(name.size() + 1);
        }
    }
    return {};
}

node::SlurmJobMark markJob(const std::vector<std::string>& environment) {
    return node::markSlurmJob(callerVariable(environment, "SLURM_JOB_ID"),
                              callerVariable(environment, "SLURM_JOB_END_TIME"));
}

void recordCaller(Session& session, std::string_view verb,
                  const std::vector<std::string>& callerEnvironment) noexcept {
    addToRecords(session, [&](AuditFields& fields) {
        fields.text("verb", verb).number("gid", session.credentials.gid());
        fields.text("user", userName(session.config, session.credentials.uid()));
        if (const auto job = node::slurmJobOfCgroups()) {
            fields.number("job", *job);
        } else if (const auto claimed = callerVariable(callerEnvironment, "SLURM_JOB_ID"); !claimed.empty()) {
            fields.text("claimed_job", claimed);
        }
    });
}

void recordPlan(Session& session, const engine::ContainerPlan& plan) noexcept {
    addToRecords(session, [&](AuditFields& fields) {
        fields.text("container", plan.name);
        std::vector<std::vector<std::string>> mounts;
        for (const auto& mount : plan.mounts) {
            if (mount.origin != engine::MountOrigin::site) {
                mounts.push_back({mount.source, mount.destination, mount.readonly ? "ro" : "rw"});
            }
        }
        std::vector<std::vector<std::string>> devices;
        for (const auto& device : plan.devices) {
            if (device.origin != engine::MountOrigin::site) {
                devices.push_back({device.source, device.destination, device.access});
            }
        }
        if (!mounts.empty()) {
            fields.list("mounts", mounts);
        }
        if (!devices.empty()) {
            fields.list("devices", devices);
        }
    });
}

void recordImage(Session& session, const engine::LaunchRequest& request) noexcept {
    addToRecords(session, [&](AuditFields& fields) {
        fields.text("image", request.imageReference);
        const int image = request.imageFd;
        struct statx status {};  // what the node knows already: no message to a file server
        if (!whyNotByKernel(image).empty() ||
            ::statx(image, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_UID, &status) != 0) {
            return;
        }
        fields.text("file", pathOfDescriptor(image)).number("file_owner", status.stx_uid);
        if (const auto identity =
                S_ISREG(status.stx_mode) ? squashfs::squashfsIdentity(image, "the image") : "";
            !identity.empty()) {
            fields.text("file_id", identity);
        }
    });
}

void logWarnings(const engine::ContainerPlan& plan) {
    for (const auto& warning : plan.warnings) {
        logWarn("Runtime", warning);
    }
}

}  // namespace sarus::starter
