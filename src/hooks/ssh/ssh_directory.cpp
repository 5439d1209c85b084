#include "hooks/ssh/ssh_directory.hpp"

#include <sys/stat.h>

#include "base/error.hpp"
#include "base/mounts.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "container_root/root_files.hpp"
#include "hooks/kit/container_namespaces.hpp"

namespace sarus::hooks::ssh {

namespace {

void makeSshDirectory(const container_root::Editor& editor, const std::string& path,
                      const ContainerUser& user) {
    try {
        editor.makeUsersDirectory(user.uid, user.gid, path, 0700);
    } catch (const Error& error) {
        throw Error(error.what(), cat("SSH needs a directory ", printable(path),
                                      " that exists or that you may create: mount a home directory in which "
                                      "you may write"));
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
        makeSshDirectory(editor, path, user);
    }
    if (overlay) {
        editor.coverByOverlay(
            path, {.owner = user.uid,
                   .group = user.gid,
                   .size = "64m",
                   .workshop = "/opt/oci-hooks/ssh/overlay",
                   .isInUserNamespace = !isInitialUserNamespace(),
                   .hint = "OVERLAY_MOUNT_HOME_SSH=False in the hook's JSON file does without the overlay"});
    }
    const auto directory = editor.findUsersDirectory(path);
    if (!overlay && (statusOf(directory.get(), path).st_mode & S_IWOTH) != 0) {
        throw Error(cat("Everybody may write to the container's ", printable(path)),
                    "It is no place for keys: it may be a link of the image");
    }
    std::string authorized = overlay ? "" : keptLines(root, directory.get(), cat(path, "/authorized_keys"));
    appendMissing(authorized, keys.authorizedKeys);
    appendMissing(authorized, extraKeys);
    editor.replaceUsersFile(directory.get(), "dropbear_ecdsa_host_key", keys.hostKey, 0600);
    editor.replaceUsersFile(directory.get(), "id_dropbear", keys.clientKey, 0600);
    editor.replaceUsersFile(directory.get(), "authorized_keys", authorized, 0644);
    warnOfPermissions(editor.findUsersDirectory(home).get(), home, user, log);
    warnOfPermissions(directory.get(), path, user, log);
}

}  // namespace sarus::hooks::ssh
