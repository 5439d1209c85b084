#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus::starter {

/// A starter that keeps something open which other starters of its user can use, too.
struct Holder {
    pid_t pid = 0;
    std::uint64_t started = 0;  ///< as Process::started()
    int first = 0;              ///< what the two numbers mean depends on the file
    int second = 0;
    bool operator==(const Holder&) const = default;
};

/// The text of a holder's file. All entries have the same length, so an interrupted write that shortens the
/// file still leaves complete entries.
std::string formatHolders(const std::vector<Holder>& holders);

/// nullopt if any part is damaged.
std::optional<std::vector<Holder>> parseHolders(std::string_view text);

/// This boot of the node, the user namespace and the process namespace: only starters with the same can
/// share. It is part of a file's name, because nodes may have a directory in common. Throws Error.
std::string placeOfSharing();

/// The holders of one thing, in a file that stays locked while this object lives. A killed
/// process releases the lock and leaves a file that is readable or recognisably damaged.
class HolderFile {
public:
    static constexpr std::size_t mostHolders = 1024;
    /// A start holds the lock for about 1 ms, and many may start at once. A stopped process holds it for
    /// longer.
    static constexpr std::chrono::milliseconds usualPatience{1000};

    /// Opens and locks `<directory>/<name>`, creating it if missing. Throws Error if another process keeps
    /// the lock or the file belongs to another user, with the errno ENOLCK if the filesystem has no locks.
    /// `directory`: exists, the caller's alone. `owner`: the caller as the present user namespace shows it.
    static HolderFile open(const std::string& directory, const std::string& name, uid_t owner,
                           std::chrono::milliseconds patience = usualPatience);

    /// In order of arrival. Empty for a damaged file.
    std::vector<Holder> read() const;
    void write(const std::vector<Holder>& holders) const;

    void unlock() const noexcept;
    /// Locks it again. False if another process keeps the lock.
    bool lockAgain(std::chrono::milliseconds patience = usualPatience) const noexcept;
    /// From now on this object can only read and lock. Releases the lock. Throws Error.
    void giveUpWriting();
    /// Removes the file from its directory, if it is still there.
    void remove() const noexcept;

private:
    HolderFile(UniqueFd file, std::string name) noexcept : fd(std::move(file)), path(std::move(name)) {}

    UniqueFd fd;
    std::string path;
};

/// Removes the files in `directory` that nobody has written to for a day, except those in use now. Existing
/// holders keep their namespaces; only the next start creates new ones.
void sweepHolderFiles(const std::string& directory);

/// Removes the files in `directory` whose holders have all ended, once there are many files. Skips files that
/// are locked.
void sweepUnheldFiles(const std::string& directory);

}  // namespace sarus::starter
