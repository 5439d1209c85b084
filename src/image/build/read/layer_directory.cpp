#include "image/build/read/layer_directory.hpp"

#include <fcntl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

constexpr std::size_t chunkSize = 1U << 20U;
constexpr std::size_t largestAttribute = 64U << 10U;
constexpr std::size_t mostOpen = 64;  ///< directories
constexpr std::string_view whiteoutPrefix = ".wh.";
constexpr std::string_view opaqueMark = ".wh..wh..opq";

/// Prefixes of what an overlay notes about its own files.
constexpr std::array<std::string_view, 3> overlayPrefixes{"trusted.overlay.", "user.overlay.",
                                                          "user.fuseoverlayfs."};
constexpr std::array<std::string_view, 3> overrideNames{"user.containers.override_stat",
                                                        "user.fuseoverlayfs.override_stat",
                                                        "security.fuseoverlayfs.override_stat"};

bool lacksAttributes(int errnum) {
    return errnum == EOPNOTSUPP || errnum == ENODATA || errnum == EPERM || errnum == EACCES;
}

std::string readAttribute(const std::string& path, const std::string& name) {
    std::string value(largestAttribute, '\0');
    const auto size = ::lgetxattr(path.c_str(), name.c_str(), value.data(), value.size());
    if (size < 0 && !lacksAttributes(errno)) {
        throwErrno(cat("Failed to read the attribute ", printable(name), " of ", printable(path)));
    }
    value.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return value;
}

std::map<std::string, std::string, std::less<>> readAttributes(const std::string& path) {
    std::array<char, largestAttribute> buffer;
    const auto size = ::llistxattr(path.c_str(), buffer.data(), buffer.size());
    if (size < 0 && !lacksAttributes(errno)) {
        throwErrno(cat("Failed to list the attributes of ", printable(path)));
    }
    std::map<std::string, std::string, std::less<>> attributes;
    for (ssize_t begin = 0; begin < size;) {
        const std::string name(buffer.data() + begin);
        begin += static_cast<ssize_t>(name.size()) + 1;
        if (name.starts_with("user.") || name.starts_with("trusted.overlay.") ||
            name.starts_with("security.")) {
            attributes.emplace(name, readAttribute(path, name));
        }
    }
    return attributes;
}

/// The value of an overlay's own attribute, whichever overlay wrote it.
template <typename Attributes>
const std::string* overlayAttribute(const Attributes& attributes, std::string_view name) {
    for (const auto prefix : overlayPrefixes) {
        if (const auto found = attributes.find(cat(prefix, name)); found != attributes.end()) {
            return &found->second;
        }
    }
    return nullptr;
}

std::uint32_t octal(std::string_view text) {
    std::uint32_t value = 0;
    for (const char digit : text) {
        value = value << 3U | (static_cast<std::uint32_t>(digit - '0') & 7U);
    }
    return value;
}

/// "UID:GID:MODE", and perhaps ":TYPE", which may be "char-MAJOR-MINOR".
void overrideStat(const std::string& text, TarEntry& entry) {
    const auto parts = split(text, ':');
    const auto uid = parseNumber(parts[0]);
    const auto gid = parts.size() > 2 ? parseNumber(parts[1]) : std::nullopt;
    if (!uid || !gid) {
        throw Error(cat("The attribute override_stat of ", printable(entry.path), " is malformed: '",
                        printable(text), '\''));
    }
    entry.uid = static_cast<std::uint32_t>(*uid);
    entry.gid = static_cast<std::uint32_t>(*gid);
    entry.mode = static_cast<std::uint16_t>(octal(parts[2]) & 07777U);
    const auto type = split(parts.size() > 3 ? parts[3] : std::string(), '-');
    if (type[0] == "pipe") {
        entry.type = TarEntry::Type::fifo;
    } else if ((type[0] == "char" || type[0] == "block") && type.size() == 3) {
        entry.type = type[0] == "char" ? TarEntry::Type::charDevice : TarEntry::Type::blockDevice;
        entry.deviceMajor = static_cast<std::uint32_t>(parseNumber(type[1]).value_or(0));
        entry.deviceMinor = static_cast<std::uint32_t>(parseNumber(type[2]).value_or(0));
    }
    if (entry.type != TarEntry::Type::regular) {
        entry.size = 0;
    }
}

std::pair<dev_t, ino_t> identityOf(int fd, std::string_view doing) {
    struct stat status {};
    checkErrno(::fstat(fd, &status), doing);
    return {status.st_dev, status.st_ino};
}

std::string readLink(int directory, const std::string& name) {
    std::string target(4096, '\0');
    const auto length = ::readlinkat(directory, name.c_str(), target.data(), target.size());
    checkErrno(static_cast<int>(length), cat("Failed to read the symbolic link ", printable(name)));
    target.resize(static_cast<std::size_t>(length));
    return target;
}

}  // namespace

LayerDirectory::LayerDirectory(const std::string& path, std::atomic<std::uint64_t>& bytesRead)
    : counter(bytesRead), layer(path) {
    levels.push_back({openFile(path, O_RDONLY | O_DIRECTORY), {}, "", {"."}});
}

LayerDirectory::LayerDirectory(const std::string& path, const ContainerLayer& layerOfContainer,
                               std::atomic<std::uint64_t>& bytesRead)
    : counter(bytesRead), layer("of the container"), container(&layerOfContainer) {
    struct stat status {};
    checkErrno(::stat(path.c_str(), &status), "Failed to examine what the container has written");
    mayRead(AT_FDCWD, path, status, "");
    levels.push_back({openFile(path, O_RDONLY | O_DIRECTORY), {}, "", {"."}});
}

std::string LayerDirectory::shown(const std::string& path) const {
    return container != nullptr ? cat('/', printable(path), " in the container")
                                : printable(cat(layer, '/', path));
}

/// Of a container's layer: whether this user may read the file or directory.
bool LayerDirectory::mayRead(int directory, const std::string& name, const struct stat& status,
                             const std::string& path) const {
    const bool isDirectory = S_ISDIR(status.st_mode);
    if (container == nullptr || !(isDirectory || S_ISREG(status.st_mode)) ||
        ::faccessat(directory, name.c_str(), isDirectory ? R_OK | X_OK : R_OK, 0) == 0) {
        return true;
    }
    checkErrno(errno == EACCES ? 0 : -1, cat("Failed to examine ", shown(path)));
    if (status.st_uid == ::geteuid()) {
        throw Error(cat("Failed to read ", shown(path), ": its owner may not"),
                    cat("Allow it in the container: chmod ", isDirectory ? "u+rx" : "u+r", " '/",
                        printable(path), '\''));
    }
    logWarn("Builder", cat("You may not read ", shown(path),
                           ": it is left out, and stays as in the image if that has it"));
    return false;
}

void LayerDirectory::enter(const std::string& name, std::string path) {
    constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    const auto opening = cat("Failed to open ", shown(path));
    const int parent = levels.back().directory.get();
    Level level{
        UniqueFd(checkErrno(::openat(parent, name.c_str(), flags), opening)), {}, std::move(path), {}};
    level.identity = identityOf(level.directory.get(), opening);
    // The same open directory: to open "." would need one permission more.
    UniqueFd listed(checkErrno(::fcntl(level.directory.get(), F_DUPFD_CLOEXEC, 3), opening));
    Directory listing(std::move(listed), cat(layer, '/', level.path));
    while (const char* entry = listing.next()) {
        level.names.emplace_back(entry);
    }
    std::sort(level.names.begin(), level.names.end(), std::greater<>());
    if (levels.size() > mostOpen) {
        levels[levels.size() - mostOpen].directory.reset();
    }
    levels.push_back(std::move(level));
}

/// Returns to the directory above. One that was closed meanwhile is where ".." leads.
void LayerDirectory::leave() {
    const auto left = std::move(levels.back());
    levels.pop_back();
    if (levels.empty() || levels.back().directory) {
        return;
    }
    auto& level = levels.back();
    const auto opening = cat("Failed to open ", shown(level.path));
    level.directory.reset(
        checkErrno(::openat(left.directory.get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC), opening));
    if (identityOf(level.directory.get(), opening) != level.identity) {
        throw Error(cat("The directory ", shown(level.path), " was moved while it was read"));
    }
}

bool LayerDirectory::next(TarEntry& entry) {
    for (;;) {
        entry = TarEntry();
        if (!marks.empty()) {
            entry.path = std::move(marks.back());
            marks.pop_back();
            return true;
        }
        while (!levels.empty() && levels.back().names.empty()) {
            leave();
        }
        if (levels.empty()) {
            return false;
        }
        const auto name = std::move(levels.back().names.back());
        levels.back().names.pop_back();
        if (describe(name, entry)) {
            return true;
        }
    }
}

void LayerDirectory::markOpaque(const std::string& path) {
    marks.push_back(cat(path, opaqueMark));
}

/// Fills in type and owner, as the filesystem shows them.
void LayerDirectory::examine(const struct stat& status, TarEntry& entry) const {
    entry.mode = static_cast<std::uint16_t>(status.st_mode & 07777U);
    entry.uid = status.st_uid;
    entry.gid = status.st_gid;
    entry.mtime = status.st_mtim.tv_sec;
    switch (status.st_mode & S_IFMT) {
        case S_IFDIR:
            entry.type = TarEntry::Type::directory;
            break;
        case S_IFLNK:
            entry.type = TarEntry::Type::symlink;
            break;
        case S_IFCHR:
        case S_IFBLK:
            entry.type = S_ISCHR(status.st_mode) ? TarEntry::Type::charDevice : TarEntry::Type::blockDevice;
            entry.deviceMajor = major(status.st_rdev);
            entry.deviceMinor = minor(status.st_rdev);
            break;
        case S_IFIFO:
            entry.type = TarEntry::Type::fifo;
            break;
        default:
            entry.size = static_cast<std::uint64_t>(status.st_size);
    }
}

/// False if the name stands for nothing, or for a mark that comes next.
bool LayerDirectory::describe(const std::string& name, TarEntry& entry) {
    const int directory = levels.back().directory.get();
    const bool isRoot = name == ".";
    entry.path = isRoot ? "." : levels.back().path + name;
    if (container != nullptr && container->leftOut.contains(entry.path)) {
        return false;
    }
    struct stat status {};
    checkErrno(::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW),
               cat("Failed to examine ", shown(entry.path)));
    if (S_ISSOCK(status.st_mode)) {
        return false;
    }
    const auto attributes = readAttributes(cat("/proc/self/fd/", directory, '/', name));
    const bool isDevice = S_ISCHR(status.st_mode) && status.st_rdev == 0;
    const bool isEmptyFile = S_ISREG(status.st_mode) && status.st_size == 0;
    if (isDevice || (isEmptyFile && overlayAttribute(attributes, "whiteout") != nullptr)) {
        marks.push_back(cat(levels.back().path, whiteoutPrefix, name));
        return false;
    }
    for (const auto* elsewhere : {"redirect", "metacopy"}) {
        if (overlayAttribute(attributes, elsewhere) != nullptr) {
            throw Error(cat("The layer ", layer, " refers to another one at '", printable(entry.path), '\''))
                .setExitStatus(unreadableLayerStatus);
        }
    }
    if (!isRoot && !mayRead(directory, name, status, entry.path)) {
        return false;
    }
    examine(status, entry);
    for (const auto overriding : overrideNames) {
        if (const auto found = attributes.find(overriding); found != attributes.end()) {
            overrideStat(found->second, entry);
        }
    }
    for (const auto& [key, value] : attributes) {
        const bool own =
            std::any_of(overlayPrefixes.begin(), overlayPrefixes.end(),
                        [&attribute = key](auto prefix) { return attribute.starts_with(prefix); }) ||
            std::find(overrideNames.begin(), overrideNames.end(), key) != overrideNames.end();
        if (!own) {
            entry.xattrs.emplace_back(key, value);
        }
    }
    if (entry.type == TarEntry::Type::symlink) {
        entry.linkTarget = readLink(directory, name);
    }
    if (entry.type == TarEntry::Type::directory) {
        const auto path = isRoot ? std::string() : cat(entry.path, '/');
        const auto* opaque = overlayAttribute(attributes, "opaque");
        if ((opaque != nullptr && *opaque == "y") ||
            (container != nullptr && container->opaque.contains(status.st_ino))) {
            markOpaque(path);
        }
        enter(name, path);
        return true;
    }
    if (status.st_nlink > 1) {
        const auto [first, isNew] = linked.try_emplace({status.st_dev, status.st_ino}, entry.path);
        if (!isNew) {
            entry.type = TarEntry::Type::hardLink;
            entry.linkTarget = first->second;
            return true;
        }
    }
    if (entry.type == TarEntry::Type::regular) {
        size = entry.size;
        fileName = name;
    }
    return true;
}

void LayerDirectory::readContent(const std::function<void(std::span<const unsigned char>)>& sink) {
    const auto file = openFileAt(levels.back().directory.get(), fileName, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    for (std::uint64_t done = 0; done < size;) {
        auto chunk = std::make_shared<Chunk>(std::min<std::uint64_t>(chunkSize, size - done));
        std::size_t filled = 0;
        while (filled < chunk->capacity()) {
            const auto count = ::read(file.get(), chunk->data() + filled, chunk->capacity() - filled);
            if (count == 0) {
                throw Error(cat("A file of the layer ", layer, " changed while it was read"));
            }
            if (count < 0 && errno != EINTR) {
                throwErrno(cat("Failed to read a file of the layer ", layer));
            }
            filled += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
        }
        chunk->setSize(filled);
        current = chunk;
        sink(chunk->bytes());
        done += filled;
        counter += filled;
    }
}

}  // namespace sarus::image::build
