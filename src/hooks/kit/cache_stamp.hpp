#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::hooks {

/// A stamp names paths inside a root filesystem together with what is there: inode, kind, size and times of each, and the
/// mounts in and above the directories among them. As long as all that is the same, what was made of these paths is right.
///
/// A path that begins with '/' is looked up in the root filesystem, links included. Any other is the name of an entry in the
/// directory that the last such path named, itself; so that many files of a directory cost one system call each.
///
/// Nothing but the container depends on a stamp: who writes a false one into an image has its own container use an old cache.

/// Notes when the work began, in the clock of the files' times: what changed since then, or shortly before, may have changed
/// again without a trace, because times are as coarse as the clock's tick.
class StampClock {
public:
    StampClock();
    bool isBeforeWork(std::int64_t seconds, std::int64_t nanoseconds) const noexcept;

private:
    std::int64_t latest;  ///< in nanoseconds
};

/// The stamp; nullopt if the mounts cannot be told, if there are more than 4,000 paths, or if something changed too recently.
std::optional<std::string> makeCacheStamp(int root, const std::vector<std::string>& paths, const StampClock& clock);

/// A path of a stamp, with the names of entries behind it.
struct StampGroup {
    std::string_view path;
    std::vector<std::string_view> names;
    bool isUnchanged = false;
};

/// What is still as a stamp says; the texts are the stamp's.
struct StampCheck {
    bool isCurrent = false;  ///< everything
    std::vector<StampGroup> groups;
};

/// Compares the stamp with what is there; nothing is current if it is none.
StampCheck checkStamp(int root, std::string_view stamp);

}  // namespace sarus::hooks
