#include "image/store/tag.hpp"

#include <sys/stat.h>

#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "base/text.hpp"
#include "image/store/import_session.hpp"
#include "image/store/link_image.hpp"
#include "image/store/lookup.hpp"

namespace sarus::image {

namespace {

/// The recorded data of the image; Sarus 1.7 recorded only the index.
StoreInfo storeInfo(Repository& repository, const FoundImage& image) {
    if (image.info) {
        return *image.info;
    }
    StoreInfo info;
    if (const auto record = repository.find(image.reference)) {
        info.registryDigest = record->registryDigest;
        info.id = record->id;
        info.platform = record->platform;
    }
    struct stat status {};
    checkErrno(::fstat(image.file.get(), &status), cat("Failed to examine ", printable(image.path)));
    info.squashfsSize = static_cast<std::uint64_t>(status.st_size);
    return info;
}

}  // namespace

void tagImage(Repository& repository, const std::string& tempDir, const ImageReference& source,
              const ImageReference& target) {
    if (!target.digest.empty()) {
        throw Error(
            cat("Cannot tag an image as '", target.full(), "': a digest is no name that can be given"),
            "Name the target like NAME:TAG");
    }
    const InterruptScope interruptible;
    repository.recover();
    const auto image = findImage(repository.paths().root, source);
    if (image.reference == target) {
        return;
    }
    const auto info = storeInfo(repository, image);
    const ImportSession session(repository.paths(), tempDir, repository.lockTimings());
    publishLink(repository, image.file.get(), {target, session.suffix(), image.metadata, info});
}

}  // namespace sarus::image
