#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "image/store/index.hpp"

namespace sarus::image {

// Copies of images on a node, made by `sarus bcast` for one job. They lie in a directory with mode 0700 that
// belongs to the caller: whatever another user has put in its place is never used. All functions work with
// the caller's rights.

/// Where the copies of a job are on each of its nodes: `<parent>/sarus-<uid>-job-<job>`.
std::string copiesDirectory(const std::string& parent, std::uint64_t job);

/// Removes the copies of a job that is over. Throws Error if the directory is not the caller's alone.
void removeCopies(const std::string& directory);

struct LocalCopy {
    UniqueFd file;  ///< O_RDONLY
    std::string path;
};

/// The copy of the image that these metadata describe: complete and verified, by its name; the caller's own
/// file without further names; with the recorded size and identity. nullopt if there is none, or if the
/// metadata record no digest. Warns about a directory that another user has made.
std::optional<LocalCopy> findLocalCopy(const std::string& directory, const StoreInfo& info);

/// Makes the directory on this node ready for a copy, and removes what interrupted broadcasts of this image
/// have left. False if the complete copy is there already. Throws Error if the directory belongs to another
/// user, or if there is not enough space.
bool prepareForCopy(const std::string& directory, const StoreInfo& info);

/// The path of a copy that is being written; `suffix` is new for each broadcast (randomLetters()).
std::string partialCopy(const std::string& directory, const StoreInfo& info, const std::string& suffix);

/// Verifies the digest of the partial copy and gives it its final name. Throws Error, and removes the copy,
/// if it is not what was recorded.
void completeCopy(const std::string& directory, const StoreInfo& info, const std::string& suffix);

/// Removes what there is of an unfinished copy and tells those who wait for it on this node that none comes,
/// until the next prepareForCopy(). Throws Error.
void abandonCopy(const std::string& directory, const StoreInfo& info);

/// Waits until the copy is complete, as long as it comes into being: gives up when it is abandoned, or when
/// nothing of it has changed on this node for `patience`. Looks only at this node.
std::optional<LocalCopy> waitForLocalCopy(const std::string& directory, const StoreInfo& info,
                                          std::chrono::milliseconds patience);

}  // namespace sarus::image
