#pragma once

#include <optional>
#include <string>
#include <vector>

#include "image/store/index.hpp"
#include "image/store/index_lock.hpp"
#include "image/store/repository_paths.hpp"
#include "image/store/repository_scan.hpp"
#include "oci/image/image_metadata.hpp"

namespace sarus::image {

enum class RepositoryAccess { read, write };

/// A finished image to be published in the repository.
struct NewImage {
    ImageReference reference;  ///< normalised
    std::string suffix;        ///< of the import; its squashfs file is Repository::draftOf(reference, suffix)
    oci::ImageMetadata metadata;
    StoreInfo info;
};

/// The images of one user, or of the whole system, on disk (reference documentation, "Local system
/// repositories").
///
/// The files of the images are authoritative, and readers need no lock; `metadata.json` is an index that can
/// be rebuilt from them. All drafts are first written and flushed. Renames within its directory then publish
/// an image: first squashfs, then `.meta`, then the index. The first rename decides: metadata identify their
/// squashfs file (squashfs/identity.hpp), so until the second rename readers find those of the new file among
/// the drafts (stored_image.hpp). The suffixes of the drafts identify interrupted imports
/// (repository_paths.hpp).
class Repository {
public:
    /// Creates missing parts. With `read`, uses a repository that cannot be created or changed as it is.
    Repository(std::string directory, RepositoryAccess access, const LockTimings& timings);

    const RepositoryPaths& paths() const noexcept { return names; }
    const LockTimings& lockTimings() const noexcept { return timings; }

    /// All images in the order in which they were added. Takes no lock and never waits. Repairs the index and
    /// removes leftovers of killed imports, unless another command is changing the repository.
    std::vector<ImageRecord> list();
    /// False after a list() that left a repair to another command.
    bool isSettled() const noexcept { return settled; }

    /// The index entry of an image whose files both exist, updated from these.
    std::optional<ImageRecord> find(const ImageReference& reference);

    /// Path of an image's squashfs file before `publish`; creates the directory.
    std::string draftOf(const ImageReference& reference, const std::string& suffix) const;
    /// Like draftOf(), and creates the file: nobody else then removes the directory while a builder works.
    std::string reserveDraft(const ImageReference& reference, const std::string& suffix) const;
    /// Removes a draft that will not be published, and directories that this leaves empty.
    void dropDraft(const std::string& draft) const noexcept;

    /// Replaces an image of the same key. On failure the old image stays and the drafts are removed. A
    /// failure after the new image is in place is a warning; the next command completes the work.
    void publish(const NewImage& image);

    /// Returns false if there is no such image.
    bool remove(const ImageReference& reference);

    /// Handles leftovers of killed imports in the images directory, if any.
    void recover();

private:
    bool writable() const { return obstacle() == 0; }
    /// Why the repository cannot be changed, as an errno value; 0 if it can.
    int obstacle() const;
    void createMissing() const;
    void removeEmptyDirectories(const std::string& path) const;
    void createIndexIfMissing() const;
    Index load() const;
    void reportDamage() const;
    UniqueFd lockAndRepair(std::vector<ImageRecord>& images);
    std::vector<ImageRecord> repair(UniqueFd& lock);
    enum class Repair { no, yes };
    std::vector<ImageRecord> reconciled(const std::vector<ImageRecord>& known, RepositoryScan scan,
                                        Repair repair, bool refreshAll) const;
    bool wasInterrupted(const RepositoryScan& scan) const;
    void settleDrafts(RepositoryScan& scan) const;
    bool completesImage(const TemporaryFile& draft) const;
    void removeIncomplete(const ImageReference& reference) const;
    bool isInForce(const ImageReference& reference, const std::string& metadata) const;
    void writeIndex(const std::vector<ImageRecord>& images, UniqueFd& lock) const;

    RepositoryPaths names;
    LockTimings timings;
    bool settled = true;
};

}  // namespace sarus::image
