#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "image/import/import.hpp"
#include "image/store/equal_image.hpp"
#include "image/store/import_session.hpp"

namespace sarus::image {

/// One pull or load, from its beginning to its end in the repository.
struct Import {
    /// Removes leftovers of killed imports. Throws Error.
    Import(Repository& theRepository, const ImportSettings& theSettings);

    /// Prints a status line on standard output.
    void say(const std::string& line) const;

    Repository& repository;
    const ImportSettings& settings;
    ImportSession session;
};

/// Adds to the error of an interrupted import that nothing was stored, and wipes its progress line.
void noteInterruption(Error& error);

/// The name of an image in the repository.
struct Destination {
    ImageReference reference;      ///< normalised
    std::string registryDigest{};  ///< "" if it comes from a file
};

/// What the builder says about an image; nullopt if it cannot read it, as its conversion will report.
std::optional<ImageDescription> tryToDescribe(const ImportSettings& settings, const BuildSource& source);

/// Publishes an image with the file of a stored one of this content, if findEqualImage() finds one; otherwise
/// returns false. `description` is that of the image; without it the stored image's configuration is taken.
/// Throws Error; then the old image stays.
bool storeAsEqual(const Import& import, const Destination& destination, const ImageContent& content,
                  const std::optional<ImageDescription>& description);

/// Creates the squashfs file of an image, unless the repository has it already, and publishes it. Of several
/// processes that do so with the same layers, one converts. `description` is that of the source, if it is
/// known. Throws Error; then the old image stays.
void storeImage(const Import& import, const BuildSource& source, const Destination& destination,
                const std::optional<ImageDescription>& description);

}  // namespace sarus::image
