#include "podman_hpc/doctor/doctor.hpp"

#include <unistd.h>

#include "base/config_files.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "doctor/runtime_version.hpp"
#include "doctor/subordinate_ids.hpp"
#include "node/cgroups.hpp"
#include "podman_hpc/config/own_hooks.hpp"
#include "podman_hpc/modules/module.hpp"

namespace sarus::podman_hpc {

namespace {

constexpr std::size_t largestFile = 1U << 24U;

/// The instruction to choose another program.
std::string set(Key key, const Settings& settings) {
    const auto& origin = settings.setting(key).back().origin;
    const auto name = keyTable[static_cast<std::size_t>(key)].name;
    return origin.kind == Origin::Kind::builtIn ? cat("set ", name, " in ", printable(settings.configFile))
                                                : cat("correct ", name, " (", describe(origin), ')');
}

Findings checkPodman(const Patient& patient) {
    const auto& program = patient.settings.text(Key::podmanBin);
    const auto cure = cat("apt-get install podman # as root; or ", set(Key::podmanBin, patient.settings));
    if (program.empty()) {
        throw Error("Podman is not in PATH", cure);
    }
    const auto answer = doctor::askVersion(program, cure);
    return {doctor::ok(cat(program, ", ", printable(trim(answer))))};
}

Findings checkRuntime(const Patient& /*patient*/) {
    const auto crun = findProgram("crun");
    const auto runc = findProgram("runc");
    constexpr const char* install = "apt-get install crun # as root";
    if (!crun && !runc) {
        throw Error("neither crun nor runc is in PATH", install);
    }
    if (node::detectCgroupLayout() == node::CgroupLayout::hybrid && crun) {
        constexpr const char* message = "crun refuses the hybrid cgroups of this node";
        constexpr const char* boot = "; or boot with systemd.unified_cgroup_hierarchy=1";
        if (!runc) {
            throw Error(message, cat("apt-get install runc # as root", boot));
        }
        return {doctor::warning(message, cat("podman-hpc --runtime runc run IMAGE # for example", boot))};
    }
    return {doctor::checkRuntime(crun ? *crun : *runc, install, install)};
}

Findings checkMountProgram(const Patient& patient) {
    const auto& program = patient.settings.text(Key::mountProgram);
    if (program.empty() || ::access(program.c_str(), X_OK) != 0) {
        throw Error(
            program.empty() ? "neither fuse-overlayfs-wrap nor fuse-overlayfs is in PATH"
                            : cat(program, " cannot be executed"),
            cat("apt-get install fuse-overlayfs # as root; or ", set(Key::mountProgram, patient.settings)));
    }
    return {doctor::ok(program)};
}

Findings checkSubordinateIds(const Patient& patient) {
    if (patient.from.uid == 0) {
        return {doctor::ok("root needs none")};
    }
    return doctor::checkSubordinateIds(
        patient.from.uid, patient.from.variable("USER"),
        {.grade = Finding::Grade::warning,
         .withoutIds = "containers have one id only; --user, --userns=keep-id and installing packages fail",
         .withFewIds = "images with larger ids fail",
         .furtherCure = std::string(migrateAfterNewIds)});
}

Findings checkHook(const Patient& patient) {
    const auto found = requireHook(patient.settings);
    return {doctor::ok(cat(printable(found.program), ", registered in ", printable(found.file)))};
}

Findings checkModules(const Patient& patient) {
    const auto& directory = patient.settings.text(Key::modulesDir);
    const auto files = moduleFiles(directory);
    for (const auto& file : files) {
        for (const auto& problem : checkModule(file, {}).problems) {
            if (problem.isError) {
                throw Error(problem.message, "podman-hpc module check");
            }
        }
    }
    return {files.empty() ? doctor::note(cat("there are none in ", printable(directory)))
                          : doctor::ok(cat(files.size(), " in ", printable(directory)))};
}

/// The latest failure that the hook has recorded.
Findings checkFailures(const Patient& patient) {
    const auto file = cat(patient.settings.text(Key::graphRoot), "/podman_hpc_hook.log");
    if (::access(file.c_str(), R_OK) != 0) {
        return {};
    }
    const auto text = readFile(file, largestFile);
    return {doctor::warning(printable(split(trim(text), '\n').back()),
                            cat("rm ", shellWord(file), " # after you have corrected the module"))};
}

}  // namespace

Findings examine(const Patient& patient) {
    std::vector<doctor::Check> checks;
    const auto add = [&](const char* name, Findings (*check)(const Patient&)) {
        checks.push_back({name, [&patient, check] { return check(patient); }});
    };
    add("podman", checkPodman);
    add("OCI runtime", checkRuntime);
    add("mount program", checkMountProgram);
    for (auto& check : doctor::nodeChecks(doctor::Program::podmanHpc, [] {
             return doctor::NodeNeeds{.cdiDirectories = {"/etc/cdi", "/var/run/cdi"},
                                      .deviceOption = "podman-hpc run --device"};
         })) {
        checks.push_back(std::move(check));
    }
    add("subordinate ids", checkSubordinateIds);
    for (const auto key : {Key::graphRoot, Key::runRoot, Key::configHome}) {
        checks.push_back({std::string(keyTable[static_cast<std::size_t>(key)].name),
                          [&patient, key] { return Findings{checkOwnDirectory(key, patient)}; }});
    }
    add("squash store", [](const Patient& sick) { return Findings{checkSquashDirectory(sick)}; });
    add("runtime directory", [](const Patient& sick) { return Findings{checkRuntimeDirectory(sick)}; });
    add("hook", checkHook);
    add("modules", checkModules);
    add("image names", checkImages);
    add("hook failures", checkFailures);
    return doctor::examine(checks);
}

}  // namespace sarus::podman_hpc
