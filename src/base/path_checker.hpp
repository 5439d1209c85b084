#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus {

/// The owners who may be able to change files that a privileged program relies on.
struct TrustedOwners {
    std::vector<uid_t> alsoTrusted{};  ///< in addition to root; empty for a privileged program
    bool stickyParents = false;  ///< whether a world-writable directory with the sticky bit may be a parent
};

/// An object that passed the checks of its owner and mode, like every directory above it.
struct CheckedPath {
    int directory;         ///< O_PATH, owned by the PathChecker; -1 for anything but a directory
    struct stat status;    ///< of the object itself, never of a link
    std::string realPath;  ///< without symbolic links
};

/// Throws Error with the documented message if an untrusted user can change the object with this status.
void checkStatus(const struct stat& status, const std::string& shown, const TrustedOwners& owners);

/// Walks from "/" by descriptors, through symbolic links, and checks each component except "/" itself. Files
/// of one start share most of their parent directories, so a checker remembers results and looks up each name
/// once. Must not outlive one start: what it remembers may change afterwards.
class PathChecker {
public:
    explicit PathChecker(TrustedOwners owners);
    PathChecker(const PathChecker&) = delete;
    PathChecker& operator=(const PathChecker&) = delete;
    ~PathChecker();

    const TrustedOwners& owners() const noexcept { return trusted; }

    /// nullopt if it does not exist. Throws Error if it, or a directory or link on the way to it, cannot be
    /// trusted.
    std::optional<CheckedPath> check(const std::string& path);

    /// Like check(), and checks everything below a directory too.
    void checkTree(const std::string& path);

private:
    struct Entry;
    class Walk;

    void checkBelow(Entry& directory, int depth);
    void checkChild(Entry& directory, const std::string& name, int depth);

    TrustedOwners trusted;
    std::unique_ptr<Entry> root;
};

}  // namespace sarus
