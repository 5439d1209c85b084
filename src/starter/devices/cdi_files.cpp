#include "starter/devices/cdi_files.hpp"

#include <algorithm>

#include "base/config_files.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "engine/environment.hpp"

namespace sarus::starter {

namespace {

void readDirectory(const std::string& directory, std::size_t priority, PathChecker& paths,
                   engine::CdiFiles& found) {
    const auto checked = paths.check(directory);
    if (!checked) {
        return;
    }
    const auto check = [&](const OpenConfigFile& file) {
        if (file.throughLink) {
            paths.check(file.path);  // may be below directories that have not been checked yet
        }
        checkStatus(file.status, file.path, paths.owners());
    };
    for (const auto& path : listFiles(checked->directory, directory, {".json", ".yaml"})) {
        try {
            auto spec = oci::parseCdiSpec(readCheckedFile(checked->directory, path, check), path);
            found.files.push_back({.spec = std::move(spec), .priority = priority});
        } catch (const Error& error) {
            found.problems.emplace_back(error.what());
        }
    }
}

}  // namespace

std::vector<std::string> cdiDirectories(const engine::SiteConfig& config, bool privileged,
                                        const std::vector<std::string>& callerEnvironment) {
    auto directories = config.cdiSpecDirs;
    if (privileged || directories.empty()) {
        return directories;
    }
    const auto environment = engine::parseEnvironment(callerEnvironment);
    const auto variable = [&](std::string_view name) {
        const auto found = environment.find(name);
        return found == environment.end() ? std::string() : found->second;
    };
    if (const auto folder = variable("XDG_CONFIG_HOME"); folder.starts_with('/')) {
        directories.push_back(cat(folder, "/cdi"));
    } else if (const auto home = variable("HOME"); home.starts_with('/')) {
        directories.push_back(cat(home, "/.config/cdi"));
    }
    return directories;
}

engine::CdiFiles readCdiFiles(const std::vector<std::string>& directories, PathChecker& paths) {
    engine::CdiFiles found;
    found.directories = directories;
    for (std::size_t priority = 0; priority < directories.size(); ++priority) {
        try {
            readDirectory(directories[priority], priority, paths, found);
        } catch (const Error& error) {
            found.problems.emplace_back(error.what());
        }
    }
    return found;
}

std::vector<engine::CdiEdits> loadCdiEdits(const std::vector<std::string>& devices,
                                           const std::vector<std::string>& directories, PathChecker& paths) {
    const auto names = engine::cdiRequests(devices);
    if (names.empty()) {
        return {};
    }
    const auto found = readCdiFiles(directories, paths);
    for (const auto& problem : found.problems) {
        logInfo("CDI", cat("Not usable: ", problem));
    }
    auto edits = engine::resolveCdiDevices(found, names);
    for (const auto& from : edits) {
        for (const auto& edit : from.edits.hooks) {
            if (edit.stage != "startContainer") {  // that one runs inside the container
                paths.check(edit.hook.path);
            }
        }
    }
    return edits;
}

}  // namespace sarus::starter
