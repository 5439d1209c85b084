#pragma once

#include "podman_hpc/cli/call.hpp"
#include "podman_hpc/config/settings.hpp"
#include "podman_hpc/store/migration.hpp"

namespace sarus::podman_hpc {

/// Makes the squashfs file: by our image builder from the layers' files, in Podman's user namespace, or by
/// mksquashfs in a container where they cannot be read. `call` has the user's global options.
/// Throws Error.
void makeSquash(const SquashOrder& order, const Call& call, const Settings& settings,
                const Surroundings& from);

/// The same from the compressed layers in an OCI layout with one image.
void makeSquashOfLayout(const SquashOrder& order, const std::string& layout, const Surroundings& from);

/// Tells sarus where the squashfs file of an image is that was added to the store. `lists` has its layers.
void noteSquash(const StorePaths& store, const StoreLists& lists, const PodmanImage& image);

}  // namespace sarus::podman_hpc
