#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "image/build/progress.hpp"
#include "image/build/read/layer_directory.hpp"
#include "image/build/read/layer_stream.hpp"
#include "image/build/write/squashfs_options.hpp"
#include "image/build/write/squashfs_writer.hpp"
#include "image/store/conversions.hpp"

namespace sarus::image::build {

/// Limits on an image, which protect against archives that unpack to excessive sizes.
struct BuildLimits {
    /// Of all layers together, including holes of sparse files.
    std::uint64_t unpackedBytes = std::uint64_t{1} << 40U;
    std::uint64_t entries = 20'000'000;  ///< members of all layers together
};

struct BuildRequest {
    std::vector<Layer> layers{};  ///< lowest first
    /// Instead of layers: directories into which they were unpacked (LayerDirectory), lowest first, and the
    /// size of their files if it is known.
    std::vector<std::string> directories{};
    std::uint64_t directoryBytes = 0;
    /// Instead of layers: an image, and above it the one directory in `directories`, with what a container
    /// has written.
    std::string image{};  ///< path of a squashfs file
    ContainerLayer container{};
    /// What the archive of each of the directories had (LayerPromise); "" where that is unknown. Other
    /// programs can use the result only if all of it was read.
    std::vector<std::string> promises{};
    std::string outputPath;  ///< replaced if it exists; removed if the conversion fails
    int output = -1;         ///< instead of a path: an empty file, open for reading and writing
    std::string layersId{};  ///< of the directories, if it is known (image/store/conversions.hpp)
    /// A program whose squashfs file of the same layers may be copied instead of a conversion.
    std::optional<Converter> convertedBy{};
    /// Of every file, as after an unprivileged unpack by this user; nullopt: as in the layers.
    std::optional<Owner> owner{};
    SquashfsOptions squashfs;
    BuildLimits limits;
    ProgressOutput progress;
};

struct BuildResult {
    std::string squashfsDigest;  ///< "fsverity-sha256:..." (base/fsverity.hpp)
    std::uint64_t squashfsSize;  ///< in bytes
    std::uint64_t entries;       ///< names in the image
    std::string compressor;      ///< the library and its version; only its name if the file was copied
    std::string layersId{};      ///< "" if another program cannot use the file
};

/// Converts the layers of an image into one squashfs. Reads each blob once, the top layer first, and verifies
/// digests on the bytes that it uses. Throws Error; the output exists only after success. Equal images,
/// owners and options give equal bytes.
BuildResult buildImage(const BuildRequest& request);

/// layersIdOf() of an image's layers.
std::string idOfLayers(const std::vector<Layer>& layers);

/// The number of CPUs available to this process.
unsigned int availableCpus();

}  // namespace sarus::image::build
