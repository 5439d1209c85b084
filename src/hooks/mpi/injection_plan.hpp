#pragma once

#include <set>
#include <string>
#include <vector>

#include "hooks/kit/host_library.hpp"
#include "hooks/kit/soname_version.hpp"

namespace sarus::hooks::mpi {

/// A library file of the container.
struct ContainerLibrary {
    std::string path;                            ///< absolute, as seen inside; one of its names
    std::set<std::string, std::less<>> names{};  ///< the names of the file and of all links that lead to it
    LibraryName name;                            ///< the most complete one of them
    std::vector<std::string> versionDefinitions{};
};

/// What the plan is made from.
struct InjectionRequest {
    std::vector<HostLibrary> mpiLibraries;
    std::vector<HostLibrary> dependencies;
    std::vector<ContainerLibrary> containerLibraries;
    AbiPolicy policy = AbiPolicy::major;
};

enum class Role { mpi, dependency };
enum class Method {
    replace,  ///< mounted over files of the container
    add       ///< the container has no counterpart that may be replaced
};

/// One host library and what becomes of it.
struct Injection {
    HostLibrary library;
    Role role = Role::mpi;
    Method method = Method::replace;
    std::vector<std::string> destinations;  ///< paths in the container, at least one
    /// Names in the directories /lib and /lib64 which must lead to the first destination.
    std::vector<std::string> links;
};

struct InjectionPlan {
    std::vector<Injection> injections;
    std::vector<std::string> problems;  ///< why the container cannot be started; empty if it can
    std::vector<std::string> warnings;  ///< what the user should know
    std::vector<std::string> notes;     ///< for the verbose output
};

/// Decides which host library goes where (docs/hooks.md, "MPI hook"). A pure function.
///
/// An MPI library replaces every counterpart in the container; a counterpart which is not compatible is a problem, one
/// with a newer minor number a warning (not with AbiPolicy::strict, where it is a problem). Counterparts under another name
/// of the family are used if the host has no library of that name. A dependency replaces counterparts that it is
/// fully compatible with, i.e. whose major number it has, whose minor number is not newer and none of whose symbol versions
/// it lacks; otherwise it is added beside them, and the container keeps its names.
InjectionPlan planInjection(const InjectionRequest& request);

}  // namespace sarus::hooks::mpi
