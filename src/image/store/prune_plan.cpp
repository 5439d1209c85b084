#include "image/store/prune_plan.hpp"

#include <algorithm>
#include <iterator>
#include <map>

namespace sarus::image {

namespace {

/// A squashfs file with its names in the repository.
struct SharedFile {
    std::vector<ImageUsage> names;
    std::uint64_t removed = 0;  ///< names that are already planned
    bool stays = false;

    std::time_t lastUse() const {
        return std::max_element(names.begin(), names.end(),
                                [](const auto& a, const auto& b) { return a.lastUse < b.lastUse; })
            ->lastUse;
    }
    bool becomesFree() const { return names.front().links <= names.size(); }
};

class Planner {
public:
    Planner(const PruneLimits& theLimits, const std::set<std::string>& theKept, std::time_t theNow)
        : limits(theLimits), kept(theKept), now(theNow) {}

    PrunePlan run(std::vector<ImageUsage> images, std::vector<BlobUsage> blobs) {
        for (auto& image : images) {
            files[image.file].names.push_back(std::move(image));
        }
        std::sort(blobs.begin(), blobs.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
        removeOld(blobs);
        if (limits.keepBytes) {
            removeSurplus(blobs);
        }
        return std::move(plan);
    }

private:
    bool mustStay(const ImageUsage& image) const {
        return kept.contains(image.reference.full()) || kept.contains(image.path) ||
               (limits.recent > 0 && image.lastUse + limits.recent > now);
    }

    void take(const BlobUsage& blob) {
        plan.bytes += blob.bytes;
        plan.blobs.push_back(blob);
    }

    void take(SharedFile& file, const ImageUsage& image) {
        plan.images.push_back(image);
        plan.bytes += ++file.removed == file.names.size() && file.becomesFree() ? image.bytes : 0;
    }

    /// The blobs that stay remain in the list.
    void removeOld(std::vector<BlobUsage>& blobs) {
        const auto isOld = [&](std::time_t time) {
            return limits.olderThan && time <= now - *limits.olderThan;
        };
        const auto young = std::find_if(blobs.begin(), blobs.end(),
                                        [&](const BlobUsage& blob) { return !isOld(blob.time); });
        std::for_each(blobs.begin(), young, [&](const BlobUsage& blob) { take(blob); });
        blobs.erase(blobs.begin(), young);
        for (auto& [id, file] : files) {
            for (const auto& image : file.names) {
                if (mustStay(image)) {
                    file.stays = true;
                } else if (isOld(image.lastUse + useAccuracy)) {
                    take(file, image);
                }
            }
        }
    }

    void removeSurplus(const std::vector<BlobUsage>& blobs) {
        std::uint64_t total = 0;
        std::vector<SharedFile*> candidates;
        for (const auto& blob : blobs) {
            total += blob.bytes;
        }
        for (auto& [id, file] : files) {
            const bool isGone = file.removed == file.names.size();
            total += isGone && file.becomesFree() ? 0 : file.names.front().bytes;
            if (!isGone && !file.stays && file.becomesFree()) {
                candidates.push_back(&file);
            }
        }
        for (const auto& blob : blobs) {
            if (total <= *limits.keepBytes) {
                return;
            }
            take(blob);
            total -= blob.bytes;
        }
        std::stable_sort(candidates.begin(), candidates.end(),
                         [](const auto* a, const auto* b) { return a->lastUse() < b->lastUse(); });
        for (auto* file : candidates) {
            if (total <= *limits.keepBytes) {
                return;
            }
            total -= file->names.front().bytes;
            takeRest(*file);
        }
    }

    void takeRest(SharedFile& file) {
        for (const auto& image : file.names) {
            const auto isTaken = [&](const ImageUsage& taken) { return taken.reference == image.reference; };
            if (std::none_of(plan.images.begin(), plan.images.end(), isTaken)) {
                take(file, image);
            }
        }
    }

    const PruneLimits& limits;
    const std::set<std::string>& kept;
    std::time_t now;
    std::map<std::pair<dev_t, ino_t>, SharedFile> files;
    PrunePlan plan;
};

}  // namespace

PrunePlan planPrune(std::vector<ImageUsage> images, std::vector<BlobUsage> blobs, const PruneLimits& limits,
                    const std::set<std::string>& kept, std::time_t now) {
    return Planner(limits, kept, now).run(std::move(images), std::move(blobs));
}

}  // namespace sarus::image
