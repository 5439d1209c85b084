#pragma once

#include <optional>
#include <string>

#include "image/import/import.hpp"

namespace sarus::image {

struct LoadRequest {
    /// Archive of docker save or podman save, OCI archive, OCI layout or SIF file; "-": standard input.
    std::string file;
    std::optional<ImageReference> reference{};  ///< default: the archive's own name
    std::string sourceFormat{};  ///< "docker-archive", "oci-archive", "oci" or "sif"; "": detected
};

/// Loads an image from a file into the repository. The builder reads archives and layouts in place. Input
/// that is compressed as a whole or comes through a pipe is first written to an unnamed file in the temporary
/// directory. SIF files go through skopeo. Throws Error.
void loadImage(Repository& repository, const ImportSettings& settings, const LoadRequest& request);

}  // namespace sarus::image
