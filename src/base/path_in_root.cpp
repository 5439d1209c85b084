#include "base/path_in_root.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <deque>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus {

namespace {

constexpr int maxLinks = 40;  // as the kernel's MAXSYMLINKS

/// open_how as a kernel structure; empty descriptor and errno on failure.
UniqueFd callOpenat2(int root, const std::string& path, LastLink lastLink) {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    if (lastLink == LastLink::keep) {
        how.flags |= O_NOFOLLOW;
    }
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    // EAGAIN: a ".." met a concurrent rename or mount. Retry here; the walk needs no retry.
    for (int attempt = 0; attempt < 8; ++attempt) {
        UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
        if (fd || errno != EAGAIN) {
            return fd;
        }
    }
    errno = ENOSYS;
    return UniqueFd();
}

/// The walk for kernels without openat2, and for creating. Keeps a descriptor of every directory on the way,
/// so that ".." never asks the filesystem (where a directory could have been moved out of the tree).
class Walk {
public:
    Walk(int rootDirectory, std::string_view path, LastLink last, const Creation* how, EntryKind wantedKind)
        : root(rootDirectory), lastLink(last), creation(how), kind(wantedKind) {
        directoryWanted = path.ends_with('/') || path.ends_with("/.") || path == ".";
        push(path);
    }

    /// Empty descriptor and errno on failure.
    UniqueFd run() {
        while (!remaining.empty()) {
            const std::string component = std::move(remaining.front());
            remaining.pop_front();
            if (component == "..") {
                if (!isDirectoryHere()) {
                    return failure(ENOTDIR);
                }
                if (!stack.empty()) {
                    stack.pop_back();
                }
            } else if (!step(component)) {
                return UniqueFd();
            }
        }
        if (directoryWanted && !isDirectoryHere()) {
            return failure(ENOTDIR);
        }
        if (stack.empty()) {
            return UniqueFd(::openat(root, ".", O_PATH | O_CLOEXEC));
        }
        return std::move(stack.back());
    }

private:
    int here() const { return stack.empty() ? root : stack.back().get(); }

    static UniqueFd failure(int error) {
        errno = error;
        return UniqueFd();
    }

    bool isDirectoryHere() const {
        struct stat status {};
        return ::fstat(here(), &status) == 0 && S_ISDIR(status.st_mode);
    }

    void push(std::string_view path) {
        auto components = split(path, '/');
        for (auto component = components.rbegin(); component != components.rend(); ++component) {
            if (!component->empty() && *component != ".") {
                remaining.push_front(std::move(*component));
            }
        }
    }

    bool step(const std::string& component) {
        if (creation != nullptr && creation->permit) {
            creation->permit(here(), component);
        }
        // O_DIRECTORY triggers an automount.
        UniqueFd next(::openat(here(), component.c_str(), O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC));
        if (!next && (errno == ENOTDIR || errno == ELOOP)) {
            next.reset(::openat(here(), component.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        }
        if (!next && errno == ENOENT && creation != nullptr) {
            next = create(component);
        }
        if (!next) {
            return false;
        }
        struct stat status {};
        if (::fstat(next.get(), &status) != 0) {
            return false;
        }
        if (S_ISLNK(status.st_mode) &&
            !(remaining.empty() && lastLink == LastLink::keep && !directoryWanted)) {
            return followLink(next.get());
        }
        stack.push_back(std::move(next));
        return true;
    }

    bool followLink(int link) {
        std::array<char, PATH_MAX> target{};
        const auto length = ::readlinkat(link, "", target.data(), target.size());
        if (length < 0) {
            return false;
        }
        if (length == 0 || static_cast<std::size_t>(length) >= target.size()) {
            errno = length == 0 ? ENOENT : ENAMETOOLONG;
            return false;
        }
        if (++linksFollowed > maxLinks) {
            errno = ELOOP;
            return false;
        }
        const std::string_view text(target.data(), static_cast<std::size_t>(length));
        if (isMagic(link, text)) {
            errno = ELOOP;
            return false;
        }
        if (text.front() == '/') {
            stack.clear();
        }
        if (remaining.empty() && text.ends_with('/')) {
            directoryWanted = true;
        }
        push(text);
        return true;
    }

    /// A magic link to an open file, as for RESOLVE_NO_MAGICLINKS. Other links in /proc have relative
    /// targets.
    static bool isMagic(int link, std::string_view target) {
        struct statfs filesystem {};
        return (target.front() == '/' || target.find(':') != std::string_view::npos) &&
               ::fstatfs(link, &filesystem) == 0 && filesystem.f_type == PROC_SUPER_MAGIC;
    }

    UniqueFd create(const std::string& component) {
        const bool isFile = remaining.empty() && kind == EntryKind::file && !directoryWanted;
        const int made =
            isFile ? makeFile(component) : ::mkdirat(here(), component.c_str(), creation->directoryMode);
        if (made != 0 && errno != EEXIST) {
            return UniqueFd();
        }
        UniqueFd fd(::openat(here(), component.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        const bool changeOwner =
            creation->owner != static_cast<uid_t>(-1) || creation->group != static_cast<gid_t>(-1);
        // An entry created by somebody else meanwhile (EEXIST) keeps its owner.
        if (fd && made == 0 && changeOwner &&
            ::fchownat(fd.get(), "", creation->owner, creation->group, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) !=
                0) {
            return UniqueFd();
        }
        return fd;
    }

    int makeFile(const std::string& name) const {
        const UniqueFd file(::openat(
            here(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, creation->fileMode));
        return file ? 0 : -1;
    }

    int root;
    LastLink lastLink;
    const Creation* creation;
    EntryKind kind;
    std::deque<std::string> remaining;
    std::vector<UniqueFd> stack;
    int linksFollowed = 0;
    bool directoryWanted = false;
};

bool openat2IsMissing(int error) {
    return error == ENOSYS || error == EPERM;  // filters of container managers return EPERM for unknown calls
}

}  // namespace

UniqueFd tryOpenInRoot(int root, std::string_view path, LastLink lastLink) {
    if (path.find('\0') != std::string_view::npos) {
        errno = EINVAL;
        return UniqueFd();
    }
    // Both implementations treat the empty path as the root.
    UniqueFd fd = callOpenat2(root, path.empty() ? "/" : std::string(path), lastLink);
    if (!fd && openat2IsMissing(errno)) {
        fd = Walk(root, path, lastLink, nullptr, EntryKind::directory).run();
    }
    return fd;
}

UniqueFd openInRoot(int root, std::string_view path, LastLink lastLink) {
    UniqueFd fd = tryOpenInRoot(root, path, lastLink);
    if (!fd) {
        throwErrno(cat("Failed to open ", printable(path), " in the root filesystem"));
    }
    return fd;
}

UniqueFd createInRoot(int root, std::string_view path, EntryKind kind, const Creation& creation) {
    errno = ENOENT;
    UniqueFd fd = creation.permit ? UniqueFd() : tryOpenInRoot(root, path);
    if (!fd && errno == ENOENT) {
        fd = Walk(root, path, LastLink::follow, &creation, kind).run();
    }
    if (!fd) {
        throwErrno(cat("Failed to create ", printable(path), " in the root filesystem"));
    }
    struct stat status {};
    checkErrno(::fstat(fd.get(), &status), cat("Failed to inspect ", printable(path)));
    if (S_ISDIR(status.st_mode) != (kind == EntryKind::directory)) {
        throw Error::fromErrno(cat("Failed to use ", printable(path), " in the root filesystem"),
                               kind == EntryKind::directory ? ENOTDIR : EISDIR);
    }
    return fd;
}

bool isPlainPath(std::string_view path) {
    const auto components = split(path, '/');
    return path.starts_with('/') && path.find_first_not_of('/') != std::string::npos &&
           std::none_of(components.begin(), components.end(),
                        [](const auto& part) { return part == "." || part == ".."; }) &&
           std::none_of(path.begin(), path.end(),
                        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

std::string descriptorPath(int fd) {
    return cat("/proc/self/fd/", fd);
}

bool isSameOrBelow(std::string_view path, std::string_view directory) {
    if (directory == "/") {
        return true;
    }
    return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

std::string pathOfDescriptor(int fd) {
    std::array<char, PATH_MAX> path{};
    const auto length = checkErrno(::readlink(descriptorPath(fd).c_str(), path.data(), path.size()),
                                   "Failed to read /proc/self/fd");
    return {path.data(), static_cast<std::size_t>(length)};
}

}  // namespace sarus
