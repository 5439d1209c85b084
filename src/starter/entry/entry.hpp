#pragma once

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "starter/entry/credentials.hpp"

namespace sarus::starter {

/// A limit of the caller that the starter changed for itself. The payload gets the old one back
/// (getrlimit(2)).
struct CallerLimit {
    int resource = 0;
    std::string name;  ///< "RLIMIT_NOFILE" and so on
    rlim_t soft = 0;
    rlim_t hard = 0;
};

/// What becomes of the privileges that the set-user-ID bit has given.
enum class Privileges { keep, giveUp };

/// The starter's argument for the latter.
inline constexpr const char* withoutPrivileges = "--without-privileges";

/// The sanitized state that the process inherited: everything that a caller can influence besides the
/// request.
struct Entry {
    Mode mode = Mode::rootless;
    /// The caller's descriptors that may be passed on: open at entry, ascending. All from 3 on are now
    /// close-on-exec.
    std::vector<int> descriptors;
    mode_t umask = 022;
    std::vector<CallerLimit> limits;
    std::string executable;  ///< canonical path of this program
    struct stat program {};  ///< of the file that is executed
    std::string prefix;      ///< two levels above it
    /// A user other than root runs the program with set-user-ID rights, by whatever path.
    bool callersChoice = false;
    std::string privilegeNotice{};  ///< why the set-user-ID bit had no effect, if it is set and had none
    /// The caller is already in a user namespace: foreign owners look like 65534.
    bool ownUserNamespace = false;
    std::optional<uid_t> nodeUid{};  ///< the caller's uid outside of that namespace
};

/// The starter's first steps after beginProcess(), in this order: descriptors, signals, timers, umask,
/// directory, limits, environment, mode. Blocks all signals except those that the caller ignores. Throws
/// Error if a limit is too low, or if the program file is not a trustworthy set-user-ID program. With
/// Privileges::giveUp, the process is as if its program had no such bit.
Entry sanitizeEntry(Privileges privileges = Privileges::keep);

/// The open descriptors, ascending.
std::vector<int> openDescriptors();

/// True if the text of /proc/self/uid_map maps every id to itself: the initial user namespace, or one equal
/// to it.
bool isIdentityMap(const std::string& uidMap);

/// Raises a soft limit to `hard`, or both to `needed` if the process may. Returns whether `limit` changed.
/// Throws Error naming the limit if less than `needed` is possible.
bool raiseLimit(int resource, const std::string& name, rlim_t needed, rlimit& limit);

/// The stack limit to restore for the payload: `wanted` (bytes, RLIM_INFINITY for none) as soft limit if the
/// hard limit allows it.
std::optional<CallerLimit> stackLimit(std::optional<std::uint64_t> wanted);

/// The payload's limits: those that the starter found, not those it set for itself. `stack`: as for
/// stackLimit().
std::vector<CallerLimit> payloadLimits(const Entry& entry, std::optional<std::uint64_t> stack);

/// Gives this process the caller's limits back, for a program that takes its place. Throws Error.
void restoreLimits(const Entry& entry);

/// Closes the caller's descriptors from 3 on, except `kept`.
void closeInherited(const std::vector<int>& inherited, const std::vector<int>& kept);

}  // namespace sarus::starter
