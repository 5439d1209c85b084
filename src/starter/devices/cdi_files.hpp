#pragma once

#include <string>
#include <vector>

#include "base/path_checker.hpp"
#include "engine/cdi.hpp"
#include "engine/site_config.hpp"

namespace sarus::starter {

/// Directories searched for CDI files, by ascending priority: the site's directories and, for an unprivileged
/// starter, the caller's own ($XDG_CONFIG_HOME/cdi, else $HOME/.config/cdi). Empty if the site disables CDI.
std::vector<std::string> cdiDirectories(const engine::SiteConfig& config, bool privileged,
                                        const std::vector<std::string>& callerEnvironment);

/// Reads the "*.json" and "*.yaml" files in the directories in name order. A file grants access to devices
/// and runs programs with the engine's rights. It therefore counts only if no untrusted user can change it or
/// a directory above it, whatever `securityChecks` says. Unusable files are skipped and listed with the
/// reason.
engine::CdiFiles readCdiFiles(const std::vector<std::string>& directories, PathChecker& paths);

/// The container edits of the CDI devices among the values of --device. Reads nothing if there are none.
/// Throws Error, also for a hook whose program an untrusted user can change.
std::vector<engine::CdiEdits> loadCdiEdits(const std::vector<std::string>& devices,
                                           const std::vector<std::string>& directories, PathChecker& paths);

}  // namespace sarus::starter
