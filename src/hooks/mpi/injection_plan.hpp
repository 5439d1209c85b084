#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hooks/kit/host_library.hpp"
#include "hooks/kit/injection/injection.hpp"
#include "hooks/kit/soname_version.hpp"

namespace sarus::hooks::mpi {

/// The input of planInjection().
struct InjectionRequest {
    std::vector<HostLibrary> mpiLibraries;
    std::vector<HostLibrary> dependencies;
    std::vector<ContainerLibrary> containerLibraries;
    AbiPolicy policy = AbiPolicy::major;
    std::string program{};  ///< the program that the container starts, for messages
};

struct InjectionPlan {
    std::vector<Injection> injections;
    std::vector<std::string> problems;  ///< why the container cannot start; empty if it can
    std::vector<std::string> warnings;  ///< what the user should know
    std::vector<std::string> notes;     ///< for the verbose output
    bool isMpiFound = false;            ///< otherwise that is the first problem
};

/// Whether a library of the container is the same as one of the host's, which may replace it.
bool isCounterpart(const InjectionRequest& request, std::string_view linkerName);

/// Decides which host library goes where (docs/reference/hooks.md, "MPI hook"). Pure.
///
/// An MPI library replaces every compatible counterpart in the container; a newer minor number of the
/// counterpart is a warning (with AbiPolicy::strict a problem). An incompatible counterpart is a problem if
/// nothing else is replaced, if the program uses it, or if only the strict policy rejects it; otherwise it
/// belongs to another MPI in the image: a warning. Counterparts under another name of the family are used if
/// the host has no library of that name. An MPI library without counterpart is omitted, unless an injected
/// library needs it. An MPI of the container that is no counterpart at all (isMpi()) is treated like an
/// incompatible one, and is only a note if the program uses a replaced one.
///
/// A dependency replaces fully compatible counterparts: same major number, minor number not newer, and no
/// public symbol version that the dependency lacks. With private symbol versions of its own ("_PRIVATE" in
/// their names) it replaces every counterpart of the same major number: a warning if that is newer. Otherwise
/// it is added beside them, and the container keeps its names.
InjectionPlan planInjection(const InjectionRequest& request);

}  // namespace sarus::hooks::mpi
