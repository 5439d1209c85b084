#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "hooks/kit/host_library.hpp"
#include "hooks/kit/soname_version.hpp"

namespace sarus::hooks {

/// A library file of the container.
struct ContainerLibrary {
    std::string path;                            ///< absolute, as seen inside; one of its names
    std::set<std::string, std::less<>> names{};  ///< the names of the file and of all links to it
    LibraryName name;                            ///< the most complete one of them
    std::vector<std::string> versionDefinitions{};
    bool isUsed = false;  ///< the program that the container starts loads it
};

enum class Role {
    mpi,  ///< what the container's programs ask for
    dependency
};
enum class Method {
    replace,  ///< mounted over files of the container
    add       ///< the container has no replaceable counterpart
};

/// One host library and how it is injected.
struct Injection {
    HostLibrary library;
    Role role = Role::mpi;
    Method method = Method::replace;
    std::vector<std::string> destinations;  ///< paths in the container, at least one
    /// Names in the directories /lib and /lib64 that must lead to the first destination.
    std::vector<std::string> links;
};

}  // namespace sarus::hooks
