#include "hooks/kit/container_user.hpp"

#include <grp.h>
#include <unistd.h>

#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "hooks/kit/namespaces.hpp"

namespace sarus::hooks {

namespace {

std::optional<std::uint32_t> mapId(std::uint32_t id, std::span<const oci::BundleIdMapping> mappings) {
    if (mappings.empty()) {
        return id;
    }
    for (const auto& mapping : mappings) {
        if (id >= mapping.containerId && id - mapping.containerId < mapping.size) {
            return mapping.hostId + (id - mapping.containerId);
        }
    }
    return std::nullopt;
}

}  // namespace

ContainerUser mapContainerUser(const oci::BundleUser& user, std::span<const oci::BundleIdMapping> uidMappings,
                               std::span<const oci::BundleIdMapping> gidMappings) {
    const auto uid = mapId(user.uid, uidMappings);
    const auto gid = mapId(user.gid, gidMappings);
    if (!uid || !gid) {
        throw Error(cat("The container's user ", user.uid, ':', user.gid, " has no id outside of its user namespace"));
    }
    ContainerUser result{.uid = *uid, .gid = *gid, .groups = {}};
    for (const auto group : user.additionalGids) {
        if (const auto mapped = mapId(group, gidMappings)) {
            result.groups.push_back(*mapped);
        }
    }
    return result;
}

void becomeContainerUser(const HookContext& context) {
    if (!isInitialUserNamespace()) {
        return;
    }
    const auto& config = context.config();
    const auto user = mapContainerUser(config.user(), config.uidMappings(), config.gidMappings());
    const auto shown = cat("Failed to become the container's user ", user.uid, ':', user.gid);
    checkErrno(::setgroups(user.groups.size(), user.groups.data()), shown);
    checkErrno(::setresgid(user.gid, user.gid, user.gid), shown);
    checkErrno(::setresuid(user.uid, user.uid, user.uid), shown);
    uid_t uids[3]{};
    gid_t gids[3]{};
    checkErrno(::getresuid(&uids[0], &uids[1], &uids[2]), shown);
    checkErrno(::getresgid(&gids[0], &gids[1], &gids[2]), shown);
    for (int i = 0; i < 3; ++i) {
        if (uids[i] != user.uid || gids[i] != user.gid) {
            throw Error(cat(shown, ": the ids are not what was set"));
        }
    }
}

}  // namespace sarus::hooks
