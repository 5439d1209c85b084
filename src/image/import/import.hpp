#pragma once

#include <string>

#include "image/import/builder_client.hpp"
#include "image/store/repository.hpp"
#include "image/transfer/login.hpp"
#include "image/transfer/skopeo.hpp"
#include "image/types/reference.hpp"

namespace sarus::image {

/// The inputs of an import besides the repository.
struct ImportSettings {
    SkopeoSettings skopeo;
    BuilderSettings builder;
    std::string tempDir;  ///< for temporary files
    bool quiet = false;   ///< print nothing on standard output
};

struct PullRequest {
    ImageReference reference;  ///< as typed, not normalised
    LoginOptions login;
    bool fromContainersStorage = false;  ///< from Podman's storage instead of a registry
};

/// Copies an image from a registry into the repository, unless it is up to date, and reports that on standard
/// output as documented (unless quiet). Throws Error "Failed to pull image '<reference>'"; then nothing has
/// changed.
void pullImage(Repository& repository, const ImportSettings& settings, const PullRequest& request);

}  // namespace sarus::image
