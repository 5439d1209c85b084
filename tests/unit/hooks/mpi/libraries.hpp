#pragma once

#include <string>
#include <vector>

#include "hooks/kit/host_library.hpp"
#include "hooks/mpi/injection_plan.hpp"

namespace sarus::hooks::mpi {

/// A host library as its name tells, with the SONAME "<linker name>.<major>".
inline HostLibrary hostLibrary(const std::string& path) {
    HostLibrary library{path, parseLibraryName(path).value(), {}};
    library.elf.soname = library.name.linkNames()[library.name.version.empty() ? 0 : 1];
    return library;
}

inline ContainerLibrary containerLibrary(const std::string& path) {
    ContainerLibrary library{.path = path, .name = parseLibraryName(path).value()};
    for (const auto& name : library.name.linkNames()) {
        library.names.insert(name);
    }
    return library;
}

}  // namespace sarus::hooks::mpi
