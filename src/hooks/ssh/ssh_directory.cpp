#include "hooks/ssh/ssh_directory.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/capabilities.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/mounts.hpp"
#include "base/path_in_root.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "container_root/root_files.hpp"
#include "hooks/kit/container_namespaces.hpp"

namespace sarus::hooks::ssh {

namespace {

UniqueFd findDirectory(int root, const std::string& path) {
    auto place = container_root::tryFindInRoot(root, path);
    checkErrno(place.get(), cat("Failed to open the container's ", printable(path)));
    if (!S_ISDIR(statusOf(place.get(), path).st_mode) || container_root::isOfKernel(place.get())) {
        throw Error(cat("The container's ", printable(path), " is not a directory of the user"));
    }
    return place;
}

/// Made as the user; or, in a root filesystem where only root may, for the user.
void makeSshDirectory(const container_root::Editor& editor, int root, const std::string& path,
                      const ContainerUser& user) {
    try {
        const container_root::ContainerView view;
        createInRoot(root, path, EntryKind::directory, {.directoryMode = 0700});
        return;
    } catch (const Error& error) {
        if (error.errnum() != EACCES && error.errnum() != EPERM && error.errnum() != EROFS) {
            throw;
        }
    }
    try {
        editor.makeDirectoryOf(user.uid, user.gid, path, 0700);
    } catch (const Error& error) {
        throw Error(error.what(), cat("SSH needs a directory ", printable(path),
                                      " that exists or that you may create: mount a home directory in which "
                                      "you may write"));
    }
}

/// An overlay keeps the rights of who mounts it, and needs CAP_DAC_OVERRIDE for its own directory "work",
/// which has no permissions. Files of a file server are still accessed as the user.
void raiseRightsToMountOverlay() {
    auto sets = getCapabilities();
    sets.effective |= sets.permitted & (1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_SYS_ADMIN);
    setCapabilities(sets);
}

/// Where a link of the image may lead, and a mount would cover what must not be covered.
UniqueFd findMountPoint(const container_root::Editor& editor, int root, const std::string& path) {
    auto place = findDirectory(root, path);
    try {
        editor.requireMayCover(place.get());
    } catch (Error& error) {
        error.addContext(cat("Failed to mount on the container's ", printable(path)));
        throw;
    }
    return place;
}

/// The directory's content, and over it what the hook and the container write, in memory.
void mountOverlay(const container_root::Editor& editor, int root, const std::string& path,
                  const ContainerUser& user) {
    constexpr const char* workshop = "/opt/oci-hooks/ssh/overlay";
    const auto target = findMountPoint(editor, root, path);
    editor.makeDirectory(workshop);
    mountFilesystem("tmpfs", descriptorPath(findMountPoint(editor, root, workshop).get()), "tmpfs",
                    MS_NOSUID | MS_NODEV, cat("mode=0700,size=64m,uid=", user.uid, ",gid=", user.gid));
    const auto memory = findDirectory(root, workshop);
    {
        const container_root::ContainerView view;
        for (const auto* const name : {"lower", "upper", "work", "merged"}) {
            checkErrno(::mkdirat(memory.get(), name, 0700), "Failed to prepare an overlay");
        }
    }
    const auto open = [&](const char* name) {
        return openFileAt(memory.get(), name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    };
    bindMount(target.get(), open("lower").get(), {});
    checkErrno(::fchdir(memory.get()), "Failed to prepare an overlay");
    try {
        const container_root::ContainerView view;
        raiseRightsToMountOverlay();
        mountFilesystem(
            "overlay", "merged", "overlay", MS_NOSUID | MS_NODEV,
            cat("lowerdir=lower,upperdir=upper,workdir=work", isInitialUserNamespace() ? "" : ",userxattr"));
    } catch (const Error& error) {
        throw Error(
            cat("Failed to mount an overlay on the container's ", printable(path), ": ", error.what()),
            "OVERLAY_MOUNT_HOME_SSH=False in the hook's JSON file does without the overlay");
    }
    bindMount(open("merged").get(), target.get(), {.nodev = true});
    checkErrno(::chdir("/"), "Failed to change to the directory /");
    // The overlay needs the names no longer, and nobody shall reach the directories below it.
    checkErrno(::umount2(descriptorPath(memory.get()).c_str(), MNT_DETACH), "Failed to hide an overlay");
}

/// As the user: what is there is replaced, whatever it is.
void putFile(int directory, const std::string& name, std::string_view content, mode_t mode) {
    const container_root::ContainerView view;
    const auto temporary = cat('.', name, '-', randomLetters());
    try {
        const auto file = openFileAt(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        writeAll(file.get(), content, printable(name));
        checkErrno(::fchmod(file.get(), mode), "Failed to set the permissions");
        checkErrno(::renameat(directory, temporary.c_str(), directory, name.c_str()), "Failed to rename");
    } catch (Error& error) {
        ::unlinkat(directory, temporary.c_str(), 0);
        error.addContext(cat("Failed to write ", printable(pathOfDescriptor(directory)), '/', name));
        throw;
    }
}

/// The lines of a user's own authorized_keys, which must survive; "" for an image's, whose author must not be
/// let in.
std::string keptLines(int root, int directory, const std::string& path) {
    constexpr std::size_t maxFile = 1U << 20U;
    if (mountIdOf(directory) == mountIdOf(root)) {
        return {};
    }
    auto text = container_root::tryReadFileInRoot(root, path, maxFile).value_or("");
    if (!text.empty() && !text.ends_with('\n')) {
        text.push_back('\n');
    }
    return text;
}

void appendMissing(std::string& text, const std::string& lines) {
    for (const auto& line : split(lines, '\n')) {
        if (!line.empty() && cat('\n', text).find(cat('\n', line, '\n')) == std::string::npos) {
            text += line + '\n';
        }
    }
}

/// Dropbear believes in keys only where nobody else can put them.
void warnOfPermissions(int place, const std::string& path, const ContainerUser& user, const HookLogger& log) {
    const auto status = statusOf(place, path);
    if (status.st_uid != user.uid && status.st_uid != 0) {
        log.warn(
            cat("SSH will refuse your key: the container's ", printable(path), " belongs to another user"));
    } else if ((status.st_mode & 022U) != 0) {
        log.warn(cat("SSH will refuse your key: others may write to the container's ", printable(path),
                     " (chmod go-w)"));
    }
}

}  // namespace

void fillSshDirectory(const container_root::Editor& editor, int root, const std::string& home,
                      const ContainerUser& user, const UserKeys& keys, const std::string& extraKeys,
                      bool overlay, const HookLogger& log) {
    const auto path = cat(home, "/.ssh");
    if (!container_root::tryFindInRoot(root, path)) {
        makeSshDirectory(editor, root, path, user);
    }
    if (overlay) {
        mountOverlay(editor, root, path, user);
    }
    const auto directory = findDirectory(root, path);
    if (!overlay && (statusOf(directory.get(), path).st_mode & S_IWOTH) != 0) {
        throw Error(cat("Everybody may write to the container's ", printable(path)),
                    "It is no place for keys: it may be a link of the image");
    }
    std::string authorized = overlay ? "" : keptLines(root, directory.get(), cat(path, "/authorized_keys"));
    appendMissing(authorized, keys.authorizedKeys);
    appendMissing(authorized, extraKeys);
    putFile(directory.get(), "dropbear_ecdsa_host_key", keys.hostKey, 0600);
    putFile(directory.get(), "id_dropbear", keys.clientKey, 0600);
    putFile(directory.get(), "authorized_keys", authorized, 0644);
    warnOfPermissions(findDirectory(root, home).get(), home, user, log);
    warnOfPermissions(directory.get(), path, user, log);
}

}  // namespace sarus::hooks::ssh
