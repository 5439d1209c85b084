#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/capabilities.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/mounts.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "container_root/editor.hpp"
#include "container_root/root_files.hpp"

namespace sarus::container_root {

namespace {

/// An overlay keeps the rights of who mounts it, and needs CAP_DAC_OVERRIDE for its own directory "work",
/// which has no permissions. Files of a file server are still accessed as the user.
void raiseRightsToMountOverlay() {
    auto sets = getCapabilities();
    sets.effective |= sets.permitted & (1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_SYS_ADMIN);
    setCapabilities(sets);
}

}  // namespace

/// Where a link of the image may lead, and a mount would cover what must not be covered.
UniqueFd Editor::findMountPoint(const std::string& path) const {
    auto place = findUsersDirectory(path);
    try {
        requireMayCover(place.get());
    } catch (Error& error) {
        error.addContext(cat("Failed to mount on the container's ", printable(path)));
        throw;
    }
    return place;
}

void Editor::coverByOverlay(const std::string& path, const MemoryOverlay& overlay) const {
    const auto target = findMountPoint(path);
    makeDirectory(overlay.workshop);
    mountFilesystem("tmpfs", descriptorPath(findMountPoint(overlay.workshop).get()), "tmpfs",
                    MS_NOSUID | MS_NODEV,
                    cat("mode=0700,size=", overlay.size, ",uid=", overlay.owner, ",gid=", overlay.group));
    const auto memory = findUsersDirectory(overlay.workshop);
    user.asUser([&] {
        for (const auto* const name : {"lower", "upper", "work", "merged"}) {
            checkErrno(::mkdirat(memory.get(), name, 0700), "Failed to prepare an overlay");
        }
    });
    const auto open = [&](const char* name) {
        return openFileAt(memory.get(), name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    };
    bindMount(target.get(), open("lower").get(), {});
    checkErrno(::fchdir(memory.get()), "Failed to prepare an overlay");
    try {
        user.asUser([&] {
            raiseRightsToMountOverlay();
            mountFilesystem("overlay", "merged", "overlay", MS_NOSUID | MS_NODEV,
                            cat("lowerdir=lower,upperdir=upper,workdir=work",
                                overlay.isInUserNamespace ? ",userxattr" : ""));
        });
    } catch (const Error& error) {
        throw Error(
            cat("Failed to mount an overlay on the container's ", printable(path), ": ", error.what()),
            overlay.hint);
    }
    bindMount(open("merged").get(), target.get(), {.nodev = true});
    checkErrno(::chdir("/"), "Failed to change to the directory /");
    // The overlay needs the names no longer, and nobody shall reach the directories below it.
    checkErrno(::umount2(descriptorPath(memory.get()).c_str(), MNT_DETACH), "Failed to hide an overlay");
}

}  // namespace sarus::container_root
