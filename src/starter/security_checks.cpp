#include "starter/security_checks.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <deque>
#include <memory>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

constexpr int maximumLinks = 40;
constexpr int maximumDepth = 128;

enum class Position { last, parent };

void checkOwner(const struct stat& status, const std::string& shown, const TrustedOwners& owners) {
    const auto& also = owners.alsoTrusted;
    if (status.st_uid != 0 && std::find(also.begin(), also.end(), status.st_uid) == also.end()) {
        throw Error(cat("Path \"", printable(shown), "\" must be owned by root (found uid ", status.st_uid, ", gid ",
                        status.st_gid, "), so that nobody else can change it"));
    }
}

void checkStatus(const struct stat& status, const std::string& shown, const TrustedOwners& owners, Position position) {
    checkOwner(status, shown, owners);
    if (S_ISLNK(status.st_mode)) {
        return;  // the mode of a link means nothing
    }
    const bool acceptedParent =
        position == Position::parent && owners.stickyParents && S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !acceptedParent) {
        throw Error(
            cat("Path \"", printable(shown), "\" cannot be group- or world-writable, so that no other user can change it"));
    }
}

std::string readLink(int fd, const std::string& shown) {
    std::string target(PATH_MAX, '\0');
    const auto size = checkErrno(::readlinkat(fd, "", target.data(), target.size()), cat("Failed to read ", printable(shown)));
    target.resize(static_cast<std::size_t>(size));
    return target;
}

void pushComponents(std::deque<std::string>& pending, const std::string& path) {
    auto components = split(path, '/');
    pending.insert(pending.begin(), components.begin(), components.end());
}

/// One look-up, component by component. The stack of directories makes ".." return to what was checked already.
class Walk {
public:
    explicit Walk(const TrustedOwners& trusted) : owners(trusted) { stack.push_back(openFile("/", O_PATH | O_DIRECTORY)); }

    std::optional<CheckedPath> run(const std::string& path) {
        pushComponents(pending, path);
        while (!pending.empty()) {
            const std::string name = pending.front();
            pending.pop_front();
            if (name.empty() || name == ".") {
                continue;
            }
            if (name == "..") {
                leave();
            } else if (!enter(name)) {
                return std::nullopt;
            }
        }
        return CheckedPath{.fd = std::move(stack.back()), .realPath = shown()};
    }

private:
    bool isLast() const {
        return std::all_of(pending.begin(), pending.end(), [](const auto& rest) { return rest.empty() || rest == "."; });
    }

    bool enter(const std::string& name) {
        UniqueFd next(::openat(stack.back().get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        const std::string path = cat(shown() == "/" ? "" : shown(), '/', name);
        if (!next) {
            if (errno == ENOENT || errno == ENOTDIR) {
                return false;
            }
            throwErrno(cat("Failed to examine ", printable(path)));
        }
        struct stat status {};
        checkErrno(::fstat(next.get(), &status), cat("Failed to examine ", printable(path)));
        checkStatus(status, path, owners, isLast() ? Position::last : Position::parent);
        if (!S_ISLNK(status.st_mode)) {
            stack.push_back(std::move(next));
            names.push_back(name);
            return true;
        }
        if (++links > maximumLinks) {
            throw Error::fromErrno(cat("Failed to examine ", printable(path)), ELOOP);
        }
        const auto target = readLink(next.get(), path);
        if (target.starts_with('/')) {
            stack.resize(1);
            names.clear();
        }
        pushComponents(pending, target);
        return true;
    }

    void leave() {
        if (!names.empty()) {
            stack.pop_back();
            names.pop_back();
        }
    }

    std::string shown() const { return names.empty() ? "/" : cat('/', join(names, "/")); }

    const TrustedOwners& owners;
    std::vector<UniqueFd> stack;
    std::vector<std::string> names;
    std::deque<std::string> pending;
    int links = 0;
};

void checkBelow(int directory, const std::string& shown, const TrustedOwners& owners, int depth) {
    if (depth > maximumDepth) {
        throw Error(cat("The directories below \"", printable(shown), "\" are nested too deeply to be checked"));
    }
    UniqueFd fd(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    checkErrno(fd.get(), cat("Failed to list ", printable(shown)));
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(fd.get()), &::closedir);
    if (!entries) {
        throwErrno(cat("Failed to list ", printable(shown)));
    }
    const int list = fd.release();  // owned by the DIR now
    while (const dirent* entry = ::readdir(entries.get())) {
        const std::string name = static_cast<const char*>(entry->d_name);
        if (name == "." || name == "..") {
            continue;
        }
        const std::string path = cat(shown, '/', name);
        UniqueFd child(::openat(list, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        if (!child && errno == ENOENT) {
            continue;  // it vanished meanwhile
        }
        checkErrno(child.get(), cat("Failed to examine ", printable(path)));
        struct stat status {};
        checkErrno(::fstat(child.get(), &status), cat("Failed to examine ", printable(path)));
        checkStatus(status, path, owners, Position::last);
        if (S_ISDIR(status.st_mode)) {
            checkBelow(child.get(), path, owners, depth + 1);
        } else if (S_ISLNK(status.st_mode)) {
            checkPath(path, owners);
        }
    }
}

}  // namespace

void checkDescriptor(int fd, const std::string& shown, const TrustedOwners& owners) {
    struct stat status {};
    checkErrno(::fstat(fd, &status), cat("Failed to examine ", printable(shown)));
    checkStatus(status, shown, owners, Position::last);
}

std::optional<CheckedPath> checkPath(const std::string& path, const TrustedOwners& owners) {
    return Walk(owners).run(path);
}

void checkTree(const std::string& path, const TrustedOwners& owners) {
    const auto checked = checkPath(path, owners);
    struct stat status {};
    if (checked && ::fstat(checked->fd.get(), &status) == 0 && S_ISDIR(status.st_mode)) {
        checkBelow(checked->fd.get(), path, owners, 0);
    }
}

void checkInstallation(const engine::SiteConfig& config, const TrustedOwners& owners) {
    if (config.initPath) {
        checkPath(*config.initPath, owners);
    }
    checkPath(config.runcPath, owners);
    if (owners.alsoTrusted.empty()) {  // without privileges bundles are made elsewhere, and this may hold an outer container's
        checkTree(config.ociBundleDir, owners);
    }
    for (const auto* directory : {"/bin", "/libexec", "/dropbear"}) {
        checkTree(cat(config.prefixDir, directory), owners);
    }
}

}  // namespace sarus::starter
