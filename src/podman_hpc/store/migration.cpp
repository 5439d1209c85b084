#include "podman_hpc/store/migration.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/text.hpp"
#include "podman_hpc/store/damage.hpp"
#include "podman_hpc/store/record_lock.hpp"
#include "squashfs/superblock.hpp"

namespace sarus::podman_hpc {

bool isSquashfs(const std::string& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return false;
    }
    const auto file = openFile(path, O_RDONLY | O_NOFOLLOW);
    try {
        squashfs::readSquashfsSuperblock(file.get(), path);
        return true;
    } catch (const Error&) {
        return false;
    }
}

namespace {

/// Whether the squashfs file of this top layer is finished: images are recorded after their file.
bool isFinished(const StorePaths& store, const StoreLists& lists, const std::string& top) {
    const bool recorded = std::any_of(lists.images.begin(), lists.images.end(),
                                      [&](const PodmanImage& image) { return image.layer == top; });
    const auto link = recorded ? linkOf(store, top) : "";
    return !link.empty() && isSquashfs(store.squash(link));
}

/// The unfinished squashfs file of a link, which one migration at a time writes. A killed program leaves it;
/// the next one takes it over. Removed by the destructor unless it was published.
class UnfinishedFile {
public:
    UnfinishedFile(const StorePaths& store, const std::string& link)
        : path(cat(store.root, '/', store.driver, "/l/.", link, ".squash.unfinished")) {
        do {
            file = openFile(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0644);
            if (!lockRecord(file.get(), path)) {
                ::unlink(path.c_str());
                path += cat('-', randomLetters());
                file = openFile(path, O_RDWR | O_CREAT | O_EXCL, 0644);
                break;
            }
        } while (!hasName(file.get(), path));
        checkErrno(::ftruncate(file.get(), 0), cat("Failed to truncate ", printable(path)));
    }
    UnfinishedFile(const UnfinishedFile&) = delete;
    UnfinishedFile& operator=(const UnfinishedFile&) = delete;
    ~UnfinishedFile() {
        if (!path.empty()) {
            ::unlink(path.c_str());
        }
    }

    int fd() const noexcept { return file.get(); }
    bool isEmpty() const {
        struct stat status {};
        checkErrno(::fstat(file.get(), &status), cat("Failed to examine ", printable(path)));
        return status.st_size == 0;
    }
    void publish(const std::string& target) {
        checkErrno(::rename(path.c_str(), target.c_str()), cat("Failed to create ", printable(target)));
        path.clear();
    }

private:
    std::string path;
    UniqueFd file;
};

void flush(const std::string& path) {
    const auto file = openFile(path, O_RDONLY);
    checkErrno(::fsync(file.get()), cat("Failed to flush ", printable(path)));
}

bool contains(const std::vector<std::string>& list, const std::string& word) {
    return std::find(list.begin(), list.end(), word) != list.end();
}

bool isOnlyNameOf(const StoreLists& lists, const std::string& name, const PodmanImage& image) {
    return std::all_of(lists.images.begin(), lists.images.end(), [&](const PodmanImage& other) {
        return contains(other.names, name) == (&other == &image);
    });
}

/// Records the image, or its names if it is there. A name belongs to one image of a store. `isBroken`: the
/// record that is there does not count.
void record(StoreLists& lists, const PodmanImage& image, const std::vector<PodmanLayer>& layers,
            bool isBroken) {
    for (const auto& layer : layers) {
        if (findLayer(lists.layers, layer.id) == nullptr) {
            lists.layers.push_back(layer);
        }
    }
    bool isThere = false;
    for (auto& other : lists.images) {
        auto names = other.names;
        if (other.id == image.id) {
            isThere = true;
            other = isBroken ? withNames(portable(image), names) : other;
            std::copy_if(image.names.begin(), image.names.end(), std::back_inserter(names),
                         [&](const std::string& name) { return !contains(other.names, name); });
        } else {
            std::erase_if(names, [&](const std::string& name) { return contains(image.names, name); });
        }
        if (names != other.names) {
            other = withNames(other, names);
        }
    }
    if (!isThere) {
        lists.images.push_back(portable(image));
    }
}

/// One migration.
class Migration {
public:
    Migration(const StorePaths& localStore, const PodmanImage& theImage, LayerChain imageLayers,
              const StorePaths& squashStore, Warn warning)
        : local(localStore),
          image(theImage),
          layers(std::move(imageLayers)),
          store(squashStore),
          warn(std::move(warning)) {}

    /// Nothing if the image has to be made first.
    std::optional<MigrationResult> finishWithout() {
        const ChangeLock lock(store, warn);
        const auto lists = readLists(store);
        if (!isFinished(store, lists, image.layer)) {
            return std::nullopt;
        }
        const auto* known = findImageById(lists.images, image.id);
        const bool isBroken = known != nullptr && !whatIsBroken(store, lists, *known).empty();
        if (known != nullptr && !isBroken &&
            std::all_of(image.names.begin(), image.names.end(),
                        [&](const std::string& name) { return isOnlyNameOf(lists, name, *known); })) {
            return MigrationResult::unchanged;
        }
        publish(lock);
        return known == nullptr ? MigrationResult::migrated
               : isBroken       ? MigrationResult::mended
                                : MigrationResult::renamed;
    }

    MigrationResult make(const MakeSquash& makeSquash) {
        auto link = linkOf(store, image.layer);
        if (link.empty()) {
            link = linkOf(local, image.layer);
        }
        if (link.empty()) {
            link = newLink();
        }
        UnfinishedFile file(store, link);
        if (const auto result = finishWithout()) {  // another program was faster
            return *result;
        }
        const auto target = store.squash(link);
        makeSquash({image, layers, local, file.fd(), link, target});
        if (file.isEmpty()) {
            flush(target);
        } else {
            checkErrno(::fsync(file.fd()), cat("Failed to flush the squashfs file of ", image.id));
        }
        const ChangeLock lock(store, warn);
        const auto final = provideLayer(lock, local, image.layer, link);
        if (!file.isEmpty()) {
            file.publish(store.squash(final));
        } else if (final != link) {
            checkErrno(::rename(target.c_str(), store.squash(final).c_str()),
                       "Failed to rename the squashfs");
        }
        publish(lock);
        return MigrationResult::migrated;
    }

private:
    void publish(const ChangeLock& lock) {
        for (const auto& layer : layers.layers) {
            provideLayer(lock, local, layer.id, linkOf(local, layer.id));
        }
        const auto before = readLists(store);
        const auto* known = findImageById(before.images, image.id);
        const bool isBroken = known == nullptr || !whatIsBroken(store, before, *known).empty();
        if (isBroken) {
            provideImageFiles(lock, local, image.id);
        }
        changeLists(lock, FirstList::layers,
                    [&](StoreLists& lists) { record(lists, image, layers.layers, isBroken); });
    }

    const StorePaths& local;
    const PodmanImage& image;
    LayerChain layers;
    const StorePaths& store;
    Warn warn;
};

void removeFile(const std::string& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
        throwErrno(cat("Failed to remove ", printable(path)));
    }
}

/// Removes what belongs to layers that are recorded no more, and the squashfs file of a top layer.
void removeFiles(const StorePaths& store, const std::vector<std::string>& layers,
                 const std::string& squashedLayer) {
    if (const auto link = squashedLayer.empty() ? "" : linkOf(store, squashedLayer); !link.empty()) {
        removeFile(store.squash(link));
    }
    for (const auto& layer : layers) {
        if (const auto link = linkOf(store, layer); !link.empty()) {
            removeFile(store.squash(link));
            removeFile(store.link(link));
        }
        removeFile(store.tarSplit(layer));
        removeTree(store.layer(layer));
    }
}

}  // namespace

MigrationResult migrate(const StorePaths& local, const StoreLists& localLists, const PodmanImage& image,
                        const StorePaths& store, const MakeSquash& make, const Warn& warn) {
    if (image.layer.empty()) {
        throw Error(cat("The image ", image.id, " has no layers"));
    }
    Migration migration(local, image, chainOf(localLists.layers, image.layer), store, warn);
    if (const auto result = migration.finishWithout()) {
        return *result;
    }
    return migration.make(make);
}

RemovalReport removeSquashed(const StorePaths& store, const std::string& word, const Warn& warn) {
    const ChangeLock lock(store, warn);
    const auto before = readLists(store);
    const auto* found = findImage(before.images, word);
    if (found == nullptr) {
        throw Error(cat("Image ", printable(word), " not found in ", printable(store.root)),
                    "'podman-hpc images' lists the images of all stores");
    }
    auto names = found->names;
    std::string removed;
    for (const auto& name : possibleNames(word)) {
        if (removed.empty() && contains(names, name)) {
            removed = name;
            std::erase(names, name);
        }
    }
    if (!removed.empty() && !names.empty()) {
        changeLists(lock, FirstList::images, [&](StoreLists& lists) {
            for (auto& image : lists.images) {
                image = image.id == found->id ? withNames(image, names) : image;
            }
        });
        return {cat("Untagged: ", removed)};
    }

    std::vector<std::string> layers;
    bool isShared = false;  // the top layer
    const auto forget = [&](StoreLists& lists) {
        std::erase_if(lists.images, [&](const PodmanImage& image) { return image.id == found->id; });
        std::set<std::string> needed;
        isShared = false;
        for (const auto& image : lists.images) {
            isShared = isShared || image.layer == found->layer;
            for (const auto& layer : chainOf(lists.layers, image.layer).layers) {
                needed.insert(layer.id);
            }
        }
        layers.clear();
        for (const auto& layer : chainOf(before.layers, found->layer).layers) {
            if (!needed.contains(layer.id)) {
                layers.push_back(layer.id);
            }
        }
        std::erase_if(lists.layers, [&](const PodmanLayer& layer) { return contains(layers, layer.id); });
    };
    const auto imageFiles = store.documents(found->id);
    try {
        changeLists(lock, FirstList::images, forget);
    } catch (const Error& error) {
        if (error.errnum() != ENOSPC && error.errnum() != EDQUOT) {
            throw;
        }
        // The space of the image is all there is. Whoever is interrupted here has an image without its
        // squashfs file, which can be removed again.
        removeFiles(store, {}, isShared ? "" : found->layer);
        removeTree(imageFiles);
        changeLists(lock, FirstList::images, forget);
    }
    removeFiles(store, layers, isShared ? "" : found->layer);
    removeTree(imageFiles);
    RemovalReport report;
    for (const auto& name : found->names) {
        report.push_back(cat("Untagged: ", name));
    }
    report.push_back(cat("Deleted: ", found->id));
    return report;
}

}  // namespace sarus::podman_hpc
