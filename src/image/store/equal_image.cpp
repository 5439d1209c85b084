#include "image/store/equal_image.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "image/store/file_digest.hpp"
#include "image/store/image_file.hpp"

namespace sarus::image {

namespace {

bool isKnownAndEqual(const std::string& a, const std::string& b) {
    return !a.empty() && a == b;
}

bool hasContent(const StoreInfo& info, const ImageContent& content) {
    return isKnownAndEqual(content.layersId, info.layersId) || isKnownAndEqual(content.id, info.id) ||
           isKnownAndEqual(content.registryDigest, info.registryDigest);
}

/// Costs one small file if the layers are known, which the index does not tell, and otherwise none.
bool mayHaveContent(const RepositoryPaths& paths, const ImageRecord& record, const ImageContent& content) {
    if (content.layersId.empty()) {
        return isKnownAndEqual(content.id, record.id) ||
               isKnownAndEqual(content.registryDigest, record.registryDigest);
    }
    const auto file = openFile(paths.metadata(record.reference), O_RDONLY | O_NONBLOCK);
    const auto info = parseStoreInfo(readAll(file.get(), largestMetadata, "metadata"));
    return info && hasContent(*info, content);
}

/// Whether two conversions of the same layers give the same bytes. A file taken over from podman-hpc records
/// only the name of its compressor: a conversion would take it again.
bool givesSameFile(const BuildRecord& stored, const BuildRecord& wanted) {
    return stored.options == wanted.options && stored.owner == wanted.owner &&
           stored.builder == wanted.builder &&
           (stored.compressor == wanted.compressor ||
            wanted.compressor.starts_with(cat(stored.compressor, ' ')));
}

/// Nobody else may change the bytes after they have been checked.
bool belongsToCallerAlone(int file) {
    struct stat status {};
    return ::fstat(file, &status) == 0 && (status.st_uid == ::geteuid() || status.st_uid == 0) &&
           (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool isIntact(const FoundImage& image) {
    const auto& recorded = image.info->squashfsDigest;
    if (fsverityDigestOfFile(image.file.get(), printable(image.path)) == recorded) {
        return true;
    }
    logWarn("ImageStore",
            cat("The stored image ", image.reference.full(), " is damaged: its file is not used again"));
    return false;
}

/// The image of one record, if it is usable.
class Candidates {
public:
    Candidates(const RepositoryPaths& repositoryPaths, const ImageContent& wantedContent,
               const std::function<BuildRecord()>& wantedBuild)
        : paths(repositoryPaths), content(wantedContent), build(wantedBuild) {}

    std::optional<FoundImage> find(const ImageRecord& record,
                                   const std::function<void(const ImageReference&)>& onCheck) {
        if (!mayHaveContent(paths, record, content)) {
            return std::nullopt;
        }
        auto image = openImage(paths.root, record.reference);
        if (!image || !image->info || !image->info->build || !hasContent(*image->info, content) ||
            !belongsToCallerAlone(image->file.get())) {
            return std::nullopt;
        }
        if (!wanted) {
            wanted = build();
        }
        if (!givesSameFile(*image->info->build, *wanted)) {
            return std::nullopt;
        }
        onCheck(record.reference);
        return isIntact(*image) ? std::move(image) : std::nullopt;
    }

private:
    const RepositoryPaths& paths;
    const ImageContent& content;
    const std::function<BuildRecord()>& build;
    std::optional<BuildRecord> wanted;
};

}  // namespace

std::optional<FoundImage> findEqualImage(Repository& repository, const ImageContent& content,
                                         const std::function<BuildRecord()>& build,
                                         const std::function<void(const ImageReference&)>& onCheck) {
    Candidates candidates(repository.paths(), content, build);
    for (const auto& record : repository.list()) {
        try {
            auto found = candidates.find(record, onCheck);
            throwIfInterrupted();
            if (found) {
                return found;
            }
        } catch (const Error& error) {
            throwIfInterrupted();
            logInfo("ImageStore", error.what());  // a damaged image must not keep another from being stored
        }
    }
    return std::nullopt;
}

}  // namespace sarus::image
