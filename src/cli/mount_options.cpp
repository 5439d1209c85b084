#include "cli/mount_options.hpp"

#include <cstdlib>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "cli/command_line.hpp"
#include "cli/edf.hpp"

namespace sarus::cli {

namespace {

/// DESTINATION[:size=SIZE] as the value of --mount.
std::string tmpfsRequest(const std::string& text) {
    const auto colon = text.find(':');
    const auto option = colon == std::string::npos ? std::string() : cat(',', text.substr(colon + 1));
    if (text.find(',') != std::string::npos || (!option.empty() && !option.starts_with(",size="))) {
        throw usageError(
            cat("Invalid value '", printable(text), "' of --tmpfs: expected DESTINATION[:size=SIZE]"), "run");
    }
    return cat("type=tmpfs,destination=", text.substr(0, colon), option);
}

/// Apptainer separates mounts by commas. One stands in front of a source, which begins with '/', "./" or
/// "../".
std::vector<std::string> splitVolumes(const std::string& text) {
    std::vector<std::string> volumes;
    for (auto& part : split(text, ',')) {
        if (volumes.empty() || part.starts_with('/') || part.starts_with("./") || part.starts_with("../")) {
            volumes.push_back(std::move(part));
        } else {
            volumes.back() += cat(',', part);
        }
    }
    return volumes;
}

std::string homeDirectory() {
    const char* home = std::getenv("HOME");
    if (home == nullptr || *home != '/') {
        throw Error("The option '--home' has no directory to mount: HOME is not an absolute path");
    }
    return home;
}

}  // namespace

std::optional<oci::MountRequest> otherHome(const Arguments& arguments) {
    const auto value = arguments.value("home");
    return value.empty()
               ? std::nullopt
               : std::optional(readMount({.text = value, .where = "--home"}, value, workingDirectory()));
}

std::string mountInPlace(const std::string& directory, const std::string& option) {
    return oci::toText(readMount({.text = directory, .where = option}, directory, "/"));
}

std::vector<std::string> mountRequests(const Arguments& arguments) {
    auto requests = arguments.values("mount");
    for (const auto& option : arguments.values("volume")) {
        for (const auto& volume : splitVolumes(option)) {
            requests.push_back(
                oci::toText(readMount({.text = volume, .where = "--volume"}, volume, workingDirectory())));
        }
    }
    for (const auto& tmpfs : arguments.values("tmpfs")) {
        requests.push_back(tmpfsRequest(tmpfs));
    }
    if (const auto home = otherHome(arguments)) {
        requests.push_back(oci::toText(*home));
    } else if (arguments.has("home")) {
        requests.push_back(mountInPlace(homeDirectory(), "--home"));
    }
    if (arguments.has("cwd")) {
        requests.push_back(mountInPlace(workingDirectory(), "--cwd"));
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
         .help = "Mount an empty directory in memory: DESTINATION[:size=SIZE]"},
        {.longName = "volume",
         .shortName = 'v',
         .takesValue = true,
         .repeatable = true,
         .help = "Mount a directory or file: SOURCE[:DESTINATION[:ro]]",
         .aliases = {"bind", "B"},
         .completion = Completion::files},
    };
}

}  // namespace sarus::cli
