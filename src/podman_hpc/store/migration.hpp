#pragma once

#include <functional>
#include <string>
#include <vector>

#include "podman_hpc/store/records.hpp"
#include "podman_hpc/store/store_files.hpp"

namespace sarus::podman_hpc {

/// Makes the squashfs file of an image. `output` is an empty file, open for reading and writing; whoever
/// holds it keeps other migrations of the image waiting. `target` is where the file will lie; a program that
/// can only write there may do so. Throws Error.
struct SquashOrder {
    const PodmanImage& image;
    const LayerChain& layers;
    const StorePaths& local;
    int output;
    std::string link;
    std::string target;
};
using MakeSquash = std::function<void(const SquashOrder& order)>;

enum class MigrationResult { migrated, renamed, mended, unchanged };

/// Adds an image of Podman's own store to the squash store with all its names, which other images of the
/// squash store lose. An image that is there already only takes over the names, and what it lacks. The
/// records are written last, so nobody sees an unfinished image; unfinished files of killed programs are
/// replaced. Several programs can do this at the same time. Throws Error.
MigrationResult migrate(const StorePaths& local, const StoreLists& localLists, const PodmanImage& image,
                        const StorePaths& store, const MakeSquash& make, const Warn& warn);

/// Whether the file is there, and is a squashfs file with all its bytes. Throws Error if it cannot be opened.
bool isSquashfs(const std::string& path);

/// What removeSquashed() did, in Podman's words: "Untagged: NAME", "Deleted: ID".
using RemovalReport = std::vector<std::string>;

/// Removes a name of an image from the squash store. The last name and an id remove the image with its
/// records, its files and the layers that no other image needs. Throws Error if there is no such image.
RemovalReport removeSquashed(const StorePaths& store, const std::string& word, const Warn& warn);

}  // namespace sarus::podman_hpc
