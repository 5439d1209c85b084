#include "cli/mount_options.hpp"

#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/text.hpp"

namespace sarus::cli {

namespace {

std::string homeDirectory() {
    auto home = hostVariable("HOME").value_or("");
    if (!home.starts_with('/')) {
        throw Error("The option '--home' has no directory to mount: HOME is not an absolute path");
    }
    return home;
}

/// Behind a comma, Apptainer reads another mount; here a word without '/' or '.' continues the path. Throws
/// Error where this cannot be meant.
void checkComma(const oci::MountRequest& mount) {
    const auto comma = mount.source.find(',');
    if (comma == std::string::npos || pathExists(mount.source) || errno != ENOENT ||
        !pathExists(mount.source.substr(0, comma))) {
        return;
    }
    throw Error(
        cat("Failed to mount ", printable(mount.source), ": No such file or directory"),
        cat("A mount behind a comma begins with '/' or '.': -B ", printable(mount.source.substr(0, comma)),
            ",./", printable(mount.source.substr(comma + 1))));
}

}  // namespace

std::optional<oci::MountRequest> otherHome(const Arguments& arguments) {
    const auto value = arguments.value("home");
    if (value.empty()) {
        return std::nullopt;
    }
    auto home = oci::parseVolume(value, "--home", findWorkingDirectory());
    if (home.isUnmount) {
        throw Error("--home: 'umount' is no directory",
                    "Leave the option out, or write --volume=umount:PATH");
    }
    return home;
}

std::vector<oci::MountRequest> mountRequests(const Arguments& arguments) {
    std::vector<oci::MountRequest> requests;
    for (const auto& mount : arguments.values("mount")) {
        requests.push_back(oci::parseMountRequest(mount));
    }
    for (const auto& option : arguments.values("volume")) {
        for (const auto& volume : oci::splitVolumes(option)) {
            requests.push_back(oci::parseVolume(volume, "--volume", findWorkingDirectory()));
            checkComma(requests.back());
        }
    }
    for (const auto& tmpfs : arguments.values("tmpfs")) {
        requests.push_back(oci::parseTmpfs(tmpfs));
    }
    if (auto home = otherHome(arguments)) {
        requests.push_back(std::move(*home));
    } else if (arguments.has("home")) {
        requests.push_back(oci::mountInPlace(homeDirectory()));
    }
    if (arguments.has("cwd")) {
        requests.push_back(oci::mountInPlace(workingDirectory()));
    }
    return requests;
}

std::vector<Option> mountOptions() {
    return {
        {.longName = "cwd", .help = "Mount the working directory at the same path, and start there"},
        {.longName = "home",
         .help = "Mount the home directory at the same path; '--home=SOURCE[:DESTINATION]': another one, "
                 "which becomes HOME",
         .mayHaveValue = true},
        {.longName = "mount",
         .takesValue = true,
         .repeatable = true,
         .help = "Mount custom directories into the container",
         .completion = Completion::files},
        {.longName = "tmpfs",
         .takesValue = true,
         .repeatable = true,
         .help = "Mount an empty directory in memory: DESTINATION[:size=SIZE,mode=MODE]"},
        {.longName = "volume",
         .shortName = 'v',
         .takesValue = true,
         .repeatable = true,
         .help = "Mount a directory or file: SOURCE[:DESTINATION[:ro]]; or the content of a squashfs or SIF "
                 "file: "
                 "FILE:DESTINATION:sqsh. 'umount:DESTINATION' leaves an earlier mount out",
         .aliases = {"bind", "B"},
         .completion = Completion::files},
    };
}

}  // namespace sarus::cli
