#pragma once

#include <string>

#include "podman_hpc/store/records.hpp"
#include "podman_hpc/store/store_files.hpp"

namespace sarus::podman_hpc {

/// What makes the image of a squash store unusable; "" if nothing does.
std::string whatIsBroken(const StorePaths& store, const StoreLists& lists, const PodmanImage& image);

/// The image by its first name, or else its id.
const std::string& shownName(const PodmanImage& image);

/// What Podman is about to do with a store.
struct StoreUse {
    bool listsAll = false;   ///< it reads every image, and gives up at a broken one
    std::string image = {};  ///< the one that it uses, as the user typed it; "" if unknown
};

/// The directory that Podman can use as the store. That is the store itself, unless Podman would refuse more
/// than what is broken there: then a directory below `parent` with links to what is sound. Warns of what is
/// broken, once. Throws Error.
std::string readableStore(const StorePaths& store, const StoreUse& use, const std::string& parent,
                          const Warn& warn);

}  // namespace sarus::podman_hpc
