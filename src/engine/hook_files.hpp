#pragma once

#include <sys/stat.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "oci/hook_config.hpp"

namespace sarus::engine {

/// A file of a configuration directory (hooks, CDI) that is open and about to be read.
struct OpenConfigFile {
    std::string path;
    struct stat status;  ///< of the open file
    bool throughLink;    ///< whether its name is a symbolic link
};

/// Called with each opened file before it is read; throws to refuse it. May be empty.
using ConfigFileCheck = std::function<void(const OpenConfigFile& file)>;

/// The paths of the files directly in the open directory (O_PATH suffices) whose names end in one of the suffixes, sorted.
/// Throws Error, also for a directory with more than a thousand of them.
std::vector<std::string> listFiles(int directory, const std::string& path, std::initializer_list<std::string_view> suffixes);

/// Opens, checks and reads one of them (a regular file of at most 1 MiB): what is returned is what was checked. Throws Error.
std::string readCheckedFile(int directory, const std::string& path, const ConfigFileCheck& check);

/// listFiles() for "*.json".
std::vector<std::string> listHookFiles(int directory, const std::string& path);

/// Opens, checks, reads and parses one of them: what is parsed is what was checked. `directory` is that of the listing.
oci::HookConfig readHookFile(int directory, const std::string& path, const ConfigFileCheck& check = {});

/// All of them, sorted by file name: the order in which hooks run.
std::vector<oci::HookConfig> readHookFiles(int directory, const std::string& path, const ConfigFileCheck& check = {});

}  // namespace sarus::engine
