#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hooks/mpi/injection_plan.hpp"

namespace sarus::hooks::mpi {

/// Something that a host library needs and that it would not find in the container.
struct MissingNeed {
    std::string provider;               ///< the library that is asked, e.g. "libc.so.6"
    bool isProviderFound = false;       ///< whether there is such a library
    std::vector<std::string> versions;  ///< the symbol versions which it lacks; empty if none in particular is needed
    std::vector<std::string> neededBy;  ///< host libraries
    std::string newestPresent;          ///< the newest version of that family which the provider has; may be empty
    bool operator==(const MissingNeed&) const = default;
};

/// The version definitions of the library which `name` would be for `requester` in the container; nullopt if there is none.
/// No definitions at all satisfy everything, as for the dynamic linker.
using ProviderLookup =
    std::function<std::optional<std::vector<std::string>>(const HostLibrary& requester, const std::string& name)>;

/// What is missing for the injected libraries: each library that they need must be injected too or be found in the container,
/// and one of both must define the needed symbol versions. In the order in which needs are met first. A pure function.
std::vector<MissingNeed> findMissingNeeds(const std::vector<Injection>& injections, const ProviderLookup& lookup);

/// Whether programs would certainly fail to start: symbol versions are missing.
bool isFatal(const MissingNeed& need);

/// "GLIBC_2.38 of libc.so.6 (which has no newer version than GLIBC_2.36), needed by libmpi.so.12".
std::string describe(const MissingNeed& need);

}  // namespace sarus::hooks::mpi
