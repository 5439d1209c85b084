#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::hooks {

/// A stamp lists paths inside a root filesystem with their state: inode, kind, size and times of each, and
/// the mounts in and above the directories among them. While all this is unchanged, results derived from
/// these paths stay valid.
///
/// A path that begins with '/' is looked up in the root filesystem, following links. Any other is the name of
/// an entry in the last such directory, not followed; so many files of a directory cost one system call each.
///
/// Only the container depends on a stamp: a forged stamp affects only that container's cache.

/// Records when the work began, in the clock of the files' times. Something that changed since then or
/// shortly before may change again without a trace, because times are as coarse as the clock's tick.
class StampClock {
public:
    StampClock();
    bool isBeforeWork(std::int64_t seconds, std::int64_t nanoseconds) const noexcept;

private:
    std::int64_t latest;  ///< in nanoseconds
};

/// The stamp; nullopt if the mounts cannot be determined, there are more than 4,000 paths, or something
/// changed too recently.
std::optional<std::string> makeCacheStamp(int root, const std::vector<std::string>& paths,
                                          const StampClock& clock);

/// A path of a stamp, with the names of entries below it.
struct StampGroup {
    std::string_view path;
    std::vector<std::string_view> names;
    bool isUnchanged = false;
};

/// What still matches a stamp; refers to the stamp's text.
struct StampCheck {
    bool isCurrent = false;  ///< everything
    std::vector<StampGroup> groups;
};

/// Compares the stamp with the present state. Nothing is current for an invalid stamp.
StampCheck checkStamp(int root, std::string_view stamp);

}  // namespace sarus::hooks
