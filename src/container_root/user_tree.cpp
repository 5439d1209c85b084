#include "container_root/user_tree.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "container_root/root_files.hpp"

namespace sarus::container_root {

namespace {

constexpr int deepest = 8;

/// Everything happens in a ContainerView, by descriptor: an image cannot have root copy or create anything.
class Copier {
public:
    Copier(std::string_view theSource, const ContainerUser& theOwner) : shown(theSource), owner(theOwner) {}

    void copyDirectory(Directory from, int to, int depth) {
        while (const char* name = from.next()) {
            struct stat status {};
            if (::fstatat(from.fd(), name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
                continue;
            }
            if (entriesLeft == 0 || (S_ISDIR(status.st_mode) && depth == deepest)) {
                isCut = true;
                continue;
            }
            --entriesLeft;
            if (S_ISDIR(status.st_mode)) {
                copySubdirectory(from.fd(), to, name, depth);
            } else if (S_ISLNK(status.st_mode)) {
                copyLink(from.fd(), to, name);
            } else if (S_ISREG(status.st_mode)) {
                copyFile(from.fd(), to, name);
            }
        }
    }

    bool isCut = false;

private:
    void copySubdirectory(int from, int to, const char* name, int depth) {
        UniqueFd source(::openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!source || isOfKernel(source.get())) {
            return;
        }
        checkErrno(::mkdirat(to, name, 0700), cat("Failed to make the directory ", printable(name)));
        const auto made = openFileAt(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        give(made.get(), 0700);
        copyDirectory(Directory(std::move(source), shown), made.get(), depth + 1);
    }

    void copyLink(int from, int to, const char* name) {
        char target[PATH_MAX];
        const auto length = ::readlinkat(from, name, target, sizeof target - 1);
        if (length > 0) {
            target[length] = '\0';
            checkErrno(::symlinkat(target, to, name), cat("Failed to make the link ", printable(name)));
            checkErrno(::fchownat(to, name, owner.uid, owner.gid, AT_SYMLINK_NOFOLLOW),
                       cat("Failed to set the owner of ", printable(name)));
        }
    }

    void copyFile(int from, int to, const char* name) {
        struct stat status {};
        const auto source = tryOpenFileAt(from, name, status);
        if (!source) {
            return;
        }
        if (static_cast<std::size_t>(status.st_size) > bytesLeft) {
            isCut = true;
            return;
        }
        const auto content = readAll(source.get(), bytesLeft, printable(name));
        bytesLeft -= content.size();
        const auto made = openFileAt(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        writeAll(made.get(), content, printable(name));
        give(made.get(), status.st_mode & 0700U);
    }

    void give(int file, mode_t mode) const {
        checkErrno(::fchown(file, owner.uid, owner.gid), "Failed to set the owner of a file");
        checkErrno(::fchmod(file, mode), "Failed to set the mode of a file");
    }

    std::string shown;
    const ContainerUser& owner;
    std::size_t entriesLeft = 1000;
    std::size_t bytesLeft = 16U << 20U;
};

}  // namespace

bool copyTreeAsUser(int root, std::string_view source, std::string_view target, const ContainerUser& owner) {
    const ContainerView view;
    const auto to = tryOpenDirectoryInRoot(root, target);
    auto from = tryOpenDirectoryInRoot(root, source);
    if (!to || !from) {
        return true;
    }
    Copier copier(source, owner);
    copier.copyDirectory(Directory(std::move(from), std::string(source)), to.get(), 0);
    return !copier.isCut;
}

}  // namespace sarus::container_root
