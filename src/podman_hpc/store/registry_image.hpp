#pragma once

#include <string>

#include "podman_hpc/store/store_files.hpp"

namespace sarus::podman_hpc {

/// An image as it came from a registry, arranged as a store of containers/storage with this image alone:
/// with the ids that Podman gives it, and without the layers' files.
struct RegistryImage {
    StorePaths store;
    std::string layout;  ///< OCI layout with the layers, compressed as in the registry
};

/// Arranges what skopeo copied to "dir:DIRECTORY", in that directory. Throws Error if anything is missing or
/// does not match its digest; the layers' digests are not checked here.
RegistryImage arrangeRegistryImage(const std::string& directory, const std::string& name);

}  // namespace sarus::podman_hpc
