#include "hooks/kit/linker_cache/cache_stamp.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/mount_table.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "container_root/root_files.hpp"

namespace sarus::hooks {

namespace {

constexpr std::size_t maxPaths = 4000;
/// Start of every stamp: change it when the list of paths or the description changes. Groups follow: a path
/// and the names of entries below it, an empty text, and the description of their state; each with a NUL at
/// its end.
constexpr std::string_view stampFormat("3\0", 2);
constexpr std::int64_t nanosecondsPerSecond = 1'000'000'000;

/// A mount below the root filesystem, from /proc/self/mountinfo.
struct Mount {
    std::string device;
    std::string source;  ///< the directory or file of the mounted filesystem
    std::string place;   ///< relative to the root filesystem, with a leading '/'
};

/// The location of a directory in this process's mount namespace; throws Error if it has none.
std::string locationOf(int directory) {
    auto path = pathOfDescriptor(directory);
    if (!path.starts_with('/')) {
        throw Error("A directory of the container is in no mount of this process");
    }
    return path == "/" ? std::string{} : path;
}

std::vector<Mount> mountsBelow(std::string_view location) {
    std::vector<Mount> mounts;
    for (auto& mount : readMountTable()) {
        const auto& place = mount.mountPoint;
        if (place.size() > location.size() && place.starts_with(location) && place[location.size()] == '/') {
            mounts.push_back({std::move(mount.device), std::move(mount.root), place.substr(location.size())});
        }
    }
    return mounts;
}

void appendStatus(std::string& out, const struct stat& status) {
    out += cat(status.st_mode & S_IFMT, ' ', status.st_ino, ' ', status.st_size, ' ', status.st_mtim.tv_sec,
               '.', status.st_mtim.tv_nsec, ' ', status.st_ctim.tv_sec, '.', status.st_ctim.tv_nsec, '\n');
}

/// Describes the paths, one after the other.
class Description {
public:
    /// `limit` may be null: then recent changes are accepted.
    Description(int rootFd, const StampClock* limit)
        : root(rootFd), clock(limit), rootLocation(locationOf(rootFd)), mounts(mountsBelow(rootLocation)) {}

    void add(std::string_view path) {
        struct stat status {};
        bool exists = false;
        if (path.starts_with('/')) {
            current = container_root::tryFindInRoot(root, path);
            exists = current && ::fstat(current.get(), &status) == 0;
        } else if (path.find('/') == std::string_view::npos &&
                   path != "..") {  // a forged stamp must not lead out of the directory
            exists = current &&
                     ::fstatat(current.get(), std::string(path).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
        }
        if (!exists) {
            text += "-\n";
            return;
        }
        note(status);
        if (path.starts_with('/') && S_ISDIR(status.st_mode) && !mounts.empty() &&
            seen.emplace(status.st_dev, status.st_ino).second) {
            addMounts();
        }
    }

    std::string text;
    bool hasRecentChange = false;

private:
    void note(const struct stat& status) {
        appendStatus(text, status);
        hasRecentChange =
            hasRecentChange ||
            (clock != nullptr && !clock->isBeforeWork(status.st_ctim.tv_sec, status.st_ctim.tv_nsec));
    }

    /// A mount over an entry of the current directory does not change the directory's times. A mount above it
    /// may show another filesystem with the same inode numbers and times.
    void addMounts() {
        const auto location = locationOf(current.get());
        if (!location.starts_with(rootLocation)) {
            return;  // the root filesystem itself was moved
        }
        const auto directory = std::string_view(location).substr(rootLocation.size());
        for (const auto& mount : mounts) {
            const auto slash = mount.place.rfind('/');
            const bool isEntry = std::string_view(mount.place).substr(0, slash) == directory;
            const bool isAbove =
                directory.starts_with(mount.place) &&
                (directory.size() == mount.place.size() || directory[mount.place.size()] == '/');
            if (!isEntry && !isAbove) {
                continue;
            }
            text += cat(mount.device, ' ', mount.source, ' ', mount.place, '\n');
            struct stat status {};
            if (isEntry && ::fstatat(current.get(), mount.place.c_str() + slash + 1, &status,
                                     AT_SYMLINK_NOFOLLOW) == 0) {
                note(status);
            }
        }
    }

    int root;
    const StampClock* clock;
    std::string rootLocation;
    std::vector<Mount> mounts;
    UniqueFd current;
    std::set<std::pair<dev_t, ino_t>> seen;
};

}  // namespace

StampClock::StampClock() {
    // The slowest kernel tick is 10 ms.
    constexpr std::int64_t margin = 20'000'000;
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    latest = now.tv_sec * nanosecondsPerSecond + now.tv_nsec - margin;
}

bool StampClock::isBeforeWork(std::int64_t seconds, std::int64_t nanoseconds) const noexcept {
    const auto limit = latest / nanosecondsPerSecond;
    return seconds < limit || (seconds == limit && nanoseconds < latest % nanosecondsPerSecond);
}

std::optional<std::string> makeCacheStamp(int root, const std::vector<std::string>& paths,
                                          const StampClock& clock) {
    if (paths.size() > maxPaths) {
        return std::nullopt;
    }
    try {
        const container_root::ContainerView view;
        Description description(root, &clock);
        std::string stamp(stampFormat);
        const auto endGroup = [&stamp, &description] {
            stamp += '\0';
            stamp += std::exchange(description.text, {});
            stamp += '\0';
        };
        for (const auto& path : paths) {
            if (path.empty() || path.find('\0') != std::string::npos) {
                return std::nullopt;
            }
            if (path.front() == '/' && !description.text.empty()) {
                endGroup();
            }
            description.add(path);
            stamp.append(path.c_str(), path.size() + 1);  // with its NUL
        }
        endGroup();
        return description.hasRecentChange ? std::nullopt : std::optional(std::move(stamp));
    } catch (const Error&) {
        // Without /proc, or from another mount namespace: the cache cannot be verified later.
        return std::nullopt;
    }
}

StampCheck checkStamp(int root, std::string_view stamp) {
    if (!stamp.starts_with(stampFormat)) {
        return {};
    }
    stamp.remove_prefix(stampFormat.size());
    /// The text up to the next NUL; empty at the end, too.
    const auto take = [&stamp] {
        const auto text = stamp.substr(0, stamp.find('\0'));
        stamp.remove_prefix(std::min(stamp.size(), text.size() + 1));
        return text;
    };
    try {
        const container_root::ContainerView view;
        StampCheck check;
        Description description(root, nullptr);
        std::size_t count = 0;
        while (!stamp.empty()) {
            StampGroup group{take(), {}};
            description.add(group.path);
            for (auto name = take(); !name.empty(); name = take()) {
                if (++count > maxPaths) {
                    return {};
                }
                description.add(group.names.emplace_back(name));
            }
            if (++count > maxPaths) {
                return {};
            }
            group.isUnchanged = take() == std::exchange(description.text, {});
            check.groups.push_back(std::move(group));
        }
        check.isCurrent =
            !check.groups.empty() && std::all_of(check.groups.begin(), check.groups.end(),
                                                 [](const auto& group) { return group.isUnchanged; });
        return check;
    } catch (const Error&) {
        return {};  // as above: create the cache again
    }
}

}  // namespace sarus::hooks
