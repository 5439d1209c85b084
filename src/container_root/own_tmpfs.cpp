#include "container_root/own_tmpfs.hpp"

#include <algorithm>

#include "base/mount_table.hpp"

namespace sarus::container_root {

bool isOwnTmpfs(std::uint64_t mount, std::uint64_t rootMount) {
    const auto mounts = readMountTable();
    const auto find = [&](std::uint64_t id) {
        return std::find_if(mounts.begin(), mounts.end(),
                            [&](const MountEntry& entry) { return entry.id == id; });
    };
    const auto wanted = find(mount);
    const auto root = find(rootMount);
    // A bind mount of a directory of a tmpfs has another root.
    if (wanted == mounts.end() || root == mounts.end() || root->mountPoint == "/" ||
        (wanted->type != "tmpfs" && wanted->type != "ramfs") || wanted->root != "/") {
        return false;
    }
    const auto inside = root->mountPoint + '/';
    return std::all_of(mounts.begin(), mounts.end(), [&](const MountEntry& entry) {
        return entry.device != wanted->device || entry.mountPoint.starts_with(inside);
    });
}

}  // namespace sarus::container_root
