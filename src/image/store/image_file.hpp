#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/draft.hpp"
#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "oci/image/image_metadata.hpp"

namespace sarus::image {

/// Whether the image on a command line is a file rather than a reference: it begins with '/', './' or '../',
/// as no reference can. Slashes alone do not name a file: they are an invalid reference.
bool isImageFile(std::string_view argument);

/// Opens a squashfs file for reading, with the caller's rights. Throws Error if it is not one.
UniqueFd openImageFile(const std::string& path);

/// The limit of an image file's metadata, in the file and beside it.
inline constexpr std::size_t largestMetadata = 4U << 20U;

/// The metadata that writeImageFile() put behind the file system; nullopt if there are none.
std::optional<std::string> embeddedMetadata(int file);

/// Default command, entrypoint, variables and directory of the image in an open squashfs file: from the
/// `.meta` file beside `path`, else from its own end. Throws Error.
oci::ImageMetadata metadataOfImageFile(const std::string& path, int file);

enum class Existing { keep, replace };

/// A squashfs file that will carry the text of its metadata behind the file system, where its readers do not
/// look. It appears only when everything is on the disk; before, nothing has its name (base/draft.hpp).
class ImageFileDraft {
public:
    /// `path` must not exist, unless it may be replaced. Throws Error.
    ImageFileDraft(const std::string& path, Existing existing);

    /// Of the file system, to be written from its start.
    int fd() const noexcept { return draft.fd(); }
    /// Throws Error.
    void publish(std::string_view metadata);

private:
    Error existsAlready() const;

    std::string name;
    Existing mode;
    Draft draft;
};

/// The same for the content of an open squashfs file. Throws Error.
void writeImageFile(int squashfs, std::string_view metadata, const std::string& path,
                    Existing existing = Existing::keep);

}  // namespace sarus::image
