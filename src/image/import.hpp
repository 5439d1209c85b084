#pragma once

#include <string>

#include "image/builder_client.hpp"
#include "image/credentials.hpp"
#include "image/reference.hpp"
#include "image/repository.hpp"
#include "image/skopeo.hpp"

namespace sarus::image {

/// What an import needs besides the repository.
struct ImportSettings {
    SkopeoSettings skopeo;
    BuilderSettings builder;
    std::string tempDir;  ///< for what is spooled
    bool quiet = false;   ///< nothing on standard output
};

struct PullRequest {
    ImageReference reference;  ///< as typed, not normalised
    LoginOptions login;
    bool fromContainersStorage = false;  ///< out of Podman's storage instead of a registry
};

/// Gets an image from a registry into the repository, or finds that it is up to date, and says so on standard output as
/// documented (unless it shall be quiet). Throws Error "Failed to pull image '<reference>'" and leaves everything as it was.
void pullImage(Repository& repository, const ImportSettings& settings, const PullRequest& request);

struct LoadRequest {
    std::string file;  ///< an archive of docker save or podman save, an OCI archive, an OCI layout directory or a SIF file
    ImageReference reference;
    std::string sourceFormat;  ///< skopeo's name of the format; "": it is found out
};

/// Puts an image from a file into the repository.
void loadImage(Repository& repository, const ImportSettings& settings, const LoadRequest& request);

}  // namespace sarus::image
