#include <sys/stat.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "podman_hpc/doctor/doctor.hpp"

namespace sarus::podman_hpc {

namespace {

/// The command that chooses another directory, and who has chosen this one.
std::string choose(std::string_view variable, std::string_view place, const SettingValue& now, uid_t uid) {
    if (now.origin.kind == Origin::Kind::commandLine) {
        return cat("Change the ", describe(now.origin));
    }
    return cat("export ", variable, "=/tmp/", uid, "_hpc", place, " # local disk or tmpfs; now ",
               describe(now.origin));
}

}  // namespace

Finding checkOwnDirectory(Key key, const Patient& patient) {
    constexpr std::size_t longestRunRoot = 50;  // of Podman: sockets below it have short names
    const auto& value = patient.settings.setting(key).back();
    const auto& path = value.words.front();
    const auto uid = patient.from.uid;
    const auto cure = key == Key::graphRoot ? choose("PODMANHPC_GRAPH_ROOT", "/storage", value, uid)
                      : key == Key::runRoot ? choose("PODMANHPC_RUN_ROOT", "/run", value, uid)
                                            : choose("PODMANHPC_CONFIG_HOME", "/config", value, uid);
    const auto part = doctor::existingPart(path);
    if (struct stat status{}; part == path && ::stat(path.c_str(), &status) == 0 && status.st_uid != uid) {
        throw Error(cat(printable(path), " belongs to user ", status.st_uid), cure);
    }
    auto found = doctor::checkDirectory({path, cure, key == Key::graphRoot ? "podman-hpc system prune" : ""});
    const auto shared = doctor::sharedFilesystem(patient.filesystem(part));
    if (!shared.empty() && key != Key::configHome) {
        return doctor::warning(
            cat(printable(path), " is on ", shared, ": overlays and subordinate ids fail there"), cure);
    }
    if (key == Key::runRoot && path.size() > longestRunRoot) {
        throw Error(cat(printable(path), " has more than ", longestRunRoot, " characters, Podman's limit"),
                    cure);
    }
    return found;
}

Finding checkSquashDirectory(const Patient& patient) {
    const auto& directory = patient.squashDir();
    const auto part = doctor::existingPart(directory);
    const bool isThere = part == directory;
    if (::access(isThere ? cat(directory, "/.").c_str() : part.c_str(), (isThere ? R_OK : W_OK) | X_OK) !=
        0) {
        throw Error(cat(printable(directory), isThere ? " cannot be read" : " cannot be created"),
                    choose("SQUASH_DIR", "/squash", patient.squash, patient.from.uid));
    }
    return doctor::ok(cat(printable(directory), isThere ? "" : " (not there yet)"));
}

/// Podman without XDG_RUNTIME_DIR uses directories in /tmp with fixed names.
Finding checkRuntimeDirectory(const Patient& patient) {
    for (const std::string_view name : {"/tmp/podman-run-", "/tmp/containers-user-"}) {
        const auto path = cat(name, patient.from.uid);
        struct stat status {};
        if (patient.from.uid != 0 && ::lstat(path.c_str(), &status) == 0 &&
            (status.st_uid != patient.from.uid || !S_ISDIR(status.st_mode))) {
            throw Error(cat(path, " belongs to user ", status.st_uid, ", and Podman needs it"),
                        cat("rm -rf ", path, " # as root or that user"));
        }
    }
    const auto runtime = patient.from.variable("XDG_RUNTIME_DIR");
    if (!runtime) {
        return doctor::ok("XDG_RUNTIME_DIR is not set, and not needed");
    }
    if (!isDirectory(*runtime)) {
        return doctor::note(
            cat("XDG_RUNTIME_DIR ", printable(*runtime), " does not exist; podman-hpc does without it"));
    }
    return doctor::ok(cat(printable(*runtime), " is used for `podman-hpc login` only"));
}

}  // namespace sarus::podman_hpc
