#pragma once

#include <string>
#include <vector>

#include "oci/hooks/hook_config.hpp"

namespace sarus::cli {

/// A line about a hook file: a mistake, or what could not be checked.
struct HookRemark {
    bool isMistake;
    std::string text;
};

struct HookReport {
    std::vector<HookRemark> remarks;
    std::vector<oci::HookConfig> readable;
    std::size_t files = 0;
    std::size_t intact = 0;

    bool areThereMistakes() const;
};

/// Checks the hook files of a directory, their programs, and the hooks' order. A hook installed in the
/// directory `programs` runs its own `--check` with the arguments and variables of the hook file and this
/// process's rights, for at most half a minute. Throws Error if the directory cannot be read.
HookReport checkHookFiles(const std::string& directory, const std::string& programs);

}  // namespace sarus::cli
