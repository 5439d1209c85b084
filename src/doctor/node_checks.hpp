#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "doctor/examination.hpp"

namespace sarus::doctor {

/// The programs that checks concern.
enum class Program : unsigned { sarus = 1, podmanHpc = 2 };

/// What a program needs of the node.
struct NodeNeeds {
    bool hasPrivileges = false;       ///< it can do without user namespaces
    bool kernelMountsImages = false;  ///< it can do without FUSE
    std::vector<std::string> cdiDirectories{};
    std::string deviceOption{};  ///< which takes CDI devices
};

/// The checks of the node that concern the program. `needs` is called in their processes.
std::vector<Check> nodeChecks(Program program, const std::function<NodeNeeds()>& needs);

/// Why the kernel refuses a user namespace, with what mends it; nullopt if it does not.
std::optional<Error> whyNoUserNamespace();

/// The files in a directory with one of the endings; none if there is no such directory. Throws Error.
std::vector<std::string> filesIn(const std::string& directory,
                                 std::initializer_list<std::string_view> endings);

/// The nearest existing directory.
std::string existingPart(std::string path);
/// The number of the kind of filesystem, as in statfs(2); 0 if it is not known.
long filesystemOf(const std::string& path);
/// The name of a kind of filesystem that several nodes share, otherwise "".
std::string_view sharedFilesystem(long magic);

/// A directory in which the caller creates files.
struct OwnDirectory {
    std::string path;
    std::string cureIfUnusable;
    std::string cureIfFull;  ///< "": free space does not matter
};
/// Whether the caller may write to the directory, or may create it, and how much space is left (without
/// quotas). Throws Error if it cannot be used.
Finding checkDirectory(const OwnDirectory& directory);

/// The program's answer to --version. Throws Error with this cure if the program cannot be used.
std::string askVersion(const std::string& program, const std::string& cure);

}  // namespace sarus::doctor
