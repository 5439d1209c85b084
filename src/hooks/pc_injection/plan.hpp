#pragma once

#include <string>
#include <vector>

#include "hooks/kit/injection/injection.hpp"
#include "hooks/pc_injection/settings.hpp"

namespace sarus::hooks::pc_injection {

/// Where the container finds libraries that replace none of its own.
inline constexpr std::string_view directoryOfAdded = "/run/pc-injection";

struct InjectionPlan {
    std::vector<Injection> injections;
    std::vector<std::string> warnings;
    std::vector<std::string> problems;  ///< why the container cannot start; empty if it can
};

/// Decides which host library goes where. Pure. A primary library replaces every library of the container
/// with its linker name and major number (AbiPolicy::major, with a warning about an older minor number);
/// others of that name stay, with a warning. If none is replaced, and for each dependency, the library is
/// added in directoryOfAdded, by its file names and its SONAME. Without a version, a primary library replaces
/// all of its linker name.
InjectionPlan planInjection(const Settings& settings, const std::vector<ContainerLibrary>& libraries);

/// The value of LD_LIBRARY_PATH with directoryOfAdded in front: without empty and repeated entries.
std::string libraryPathWith(std::string_view current);

}  // namespace sarus::hooks::pc_injection
