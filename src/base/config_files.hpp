#pragma once

#include <sys/stat.h>

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace sarus {

// The administrator's directories in which each file is one piece of configuration: hooks, CDI devices,
// inventories.

/// A file of such a directory that is open and about to be read.
struct OpenConfigFile {
    std::string path;
    struct stat status;  ///< of the open file
    bool throughLink;    ///< whether its name is a symbolic link
};

/// Called with each opened file before it is read; throws to refuse it. May be empty.
using ConfigFileCheck = std::function<void(const OpenConfigFile& file)>;

/// The paths of the files directly in the open directory (O_PATH suffices) whose names end in one of the
/// suffixes, sorted. Throws Error, also if there are more than a thousand.
std::vector<std::string> listFiles(int directory, const std::string& path,
                                   std::initializer_list<std::string_view> suffixes);

/// Opens, checks and reads one of them (a regular file of at most 1 MiB). Returns the bytes that were
/// checked. Throws Error.
std::string readCheckedFile(int directory, const std::string& path, const ConfigFileCheck& check = {});

struct ConfigFile {
    std::string path;
    std::string text;
    std::optional<Error> problem;  ///< why it must not be used; `text` is empty if it cannot be read at all
};

/// Reads the files of the directory that are not hidden. With `mustBeRoots` only root may be able to write
/// the directory (otherwise Error) and the files (otherwise they have a problem). Throws Error if the
/// directory is unusable, with errno ENOENT if it is missing.
std::vector<ConfigFile> readTrustedFiles(const std::string& directory,
                                         std::initializer_list<std::string_view> suffixes, bool mustBeRoots);

}  // namespace sarus
