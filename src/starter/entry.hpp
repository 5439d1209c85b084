#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "starter/credentials.hpp"

namespace sarus::starter {

/// A limit of the caller which the starter changed for itself; the payload gets it back (getrlimit(2)).
struct CallerLimit {
    int resource = 0;
    std::string name;  ///< "RLIMIT_NOFILE" and so on
    rlim_t soft = 0;
    rlim_t hard = 0;
};

/// What the process inherited and what was put in order: everything that a caller can influence besides the request.
struct Entry {
    Mode mode = Mode::rootless;
    std::vector<int> descriptors;  ///< open at entry, ascending; all from 3 on are close-on-exec now
    mode_t umask = 022;
    std::vector<CallerLimit> limits;
    std::string executable;         ///< canonical path of this program
    std::string prefix;             ///< two levels above it
    std::string privilegeNotice{};  ///< why the set-user-ID bit had no effect, if it is set and had none
    bool ownUserNamespace = false;  ///< the caller lives in a user namespace already: foreign owners look like 65534
};

/// The first instructions of the starter, in this order: standard streams, descriptors, signals, timers, umask, directory,
/// limits, environment, mode. All signals are blocked afterwards. Throws Error if a limit is too low to work with or if
/// the program file is not a trustworthy set-user-ID one.
Entry sanitizeEntry();

/// Lets all signals through again: for a starter which has only something to print, and no privileges any more.
void unblockSignals();

/// The descriptors that are open now, ascending.
std::vector<int> openDescriptors();

/// True if the text of /proc/self/uid_map maps every id to itself, that is, if this is the initial user namespace (or one which
/// does not differ from it).
bool isIdentityMap(const std::string& uidMap);

/// Raises a soft limit to `hard`, or both to `needed` where the process may, and says if that changed `limit`.
/// Throws Error which names the limit if less than `needed` can be had.
bool raiseLimit(int resource, const std::string& name, rlim_t needed, rlimit& limit);

/// The stack limit to give back to the payload: `wanted` (bytes, RLIM_INFINITY for none) as soft limit, if the hard one allows
/// it.
std::optional<CallerLimit> stackLimit(std::optional<std::uint64_t> wanted);

/// Keeps `kept` and closes the other descriptors of the caller from 3 on.
void closeInherited(const std::vector<int>& inherited, const std::vector<int>& kept);

}  // namespace sarus::starter
