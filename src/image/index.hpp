#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "image/reference.hpp"
#include "oci/image_metadata.hpp"

namespace sarus::image {

/// One image of a repository, as its index (`metadata.json`) knows it.
struct ImageRecord {
    ImageReference reference;    ///< with a tag or with a digest, never with both
    std::string registryDigest;  ///< "" if unknown (images which were loaded from a file)
    std::string id;              ///< hex digits of the configuration's digest, "" if unknown
    std::string size;            ///< as `sarus images` shows it
    std::string created;         ///< local time of the moment when it was stored, "YYYY-MM-DDTHH:MM:SS"
};

/// What the bytes of a squashfs file depend on, besides the layers: equal layers and equal members give equal bytes.
struct BuildRecord {
    std::string options;     ///< in mksquashfs' form, "" for the defaults
    std::string owner;       ///< "UID:GID"
    std::string builder;     ///< version of the image builder
    std::string compressor;  ///< name and version of the library: "zstd 1.5.4"

    bool operator==(const BuildRecord&) const = default;
};

/// What we know about a stored image beyond Sarus 1.7; an additional member "Store" of its `.meta` file, which that ignores.
struct StoreInfo {
    std::string registryDigest;
    std::string id;
    std::string squashfsDigest;  ///< "fsverity-sha256:..." of the squashfs file (base/fsverity.hpp)
    std::uint64_t squashfsSize = 0;
    std::optional<BuildRecord> build{};  ///< nullopt in images of the first versions that had a digest

    bool operator==(const StoreInfo&) const = default;
};

struct Index {
    std::vector<ImageRecord> images;
    bool damaged = false;  ///< something in the text was not understood; `images` holds what was
};

/// Reads the text of metadata.json as written by this program or by Sarus 1.5 to 1.7. Paths in it are ignored. Never throws for
/// its content.
Index parseIndex(std::string_view json);

/// The text of metadata.json, in the format of Sarus 1.7. Paths are made from `imagesDirectory`.
std::string serializeIndex(const std::vector<ImageRecord>& images, const std::string& imagesDirectory);

/// The text of a `.meta` file.
std::string serializeStoredMetadata(const oci::ImageMetadata& metadata, const StoreInfo& info);

/// The additional member of a `.meta` file; nullopt if there is none or it is malformed.
std::optional<StoreInfo> parseStoreInfo(std::string_view json);

/// The size of an opened file of an image. Throws Error, which says what to do, for one that is empty or no regular file.
std::uint64_t checkImageFile(int fd, const std::string& path);

/// The text of a `.meta` file. Throws Error; does not wait for a FIFO in its place.
std::string readStoredMetadata(const std::string& path);

}  // namespace sarus::image
