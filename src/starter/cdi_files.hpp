#pragma once

#include <string>
#include <vector>

#include "engine/cdi.hpp"
#include "engine/site_config.hpp"
#include "starter/security_checks.hpp"

namespace sarus::starter {

/// Where CDI files are looked for, by ascending priority: the site's directories and, for a starter without privileges, the
/// caller's own ($XDG_CONFIG_HOME/cdi, else $HOME/.config/cdi). None if the site has switched CDI off.
std::vector<std::string> cdiDirectories(const engine::SiteConfig& config, bool privileged,
                                        const std::vector<std::string>& callerEnvironment);

/// Reads the "*.json" and "*.yaml" in the directories, in the order of their names. A file gives away devices and runs programs
/// with the rights of the engine, so it counts only if nobody who is not trusted can change it or a directory on the way to it,
/// whatever `securityChecks` says. What cannot be used is left out, and listed with the reason.
engine::CdiFiles readCdiFiles(const std::vector<std::string>& directories, PathChecker& paths);

/// What the CDI devices among the values of --device do to the container; reads nothing if there are none. Throws Error, also for
/// a hook whose program somebody else could change.
std::vector<engine::CdiEdits> loadCdiEdits(const std::vector<std::string>& devices, const std::vector<std::string>& directories,
                                           PathChecker& paths);

}  // namespace sarus::starter
