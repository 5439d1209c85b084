#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/kit/hook_context.hpp"
#include "oci/runtime/bundle_config.hpp"

namespace sarus::hooks {

/// Ids of the container's process, as seen in the runtime's user namespace.
struct ContainerUser {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups;
};

/// The user of config.json (`process.user`), mapped through the container's id mappings if there are any.
/// Omits supplementary groups without an id outside. Throws Error if the user or its group has none.
ContainerUser mapContainerUser(const oci::RuntimeUser& user,
                               std::span<const oci::RuntimeIdMapping> uidMappings,
                               std::span<const oci::RuntimeIdMapping> gidMappings);

/// The id that the node knows the user as whom this user namespace calls `uid`: `map` is the text of
/// /proc/self/uid_map (user_namespaces(7)), which in a namespace within another one tells no more than the
/// outer one's ids. Throws Error if there is none; findNodeUid returns nullopt.
std::optional<uid_t> findNodeUid(uid_t uid);
uid_t nodeUid(uid_t uid, std::string_view map);
uid_t nodeUid(uid_t uid);

/// Gives up, for good, every right of this process but those of the container's user: what the user or the
/// image named may then be opened. Does nothing for a hook that is not root's on the node itself, because it
/// has no more than the rights of its user. Throws Error.
void becomeContainerUser(const HookContext& context);
void becomeContainerUser(const oci::BundleConfig& config);

/// Runs `work` in a child that becomes this user in the same way, and returns its result: for what is written
/// or removed at a path that the user or the image named. Throws Error with the child's message.
std::string runAsContainerUser(const ContainerUser& user, const std::function<std::string()>& work);

}  // namespace sarus::hooks
