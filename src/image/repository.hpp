#pragma once

#include <optional>
#include <string>
#include <vector>

#include "image/index.hpp"
#include "image/index_lock.hpp"
#include "image/repository_paths.hpp"
#include "oci/image_metadata.hpp"

namespace sarus::image {

enum class RepositoryAccess { read, write };

/// An image which has been built and shall appear in the repository.
struct NewImage {
    ImageReference reference;  ///< normalised
    std::string suffix;        ///< of the import; its squashfs file is Repository::draftOf(reference, suffix)
    oci::ImageMetadata metadata;
    StoreInfo info;
};

/// The images of one user, or of the whole system, on disk (reference documentation, "Local system repositories").
///
/// The files of the images are the truth and readers need no lock; `metadata.json` is an index which is rebuilt from them. An
/// image appears by renames within its directory, squashfs first, `.meta` second, index last, all drafts having been written and
/// flushed before. Who was killed in between is found out by the suffixes which the drafts carry (repository_paths.hpp).
class Repository {
public:
    /// Creates what is missing. With `read`, a repository which cannot be created or changed is used as it is.
    Repository(std::string directory, RepositoryAccess access, const LockTimings& timings);

    const RepositoryPaths& paths() const noexcept { return names; }
    const LockTimings& lockTimings() const noexcept { return timings; }

    /// All images in the order in which they were added. Repairs the index and removes what killed imports have left.
    std::vector<ImageRecord> list();

    /// The index entry of an image whose files both exist.
    std::optional<ImageRecord> find(const ImageReference& reference);

    /// Where the file of an image is put before `publish`; creates the directory.
    std::string draftOf(const ImageReference& reference, const std::string& suffix) const;
    /// The same, and creates the file, for a builder which takes its time: nobody else removes the directory meanwhile.
    std::string reserveDraft(const ImageReference& reference, const std::string& suffix) const;
    /// Removes a draft that will not be published, and the directories which it leaves empty.
    void dropDraft(const std::string& draft) const noexcept;

    /// Replaces an image of the same key. On failure the old image stays and the drafts are removed.
    void publish(const NewImage& image);

    /// Returns false if there is no such image.
    bool remove(const ImageReference& reference);

    /// Deals with what killed imports have left in the images directory, if there are any.
    void recover();

private:
    bool writable() const { return obstacle() == 0; }
    /// Why the repository cannot be changed, as an errno value; 0 if it can.
    int obstacle() const;
    void createMissing() const;
    void removeEmptyDirectories(const std::string& path) const;
    void createIndexIfMissing() const;
    Index load();
    UniqueFd lockAndRepair(std::vector<ImageRecord>& images);
    std::vector<ImageRecord> reconciled(const std::vector<ImageRecord>& known, bool refreshAll);
    void writeIndex(const std::vector<ImageRecord>& images, UniqueFd& lock) const;

    RepositoryPaths names;
    LockTimings timings;
};

}  // namespace sarus::image
