#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hooks/kit/host_library.hpp"
#include "hooks/kit/run_hook.hpp"
#include "oci/runtime/runtime_config.hpp"

namespace sarus::hooks::pc_injection {

/// The site's settings, from `args` or, for what they do not name, from `env` of the hook's JSON file.
struct Settings {
    std::vector<HostLibrary> primary;     ///< --lib, INJECTION_PRIMARY_LIBS
    std::vector<HostLibrary> dependency;  ///< --dependency-lib, INJECTION_DEPENDENCY_LIBS
    bool overwritesUnversioned = false;   ///< --allow-unversioned-primary-overwrite
    std::vector<std::string> files;       ///< --file, INJECTION_EXTRA_FILES; regular files
    std::vector<std::pair<std::string, std::string>> variables;  ///< --env, INJECTION_EXTRA_ENV
    std::vector<oci::RuntimeMount> mounts;  ///< --mount, INJECTION_EXTRA_MOUNTS; sources without links
};

/// Reads the named libraries and files. Throws Error, which names the setting.
Settings readSettings(const HookSetup& setup);

}  // namespace sarus::hooks::pc_injection
