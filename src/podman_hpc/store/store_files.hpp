#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "podman_hpc/store/records.hpp"

namespace sarus::podman_hpc {

/// Where a store of containers/storage keeps its files.
struct StorePaths {
    std::string root;
    std::string driver = "overlay";

    std::string images() const { return root + "/" + driver + "-images"; }
    std::string layers() const { return root + "/" + driver + "-layers"; }
    std::string imageList() const { return images() + "/images.json"; }
    std::string layerList() const { return layers() + "/layers.json"; }
    std::string tarSplit(const std::string& layer) const { return layers() + "/" + layer + ".tar-split.gz"; }
    std::string documents(const std::string& image) const { return images() + "/" + image; }
    std::string layer(const std::string& id) const { return root + "/" + driver + "/" + id; }
    std::string link(const std::string& name) const { return root + "/" + driver + "/l/" + name; }
    /// The squashed image whose top layer has this link.
    std::string squash(const std::string& name) const { return link(name) + ".squash"; }
};

struct StoreLists {
    std::vector<PodmanImage> images{};
    std::vector<PodmanLayer> layers{};
    /// Sentences about what was left out: of the list of images, of that of layers.
    std::vector<std::string> imageProblems{};
    std::vector<std::string> layerProblems{};

    bool areSound() const { return imageProblems.empty() && layerProblems.empty(); }
    /// The first problem, and how many there are.
    std::string problem() const;
};

/// Reads both lists, without a lock: each is replaced as a whole. A missing list is empty. Broken records are
/// left out; missing layers come from the documents of their image. Throws Error if a list cannot be read.
StoreLists readLists(const StorePaths& store);

/// The short name of a layer in the overlay's `l`; "" if it has none that is usable.
std::string linkOf(const StorePaths& store, const std::string& layer);

using Warn = std::function<void(const std::string&)>;

/// Excludes other programs of podman-hpc from changing the squash store. Podman does not know this lock, so
/// nobody's start waits for it.
class ChangeLock {
public:
    ChangeLock(const StorePaths& store, Warn warning);

    const StorePaths& store() const noexcept { return paths; }
    void warn(const std::string& message) const { warning(message); }
    /// The end of the names of unfinished files.
    const std::string& suffix() const noexcept { return ending; }

private:
    StorePaths paths;
    Warn warning;
    UniqueFd file;
    std::string ending = ".new";
};

/// Which list readers see first.
enum class FirstList { layers, images };

/// Replaces both lists by what `change` makes of them. Podman's locks are held for the renames only. Starts
/// again if somebody without our lock has replaced a list meanwhile. Keeps a damaged list under another name,
/// with a warning. Throws Error; then nothing has changed, or only the first list.
void changeLists(const ChangeLock& lock, FirstList first, const std::function<void(StoreLists&)>& change);

/// Replaces damaged lists by what can be read of them.
void mendLists(const StorePaths& store, const Warn& warn);

/// Creates the directory and the link of a layer that the store lacks. Returns the link's name.
std::string provideLayer(const ChangeLock& lock, const StorePaths& local, const std::string& id,
                         const std::string& preferredLink);

/// Replaces the files of an image by copies.
void provideImageFiles(const ChangeLock& lock, const StorePaths& local, const std::string& id);

/// A name like those that containers/storage gives to links.
std::string newLink();

}  // namespace sarus::podman_hpc
