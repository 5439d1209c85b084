#include <sys/stat.h>
#include <unistd.h>

#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "doctor/node_checks.hpp"
#include "node/cgroups.hpp"
#include "podman_hpc/doctor/doctor.hpp"

namespace sarus::podman_hpc {

namespace {

using Grade = Finding::Grade;

Finding checkPodman(const std::string& program) {
    if (program.empty()) {
        return {"podman", Grade::error, "Podman is not in PATH", "apt-get install podman, or set podman_bin"};
    }
    if (::access(program.c_str(), X_OK) != 0) {
        return {"podman", Grade::error, cat(program, " cannot be executed"), "set podman_bin"};
    }
    const auto result = runAndCapture({.path = program, .args = {program, "--version"}});
    const auto version = std::string(trim(result.out));
    return result.status.ok() ? Finding{"podman", Grade::ok, cat(program, ", ", printable(version))}
                              : Finding{"podman", Grade::error,
                                        cat(program, " --version fails: ", printable(trim(result.err))),
                                        "set podman_bin to a Podman that works on this node"};
}

Finding checkRuntime() {
    const auto crun = findProgram("crun");
    const auto runc = findProgram("runc");
    if (!crun && !runc) {
        return {"OCI runtime", Grade::error, "neither crun nor runc is in PATH", "apt-get install crun"};
    }
    if (node::detectCgroupLayout() == node::CgroupLayout::hybrid && crun) {
        return {"OCI runtime", runc ? Grade::warning : Grade::error,
                "crun refuses the hybrid cgroups of this node",
                runc ? "podman-hpc --runtime runc ..., or boot with systemd.unified_cgroup_hierarchy=1"
                     : "apt-get install runc, or boot with systemd.unified_cgroup_hierarchy=1"};
    }
    return {"OCI runtime", Grade::ok, crun ? *crun : *runc};
}

Finding checkMountProgram(const std::string& program) {
    if (program.empty() || ::access(program.c_str(), X_OK) != 0) {
        return {"mount program", Grade::error,
                program.empty() ? "neither fuse-overlayfs-wrap nor fuse-overlayfs is in PATH"
                                : cat(program, " cannot be executed"),
                "apt-get install fuse-overlayfs, or set mount_program"};
    }
    return {"mount program", Grade::ok, program};
}

}  // namespace

std::vector<Finding> checkPrograms(const Patient& patient) {
    return {checkPodman(patient.settings.text(Key::podmanBin)), checkRuntime(),
            checkMountProgram(patient.settings.text(Key::mountProgram)), doctor::checkFuse(Grade::error)};
}

}  // namespace sarus::podman_hpc
