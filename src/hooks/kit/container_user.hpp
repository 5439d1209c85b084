#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "container_root/container_view.hpp"
#include "hooks/kit/hook_context.hpp"
#include "oci/runtime/bundle_config.hpp"

namespace sarus::hooks {

using container_root::ContainerUser;

/// The user of config.json (`process.user`), mapped through the container's id mappings if there are any.
/// Omits supplementary groups without an id outside. Throws Error if the user or its group has none.
ContainerUser mapContainerUser(const oci::RuntimeUser& user,
                               std::span<const oci::RuntimeIdMapping> uidMappings,
                               std::span<const oci::RuntimeIdMapping> gidMappings);

/// The node's uid of the container's caller, whose home, keys and directories a hook uses. On the node itself
/// it is that of the container's user. In a user namespace the kernel tells only the ids of the parent, which
/// may be one more namespace: the engine's annotation tells the uid, and no hook has more rights than its
/// user there. With another engine it is the uid of this process in the parent, or in the container's own
/// namespace that of the container's user, which is the same with Podman's --userns=keep-id. Throws Error.
uid_t callersUid(const HookContext& context);
/// At the stage precreate, by the configuration alone.
uid_t callersUid(const oci::BundleConfig& config);
/// The same rule for a hook in a user namespace with this `map` (uid_map), with the annotation's value.
uid_t callersUid(const oci::BundleConfig& config, std::string_view map,
                 const std::optional<std::string>& told, uid_t ownUid);
/// Of this process, where there is no container.
uid_t callersUid();

/// The container's user as this process's user namespace knows it, for the owner of new files: on the node
/// itself and in the runtime's namespace it is that of mapContainerUser(), in the container's own that of
/// config.json. An id that the namespace lacks is this process's own. Throws Error.
ContainerUser ownerOfNewFiles(const HookContext& context);

/// Gives up, for good, every right of this process but those of the container's user: what the user or the
/// image named may then be opened. Does nothing for a hook that is not root's on the node itself, because it
/// has no more than the rights of its user. Throws Error.
void becomeContainerUser(const HookContext& context);
void becomeContainerUser(const oci::BundleConfig& config);

/// Runs `work` in a child that becomes this user in the same way, and returns its result: for what is written
/// or removed at a path that the user or the image named. Throws Error with the child's message.
std::string runAsContainerUser(const ContainerUser& user, const std::function<std::string()>& work);

}  // namespace sarus::hooks
