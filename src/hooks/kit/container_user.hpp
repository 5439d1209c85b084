#pragma once

#include <sys/types.h>

#include <span>
#include <vector>

#include "hooks/kit/hook_context.hpp"
#include "oci/bundle_config.hpp"

namespace sarus::hooks {

/// Ids with which the container's process will run, as the runtime's user namespace knows them.
struct ContainerUser {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups;
};

/// The user of config.json (`process.user`), seen through the container's id mappings if it has any. Supplementary groups which
/// have no id outside are left out. Throws Error if the user or its group has none.
ContainerUser mapContainerUser(const oci::BundleUser& user, std::span<const oci::BundleIdMapping> uidMappings,
                               std::span<const oci::BundleIdMapping> gidMappings);

/// Gives up, for good, every right of this process but those of the container's user: what the user or the image named may then
/// be opened. In a user namespace that is not the node's own nothing is done, because the hook has no more than the rights of the
/// user who made it. Throws Error.
void becomeContainerUser(const HookContext& context);

}  // namespace sarus::hooks
