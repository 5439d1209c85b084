#pragma once

#include <functional>
#include <string>
#include <vector>

#include "oci/hook_config.hpp"

namespace sarus::engine {

/// Called with each opened file (readable) before it is read; throws to refuse it. May be empty.
using HookFileCheck = std::function<void(int file, const std::string& shown)>;

/// The paths of the "*.json" directly in the open directory (O_PATH suffices), sorted. Throws Error.
std::vector<std::string> listHookFiles(int directory, const std::string& path);

/// Opens, checks, reads and parses one of them: what is parsed is what was checked. `directory` is that of the listing.
oci::HookConfig readHookFile(int directory, const std::string& path, const HookFileCheck& check = {});

/// All of them, sorted by file name: the order in which hooks run.
std::vector<oci::HookConfig> readHookFiles(int directory, const std::string& path, const HookFileCheck& check = {});

}  // namespace sarus::engine
