#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hooks/kit/injection/injection.hpp"

namespace sarus::hooks {

/// A need of a host library that the container does not satisfy.
struct MissingNeed {
    std::string provider;          ///< the library that should provide it, e.g. "libc.so.6"
    bool isProviderFound = false;  ///< whether there is such a library
    /// The missing symbol versions; empty if none in particular is needed.
    std::vector<std::string> versions;
    std::vector<std::string> neededBy;  ///< host libraries
    std::string newestPresent;  ///< the newest version of that family that the provider defines; may be empty
    bool operator==(const MissingNeed&) const = default;
};

/// The version definitions of the library that `name` resolves to for `requester` in the container; nullopt
/// if there is none. As for the dynamic linker, a library without definitions satisfies everything.
using ProviderLookup = std::function<std::optional<std::vector<std::string>>(const HostLibrary& requester,
                                                                             const std::string& name)>;

/// The missing needs of the injected libraries: each library that they need must also be injected or exist in
/// the container, and one of the two must define the needed symbol versions. In the order in which needs
/// first occur. Pure.
std::vector<MissingNeed> findMissingNeeds(const std::vector<Injection>& injections,
                                          const ProviderLookup& lookup);

/// Whether programs would certainly fail to start: symbol versions are missing.
bool isFatal(const MissingNeed& need);

/// "GLIBC_2.38 of libc.so.6 (which has no newer version than GLIBC_2.36), needed by libmpi.so.12".
std::string describe(const MissingNeed& need);

}  // namespace sarus::hooks
