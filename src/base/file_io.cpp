#include "base/file_io.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/directory.hpp"
#include "base/draft.hpp"
#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "base/text.hpp"

namespace sarus {

UniqueFd openFileAt(int directory, const std::string& name, int flags, mode_t mode) {
    while (true) {
        const int fd = ::openat(directory, name.c_str(), flags | O_CLOEXEC, mode);
        if (fd >= 0) {
            return UniqueFd(fd);
        }
        if (errno != EINTR) {
            throwErrno(cat("Failed to open ", printable(name)));
        }
        throwIfInterrupted();  // a file server that has just started may leave files closed for minutes
    }
}

UniqueFd openFile(const std::string& path, int flags, mode_t mode) {
    return openFileAt(AT_FDCWD, path, flags, mode);
}

std::string readAll(int fd, std::size_t limit, std::string_view nameForMessages) {
    std::string data;
    char buffer[65536];
    while (true) {
        const auto count = ::read(fd, buffer, sizeof buffer);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        checkErrno(count, cat("Failed to read ", nameForMessages));
        if (count == 0) {
            return data;
        }
        if (data.size() + static_cast<std::size_t>(count) > limit) {
            throw Error(cat(nameForMessages, " is larger than the limit of ", formatSize(limit)));
        }
        data.append(buffer, static_cast<std::size_t>(count));
    }
}

std::string readFile(const std::string& path, std::size_t limit) {
    return readAll(openFile(path, O_RDONLY).get(), limit, printable(path));
}

void writeAll(int fd, std::string_view data, std::string_view nameForMessages) {
    while (!data.empty()) {
        const auto written = ::write(fd, data.data(), data.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        checkErrno(written, cat("Failed to write ", nameForMessages));
        data.remove_prefix(static_cast<std::size_t>(written));
    }
}

void replaceFile(const std::string& path, std::string_view data, mode_t mode) {
    Draft draft(path, mode);
    writeAll(draft.fd(), data, printable(path));
    draft.replace();
}

void copyContent(int from, int to, std::string_view nameForMessages) {
    // Not by the kernel: sendfile(2) and copy_file_range(2) do not know every parallel file system.
    constexpr std::size_t atOnce = 1U << 20U;
    std::string buffer(atOnce, '\0');
    off_t done = 0;
    ssize_t count = 0;
    do {
        throwIfInterrupted();
        count = ::pread(from, buffer.data(), buffer.size(), done);
        if (count < 0 && errno != EINTR) {
            throwErrno(cat("Failed to read the content of ", nameForMessages));
        }
        if (count > 0) {
            writeAll(to, std::string_view(buffer).substr(0, static_cast<std::size_t>(count)),
                     nameForMessages);
            done += count;
        }
    } while (count != 0);
}

UniqueFd makeFifo(const std::string& path) {
    checkErrno(::mkfifo(path.c_str(), 0600), cat("Failed to create ", printable(path)));
    auto fifo = openFile(path, O_RDWR | O_NONBLOCK | O_NOFOLLOW);
    struct stat status {};
    checkErrno(::fstat(fifo.get(), &status), cat("Failed to examine ", printable(path)));
    if (!S_ISFIFO(status.st_mode)) {
        throw Error(cat(printable(path), " is not a FIFO"));
    }
    return fifo;
}

void createDirectories(const std::string& path, mode_t mode) {
    if (path.empty() || isDirectory(path)) {
        return;
    }
    const auto parent = directoryOf(path);
    constexpr int attempts = 100;  // others may remove the parent as long as it is empty
    for (int attempt = 1;; ++attempt) {
        if (parent != path) {
            createDirectories(parent, mode);
        }
        if (::mkdir(path.c_str(), mode) == 0 || (errno == EEXIST && isDirectory(path))) {
            return;
        }
        if (errno != ENOENT || attempt == attempts) {
            throwErrno(cat("Failed to create directory ", printable(path)));
        }
    }
}

std::string ownProgramPath() {
    std::string path(PATH_MAX, '\0');
    path.resize(static_cast<std::size_t>(
        checkErrno(::readlink("/proc/self/exe", path.data(), path.size()), "Failed to read /proc/self/exe")));
    return path;
}

std::string realPath(const std::string& path) {
    const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr), std::free);
    return resolved ? resolved.get() : std::string();
}

std::string findWorkingDirectory() {
    std::string path(PATH_MAX, '\0');
    if (::getcwd(path.data(), path.size()) == nullptr) {
        if (errno != ENOENT) {
            throwErrno("Failed to determine the working directory");
        }
        return {};
    }
    path.resize(path.find('\0'));
    return path;
}

std::string workingDirectory() {
    auto path = findWorkingDirectory();
    if (path.empty()) {
        throw Error("The working directory does not exist any more", "Change to another one");
    }
    return path;
}

UniqueFd makeMemoryFile(const char* name) {
    return UniqueFd(
        checkErrno(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), "Failed to create a memory file"));
}

UniqueFd makeMemoryFile(const char* name, std::string_view content) {
    auto file = makeMemoryFile(name);
    writeAll(file.get(), content, name);
    checkErrno(::lseek(file.get(), 0, SEEK_SET), "Failed to rewind a memory file");
    constexpr int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    checkErrno(::fcntl(file.get(), F_ADD_SEALS, seals), "Failed to seal a memory file");
    return file;
}

std::string fileVersion(const struct stat& file) {
    return cat(static_cast<std::uint64_t>(file.st_dev), '-', static_cast<std::uint64_t>(file.st_ino), '-',
               static_cast<std::int64_t>(file.st_size), '-', file.st_mtim.tv_sec, '.', file.st_mtim.tv_nsec,
               '-', file.st_ctim.tv_sec, '.', file.st_ctim.tv_nsec);
}

bool pathExists(const std::string& path) noexcept {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0;
}

bool isDirectory(const std::string& path) noexcept {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

namespace {

/// Opens `name` as a directory, giving its owner access first where it is missing.
UniqueFd openDirectoryToEmpty(int parent, const char* name) {
    constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    UniqueFd fd(::openat(parent, name, flags));
    struct stat status {};
    const bool accessible = fd && ::fstat(fd.get(), &status) == 0 && (status.st_mode & S_IRWXU) == S_IRWXU;
    if (accessible || (!fd && errno != EACCES)) {
        return fd;
    }
    // Only directories get here (O_DIRECTORY|O_NOFOLLOW gave EACCES or a descriptor), so fchmodat does not
    // follow a link.
    if (fd ? ::fchmod(fd.get(), S_IRWXU) != 0 : ::fchmodat(parent, name, S_IRWXU, 0) != 0) {
        return fd;
    }
    return fd ? std::move(fd) : UniqueFd(::openat(parent, name, flags));
}

/// False if it is a directory with entries.
bool removeUnlessFull(int parent, const char* name, const std::string& shown) {
    if (::unlinkat(parent, name, 0) == 0 || errno == ENOENT) {
        return true;
    }
    // Also detects a mount point (EBUSY), whose content belongs to somebody else.
    if ((errno == EISDIR || errno == EPERM) &&
        (::unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)) {
        return true;
    }
    if (errno != ENOTEMPTY && errno != EEXIST) {
        throwErrno(cat("Failed to remove ", printable(shown)));
    }
    return false;
}

void removeEmptied(int parent, const char* name, const std::string& shown) {
    if (::unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        throwErrno(cat("Failed to remove ", printable(shown)));
    }
}

/// Empties a directory with one descriptor, however deep it is: on the way up it opens "..", and requires the
/// directory that it came from.
class Emptying {
public:
    Emptying(int parent, const char* name, std::string path) : shown(std::move(path)) { enter(parent, name); }

    void run() {
        while (!levels.empty()) {
            auto& names = levels.back().names;
            if (names.empty()) {
                leave();
                continue;
            }
            const auto name = std::move(names.back());
            names.pop_back();
            shown += cat('/', name);
            if (removeUnlessFull(here.get(), name.c_str(), shown) || !enter(here.get(), name.c_str())) {
                shown.resize(shown.size() - name.size() - 1);
            }
        }
    }

private:
    struct Level {
        dev_t device;
        ino_t inode;
        std::vector<std::string> names;  ///< that were not looked at yet
    };

    /// False if it is gone.
    bool enter(int parent, const char* name) {
        auto directory = openDirectoryToEmpty(parent, name);
        if (!directory && errno == ENOENT) {
            return false;
        }
        struct stat status {};
        if (!directory || ::fstat(directory.get(), &status) != 0) {
            throwErrno(cat("Failed to remove ", printable(shown)));
        }
        here = std::move(directory);
        Level level{status.st_dev, status.st_ino, {}};
        auto entries = Directory::of(here.get(), shown);
        while (const char* entry = entries.next()) {
            level.names.emplace_back(entry);
        }
        levels.push_back(std::move(level));
        return true;
    }

    void leave() {
        levels.pop_back();
        if (levels.empty()) {
            return;
        }
        here.reset(::openat(here.get(), "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        struct stat status {};
        if (!here || ::fstat(here.get(), &status) != 0) {
            throwErrno(cat("Failed to remove ", printable(shown)));
        }
        if (status.st_dev != levels.back().device || status.st_ino != levels.back().inode) {
            throw Error(cat("Failed to remove ", printable(shown), ": it was moved meanwhile"));
        }
        const auto slash = shown.rfind('/');
        removeEmptied(here.get(), shown.c_str() + slash + 1, shown);
        shown.resize(slash);
    }

    std::string shown;
    UniqueFd here;
    std::vector<Level> levels;
};

}  // namespace

void removeTree(const std::string& path) {
    if (!removeUnlessFull(AT_FDCWD, path.c_str(), path)) {
        Emptying(AT_FDCWD, path.c_str(), path).run();
        removeEmptied(AT_FDCWD, path.c_str(), path);
    }
}

}  // namespace sarus
