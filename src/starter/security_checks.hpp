#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "engine/site_config.hpp"

namespace sarus::starter {

/// Which owners may be able to change the files that the starter relies on.
struct TrustedOwners {
    std::vector<uid_t> alsoTrusted{};  ///< besides root; empty for a starter with privileges
    bool stickyParents = false;        ///< whether a world-writable directory with the sticky bit may be a parent
};

/// An object whose owner and mode, and those of every directory on the way to it, have been verified.
struct CheckedPath {
    int directory;         ///< O_PATH, owned by the PathChecker; -1 for anything but a directory
    struct stat status;    ///< of the object itself: never a link
    std::string realPath;  ///< without symbolic links
};

/// Throws Error with the documented message if the object with this status can be changed by somebody who is not trusted.
void checkStatus(const struct stat& status, const std::string& shown, const TrustedOwners& owners);

/// Walks from "/" by descriptors, through symbolic links, and checks each component but "/" itself. What one start relies on has
/// most of its parents in common: a checker remembers what it has seen and asks the filesystem about no name twice. It must not
/// live longer than one start, because what it remembers may change afterwards.
class PathChecker {
public:
    explicit PathChecker(TrustedOwners owners);
    PathChecker(const PathChecker&) = delete;
    PathChecker& operator=(const PathChecker&) = delete;
    ~PathChecker();

    const TrustedOwners& owners() const noexcept { return trusted; }

    /// nullopt if it does not exist. Throws Error if it, or a directory or link on the way to it, is not to be trusted.
    std::optional<CheckedPath> check(const std::string& path);

    /// The same, and everything below a directory.
    void checkTree(const std::string& path);

private:
    struct Entry;
    class Walk;

    void checkBelow(Entry& directory, int depth);
    void checkChild(Entry& directory, const std::string& name, int depth);

    TrustedOwners trusted;
    std::unique_ptr<Entry> root;
};

/// The checks that `securityChecks` switches on (reference documentation, "Security requirements").
void checkInstallation(const engine::SiteConfig& config, PathChecker& paths);

}  // namespace sarus::starter
