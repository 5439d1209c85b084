#include <sys/stat.h>
#include <unistd.h>

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "doctor/node_checks.hpp"
#include "podman_hpc/doctor/doctor.hpp"

namespace sarus::podman_hpc {

namespace {

using Grade = Finding::Grade;

constexpr std::size_t longestRunRoot = 50;  // of Podman: sockets below it have short names
constexpr std::uint64_t littleSpace = 1'000'000'000;

std::string variableOf(std::string_view key) {
    return key == "graph_root" ? "PODMANHPC_GRAPH_ROOT"
           : key == "run_root" ? "PODMANHPC_RUN_ROOT"
                               : "PODMANHPC_CONFIG_HOME";
}

Finding checkOwn(std::string_view key, const std::string& path, const Patient& patient) {
    const auto uid = patient.from.uid;
    const std::string name(key);
    const auto cure = cat("export ", variableOf(key), "=/DIRECTORY/OF/YOUR/OWN");
    const auto part = doctor::existingPart(path);
    struct stat status {};
    if (::stat(part.c_str(), &status) != 0) {
        return {name, Grade::error, cat(printable(part), " cannot be examined"), cure};
    }
    if (part == path && status.st_uid != uid) {
        return {name, Grade::error, cat(printable(path), " belongs to user ", status.st_uid), cure};
    }
    if (::access(part.c_str(), W_OK | X_OK) != 0) {
        return {name, Grade::error, cat(printable(part), " is not writable"), cure};
    }
    const auto shared = doctor::sharedFilesystem(patient.filesystem(part));
    if (!shared.empty() && key != "config_home") {
        return {name, Grade::warning,
                cat(printable(path), " is on ", shared, ": overlays and subordinate ids fail there"),
                cat("export ", variableOf(key), "=/tmp/", uid, "_hpc/", key == "run_root" ? "run" : "storage",
                    " (local disk or tmpfs)")};
    }
    if (key == "run_root" && path.size() > longestRunRoot) {
        return {name, Grade::error,
                cat(printable(path), " has more than ", longestRunRoot, " characters, Podman's limit"), cure};
    }
    const auto space = doctor::freeSpace(part).value_or(littleSpace);
    if (key == "graph_root" && space < littleSpace) {
        return {name, Grade::warning, cat(printable(path), " has only ", formatSize(space), " free"),
                "podman-hpc system prune"};
    }
    return {name, Grade::ok, cat(printable(path), part == path ? "" : " (not there yet)")};
}

Finding checkStore(const std::string& directory) {
    const auto part = doctor::existingPart(directory);
    if (part != directory && ::access(part.c_str(), W_OK | X_OK) != 0) {
        return {"squash store", Grade::error, cat(printable(directory), " cannot be created"),
                "export SQUASH_DIR=/DIRECTORY/OF/YOUR/OWN"};
    }
    if (part == directory && ::access(cat(directory, "/.").c_str(), R_OK | X_OK) != 0) {
        return {"squash store", Grade::error, cat(printable(directory), " cannot be read"),
                "export SQUASH_DIR=/DIRECTORY/OF/YOUR/OWN"};
    }
    return {"squash store", Grade::ok,
            cat(printable(directory), part == directory ? "" : " (not there yet)")};
}

/// Podman without XDG_RUNTIME_DIR uses directories in /tmp with fixed names.
Finding checkRuntimeDirectory(const Patient& patient) {
    for (const std::string_view name : {"/tmp/podman-run-", "/tmp/containers-user-"}) {
        const auto path = cat(name, patient.from.uid);
        struct stat status {};
        if (patient.from.uid != 0 && ::lstat(path.c_str(), &status) == 0 &&
            (status.st_uid != patient.from.uid || !S_ISDIR(status.st_mode))) {
            return {"runtime directory", Grade::error,
                    cat(path, " belongs to user ", status.st_uid, ", and Podman needs it"),
                    cat("rm -rf ", path, " (as root or that user)")};
        }
    }
    const auto runtime = patient.from.variable("XDG_RUNTIME_DIR");
    if (!runtime) {
        return {"runtime directory", Grade::ok, "XDG_RUNTIME_DIR is not set, and not needed"};
    }
    if (!isDirectory(*runtime)) {
        return {"runtime directory", Grade::note,
                cat("XDG_RUNTIME_DIR ", printable(*runtime), " does not exist; podman-hpc does without it")};
    }
    return {"runtime directory", Grade::ok, cat(printable(*runtime), " is used for `podman-hpc login` only")};
}

}  // namespace

std::vector<Finding> checkDirectories(const Patient& patient) {
    const auto& settings = patient.settings;
    std::vector<Finding> all;
    for (const auto key : {Key::graphRoot, Key::runRoot, Key::configHome}) {
        all.push_back(checkOwn(keyTable[static_cast<std::size_t>(key)].name, settings.text(key), patient));
    }
    all.push_back(checkStore(patient.squashDir()));
    all.push_back(checkRuntimeDirectory(patient));
    return all;
}

}  // namespace sarus::podman_hpc
