#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "image/types/reference.hpp"
#include "oci/image/image_metadata.hpp"

namespace sarus::image {

/// One image of a repository, as recorded in its index (`metadata.json`).
struct ImageRecord {
    ImageReference reference;    ///< with a tag or a digest, never both
    std::string registryDigest;  ///< "" if unknown (images loaded from a file)
    std::string id;              ///< hex digits of the configuration's digest, "" if unknown
    std::string size;            ///< as `sarus images` shows it
    std::string created;         ///< local time when it was stored, "YYYY-MM-DDTHH:MM:SS"
    std::string platform{};      ///< as oci::toString(); "" if unknown. Sarus 1.7 does not record it

    bool operator==(const ImageRecord&) const = default;
};

/// The inputs that determine the bytes of a squashfs file, besides the layers: equal layers and equal members
/// give equal bytes.
struct BuildRecord {
    std::string options;     ///< in mksquashfs' form, "" for the defaults
    std::string owner;       ///< "UID:GID"
    std::string builder;     ///< version of the image builder
    std::string compressor;  ///< name and version of the library: "zstd 1.5.4"

    bool operator==(const BuildRecord&) const = default;
};

/// Data about a stored image beyond Sarus 1.7: an additional member "Store" of its `.meta` file, which Sarus
/// 1.7 ignores.
struct StoreInfo {
    std::string registryDigest;
    std::string id;
    std::string squashfsDigest;  ///< "fsverity-sha256:..." of the squashfs file (base/fsverity.hpp)
    std::uint64_t squashfsSize = 0;
    std::optional<BuildRecord> build{};  ///< nullopt in images of the first versions with a digest
    std::string identity{};              ///< squashfs/identity.hpp; "" if the file has none
    std::string layersId{};              ///< image/store/conversions.hpp; "" if unknown
    std::string platform{};              ///< as oci::toString(); "" if unknown

    bool operator==(const StoreInfo&) const = default;
};

/// Takes over what is known of an image beyond its name, size and time.
void update(ImageRecord& record, const StoreInfo& info);

struct Index {
    std::vector<ImageRecord> images;
    bool damaged = false;  ///< parts of the text are invalid; `images` holds the valid ones
};

/// Reads the text of metadata.json as written by this program or by Sarus 1.5 to 1.7. Ignores paths in it.
/// Never throws for its content.
Index parseIndex(std::string_view json);

/// The text of metadata.json, in the format of Sarus 1.7, with paths below `imagesDirectory`.
std::string serializeIndex(const std::vector<ImageRecord>& images, const std::string& imagesDirectory);

/// The text of a `.meta` file.
std::string serializeStoredMetadata(const oci::ImageMetadata& metadata, const StoreInfo& info);

/// The additional member of a `.meta` file; nullopt if there is none or it is malformed.
std::optional<StoreInfo> parseStoreInfo(std::string_view json);

/// The size of an open image file. Throws Error with a hint for a file that is empty or not regular.
std::uint64_t checkImageFile(int fd, const std::string& path);

}  // namespace sarus::image
