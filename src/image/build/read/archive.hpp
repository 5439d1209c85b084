#pragma once

#include <memory>

#include "image/build/read/source_files.hpp"

namespace sarus::image::build {

/// Indexes a tar archive with an image, and provides its members by name. Unpacks nothing, so no name in it
/// can lead outside. Supports regular files, and symbolic and hard links among them (old versions of docker
/// save store equal layers as links), which it resolves as text. Skips directories, devices and other types;
/// members do not need an entry for their directory. `archive`: a regular, uncompressed file; only its
/// headers are read here. Throws Error if it is not a tar archive, damaged or truncated, or has more than
/// 100,000 such members. Opening a member throws Error if the archive has it twice, it is a sparse file, or
/// its link leads out of the archive.
std::shared_ptr<const SourceFiles> openArchive(UniqueFd archive);

}  // namespace sarus::image::build
