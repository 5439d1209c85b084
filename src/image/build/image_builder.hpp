#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "image/build/layout.hpp"
#include "image/build/progress.hpp"
#include "image/build/squashfs_options.hpp"
#include "image/build/squashfs_writer.hpp"

namespace sarus::image::build {

/// Bounds on what an image may make us do; they protect against archives that unpack to absurd sizes.
struct BuildLimits {
    std::uint64_t unpackedBytes = std::uint64_t{1} << 40U;  ///< of all layers together, holes of sparse files included
    std::uint64_t entries = 20'000'000;                     ///< members of all layers together
};

struct BuildRequest {
    ImageSource image;
    std::string outputPath;  ///< replaced if it exists; removed when the conversion fails
    Owner owner;             ///< of every file, as after an unprivileged unpack by this user
    SquashfsOptions squashfs;
    BuildLimits limits;
    ProgressOutput progress;
};

struct BuildResult {
    std::string squashfsDigest;  ///< "fsverity-sha256:..." (base/fsverity.hpp)
    std::uint64_t squashfsSize;  ///< in bytes
    std::uint64_t entries;       ///< names in the image
    /// The tree and whatever else was needed. To free it takes longer than to end the program, which may therefore keep it.
    std::shared_ptr<void> leftovers;
};

/// Converts the layers of an image into one squashfs, reading each blob once, the top layer first. Digests are verified on the
/// bytes that are used. Throws Error; the output exists only after success. Equal images, owners and options give equal bytes.
BuildResult buildImage(const BuildRequest& request);

/// The CPUs that this process may use.
unsigned int availableCpus();

}  // namespace sarus::image::build
