#include "base/path_checker.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus {

namespace {

constexpr int maximumLinks = 40;
constexpr int maximumDepth = 128;

enum class Position { last, parent };

void checkOwner(const struct stat& status, const std::string& shown, const TrustedOwners& owners) {
    const auto& also = owners.alsoTrusted;
    if (status.st_uid != 0 && std::find(also.begin(), also.end(), status.st_uid) == also.end()) {
        throw Error(cat("Path \"", printable(shown), "\" must be owned by root (found uid ", status.st_uid,
                        ", gid ", status.st_gid, "), so that nobody else can change it"))
            .setId("path-not-secure");
    }
}

void checkAs(Position position, const struct stat& status, const std::string& shown,
             const TrustedOwners& owners) {
    checkOwner(status, shown, owners);
    if (S_ISLNK(status.st_mode)) {
        return;  // the mode of a link has no meaning
    }
    const bool acceptedParent = position == Position::parent && owners.stickyParents &&
                                S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !acceptedParent) {
        throw Error(cat("Path \"", printable(shown),
                        "\" cannot be group- or world-writable, so that no other user can change it"))
            .setId("path-not-secure");
    }
}

std::string readLink(int fd, const std::string& shown) {
    std::string target(PATH_MAX, '\0');
    const auto size = checkErrno(::readlinkat(fd, "", target.data(), target.size()),
                                 cat("Failed to read ", printable(shown)));
    target.resize(static_cast<std::size_t>(size));
    return target;
}

void pushComponents(std::deque<std::string>& pending, const std::string& path) {
    auto components = split(path, '/');
    pending.insert(pending.begin(), components.begin(), components.end());
}

}  // namespace

/// A name that was looked up, with the directory that contains it.
struct PathChecker::Entry {
    std::string name;
    Entry* parent = nullptr;  ///< nullptr for "/"
    UniqueFd fd{};            ///< O_PATH; only for directories
    struct stat status {};
    std::string target{};  ///< of a link
    std::map<std::string, std::unique_ptr<Entry>, std::less<>> children{};

    std::string path() const { return parent == nullptr ? "/" : below(*parent, name); }

    static std::string below(const Entry& directory, const std::string& name) {
        return cat(directory.parent == nullptr ? "" : directory.path(), '/', name);
    }

    Entry& add(std::string newName) {
        auto entry = std::make_unique<Entry>();
        entry->name = newName;
        entry->parent = this;
        return *(children[std::move(newName)] = std::move(entry));
    }
};

/// One look-up, component by component. ".." returns to what was already checked.
class PathChecker::Walk {
public:
    Walk(const TrustedOwners& trusted, Entry& root) : owners(trusted), top(root), here(&root) {}

    /// nullptr if nothing exists there.
    Entry* run(const std::string& path) {
        pushComponents(pending, path);
        while (!pending.empty()) {
            const std::string name = pending.front();
            pending.pop_front();
            if (name.empty() || name == ".") {
                continue;
            }
            if (name == "..") {
                here = here->parent != nullptr ? here->parent : here;
            } else if (!enter(name)) {
                return nullptr;
            }
        }
        return here;
    }

private:
    bool isLast() const {
        return std::all_of(pending.begin(), pending.end(),
                           [](const auto& rest) { return rest.empty() || rest == "."; });
    }

    bool enter(const std::string& name) {
        Entry* entry = find(name);
        if (entry == nullptr) {
            return false;
        }
        checkAs(isLast() ? Position::last : Position::parent, entry->status, Entry::below(*here, name),
                owners);
        if (!S_ISLNK(entry->status.st_mode)) {
            here = entry;
            return true;
        }
        if (++links > maximumLinks) {
            throw Error::fromErrno(cat("Failed to examine ", printable(entry->path())), ELOOP);
        }
        if (entry->target.starts_with('/')) {
            here = &top;
        }
        pushComponents(pending, entry->target);
        return true;
    }

    /// From memory, or from the filesystem.
    Entry* find(const std::string& name) {
        const auto known = here->children.find(name);
        if (known != here->children.end() && (known->second->fd || !S_ISDIR(known->second->status.st_mode))) {
            return known->second.get();
        }
        if (!here->fd) {
            return nullptr;  // below something that is not a directory
        }
        UniqueFd fd(::openat(here->fd.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        const std::string path = Entry::below(*here, name);
        if (!fd) {
            if (errno == ENOENT || errno == ENOTDIR) {
                return nullptr;
            }
            throwErrno(cat("Failed to examine ", printable(path)));
        }
        Entry& entry = known != here->children.end() ? *known->second : here->add(name);
        checkErrno(::fstat(fd.get(), &entry.status), cat("Failed to examine ", printable(path)));
        if (S_ISLNK(entry.status.st_mode)) {
            entry.target = readLink(fd.get(), path);
        } else if (S_ISDIR(entry.status.st_mode)) {
            entry.fd = std::move(fd);
        }
        return &entry;
    }

    const TrustedOwners& owners;
    Entry& top;
    Entry* here;
    std::deque<std::string> pending;
    int links = 0;
};

PathChecker::PathChecker(TrustedOwners owners) : trusted(std::move(owners)), root(std::make_unique<Entry>()) {
    root->fd = openFile("/", O_PATH | O_DIRECTORY);
    root->status.st_mode = S_IFDIR | 0755;  // "/" itself is not checked
}

PathChecker::~PathChecker() = default;

std::optional<CheckedPath> PathChecker::check(const std::string& path) {
    const auto* entry = Walk(trusted, *root).run(path);
    if (entry == nullptr) {
        return std::nullopt;
    }
    return CheckedPath{.directory = entry->fd.get(), .status = entry->status, .realPath = entry->path()};
}

void PathChecker::checkTree(const std::string& path) {
    auto* entry = Walk(trusted, *root).run(path);
    if (entry != nullptr && entry->fd) {
        checkBelow(*entry, 0);
    }
}

void PathChecker::checkBelow(Entry& directory, int depth) {
    const std::string shown = directory.path();
    if (depth > maximumDepth) {
        throw Error(
            cat("The directories below \"", printable(shown), "\" are nested too deeply to be checked"));
    }
    auto entries = Directory::of(directory.fd.get(), shown);
    while (const char* name = entries.next()) {
        checkChild(directory, name, depth);
    }
}

void PathChecker::checkChild(Entry& directory, const std::string& name, int depth) {
    const std::string path = Entry::below(directory, name);
    struct stat status {};
    if (const auto known = directory.children.find(name); known != directory.children.end()) {
        status = known->second->status;
    } else if (::fstatat(directory.fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) {
            return;  // it vanished meanwhile
        }
        throwErrno(cat("Failed to examine ", printable(path)));
    }
    if (!S_ISDIR(status.st_mode) && !S_ISLNK(status.st_mode)) {
        checkStatus(status, path, trusted);
        directory.add(name).status = status;
        return;
    }
    const auto before = directory.children.find(name);
    const bool wasOpen = before != directory.children.end() && before->second->fd;
    const auto* reached = Walk(trusted, *root).run(path);
    const auto child = directory.children.find(name);
    if (reached != nullptr && child != directory.children.end() && child->second.get() == reached &&
        reached->fd) {
        checkBelow(*child->second, depth + 1);
        if (!wasOpen) {
            child->second->fd
                .reset();  // a tree may have more directories than a process may have descriptors
        }
    }
}

void checkStatus(const struct stat& status, const std::string& shown, const TrustedOwners& owners) {
    checkAs(Position::last, status, shown, owners);
}

}  // namespace sarus
