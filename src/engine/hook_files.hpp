#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>
#include <vector>

#include "oci/hook_config.hpp"

namespace sarus::engine {

/// A hook file that is open and about to be read.
struct OpenHookFile {
    std::string path;
    struct stat status;  ///< of the open file
    bool throughLink;    ///< whether its name is a symbolic link
};

/// Called with each opened file before it is read; throws to refuse it. May be empty.
using HookFileCheck = std::function<void(const OpenHookFile& file)>;

/// The paths of the "*.json" directly in the open directory (O_PATH suffices), sorted. Throws Error.
std::vector<std::string> listHookFiles(int directory, const std::string& path);

/// Opens, checks, reads and parses one of them: what is parsed is what was checked. `directory` is that of the listing.
oci::HookConfig readHookFile(int directory, const std::string& path, const HookFileCheck& check = {});

/// All of them, sorted by file name: the order in which hooks run.
std::vector<oci::HookConfig> readHookFiles(int directory, const std::string& path, const HookFileCheck& check = {});

}  // namespace sarus::engine
