#include "image/build/unpacker.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/build/image_builder.hpp"
#include "squashfs/reader/reader.hpp"
#include "squashfs/superblock.hpp"

namespace sarus::image::build {

namespace {

constexpr std::size_t mostWaiting = 4096;
constexpr const char* spaceHint = "free some space (or ask for a larger quota) and repeat the command";

[[noreturn]] void fail(std::string_view doing, const std::string& name) {
    const int errnum = errno;
    const bool space = errnum == ENOSPC || errnum == EDQUOT;
    throw Error::fromErrno(cat("Failed to ", doing, " '", printable(name), "' while unpacking an image"),
                           errnum, space ? spaceHint : "");
}

struct timespec modificationTime(const sqfs_inode_generic_t& inode) {
    return {static_cast<time_t>(inode.base.mod_time), 0};
}

/// Sets user.* attributes. Ignores filesystems that do not support them.
void setXattrs(int fd, const squashfs::XattrSet& xattrs, const std::string& name) {
    for (const auto& [key, value] : xattrs) {
        if (key.starts_with("user.") && ::fsetxattr(fd, key.c_str(), value.data(), value.size(), 0) != 0 &&
            errno != ENOTSUP && errno != EPERM) {
            fail("set an extended attribute of", name);
        }
    }
}

/// Writes regular files in several threads.
class FileWriters {
public:
    struct Job {
        std::string path;  ///< relative to the root, through directories that were created before
        squashfs::OwnInode inode;
        squashfs::XattrSet xattrs;
    };

    FileWriters(squashfs::Reader& source, int rootDirectory) : reader(source), root(rootDirectory) {
        try {
            for (unsigned int i = 0; i < availableCpus(); ++i) {
                threads.emplace_back([this] { work(); });
            }
        } catch (...) {
            stopAll();
            throw;
        }
    }
    FileWriters(const FileWriters&) = delete;
    FileWriters& operator=(const FileWriters&) = delete;
    ~FileWriters() { stopAll(); }

    void add(Job job) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return jobs.size() < mostWaiting || failure; });
        throwFailure();
        jobs.push_back(std::move(job));
        changed.notify_all();
    }

    void finish() {
        {
            const std::lock_guard lock(mutex);
            ended = true;
            changed.notify_all();
        }
        for (auto& thread : threads) {
            thread.join();
        }
        threads.clear();
        throwFailure();
    }

private:
    void throwFailure() {
        if (failure) {
            std::rethrow_exception(failure);
        }
    }

    void stopAll() noexcept {
        {
            const std::lock_guard lock(mutex);
            ended = true;
            jobs.clear();
            changed.notify_all();
        }
        for (auto& thread : threads) {
            thread.join();
        }
    }

    void work() {
        try {
            squashfs::ContentReader content(reader);
            while (true) {
                std::unique_lock lock(mutex);
                changed.wait(lock, [this] { return !jobs.empty() || ended || failure; });
                if (jobs.empty() || failure) {
                    return;
                }
                const Job job = std::move(jobs.front());
                jobs.pop_front();
                changed.notify_all();
                lock.unlock();
                write(job, content);
            }
        } catch (...) {
            const std::lock_guard lock(mutex);
            failure = std::current_exception();
            changed.notify_all();
        }
    }

    void write(const Job& job, squashfs::ContentReader& content) {
        const UniqueFd file(
            ::openat(root, job.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!file) {
            fail("create", job.path);
        }
        content.read(*job.inode, [&](std::uint64_t offset, std::span<const char> bytes) {
            while (!bytes.empty()) {
                const auto count =
                    ::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
                if (count < 0 && errno != EINTR) {
                    fail("write", job.path);
                }
                const auto written = static_cast<std::size_t>(std::max<ssize_t>(count, 0));
                bytes = bytes.subspan(written);
                offset += written;
            }
        });
        sqfs_u64 size = 0;
        reader.file().check(sqfs_inode_get_file_size(job.inode.get(), &size), "Failed to read");
        const auto mtime = modificationTime(*job.inode);
        const struct timespec times[] = {mtime, mtime};
        setXattrs(file.get(), job.xattrs, job.path);
        if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0 ||
            ::fchmod(file.get(), (job.inode->base.mode & 01777U) | 0400U) != 0 ||
            ::futimens(file.get(), times) != 0) {
            fail("complete", job.path);
        }
    }

    squashfs::Reader& reader;
    int root;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Job> jobs;
    bool ended = false;
    std::exception_ptr failure;
    std::vector<std::thread> threads;
};

/// Walks the image's tree and creates everything except the contents of files.
class Unpacker {
public:
    Unpacker(squashfs::Reader& source, int rootDirectory)
        : reader(source), root(rootDirectory), writers(source, rootDirectory) {}

    void run() {
        enterDirectory("", reader.root());
        while (!waiting.empty()) {
            const Directory directory = std::move(waiting.back());
            waiting.pop_back();
            for (auto& entry : reader.list(*directory.inode)) {
                const std::string path =
                    directory.path.empty() ? entry.name : cat(directory.path, '/', entry.name);
                unpackEntry(path, std::move(entry.inode));
            }
        }
        writers.finish();
        makeHardLinks();
        completeDirectories();
    }

private:
    struct Directory {
        std::string path;
        squashfs::OwnInode inode;
    };
    struct Completion {
        std::string path;
        mode_t mode;
        struct timespec mtime;
    };

    void enterDirectory(const std::string& path, squashfs::OwnInode inode) {
        // A directory has one parent; a second path to it would be a loop or a bomb.
        if (inode->base.type != SQFS_INODE_DIR && inode->base.type != SQFS_INODE_EXT_DIR) {
            throw Error("The root of the image is not a directory");
        }
        if (!seenDirectories.insert(inode->base.inode_number).second) {
            throw Error(cat("The image is damaged: the directory '", printable(path), "' appears twice"));
        }
        completions.push_back({path, (inode->base.mode & 01777U) | 0500U, modificationTime(*inode)});
        waiting.push_back({path, std::move(inode)});
    }

    void unpackEntry(const std::string& path, squashfs::OwnInode inode) {
        switch (inode->base.type) {
            case SQFS_INODE_DIR:
            case SQFS_INODE_EXT_DIR:
                if (::mkdirat(root, path.c_str(), 0700) != 0) {
                    fail("create", path);
                }
                setDirectoryXattrs(path, *inode);
                enterDirectory(path, std::move(inode));
                break;
            case SQFS_INODE_FILE:
            case SQFS_INODE_EXT_FILE:
                unpackFile(path, std::move(inode));
                break;
            case SQFS_INODE_SLINK:
            case SQFS_INODE_EXT_SLINK:
                makeSymlink(path, *inode);
                break;
            case SQFS_INODE_FIFO:
            case SQFS_INODE_EXT_FIFO:
                if (::mkfifoat(root, path.c_str(), 0600) != 0 ||
                    ::fchmodat(root, path.c_str(), (inode->base.mode & 0777U) | 0400U, 0) != 0) {
                    fail("create", path);
                }
                setTime(path, *inode);
                break;
            default:
                break;  // devices need privileges, sockets are meaningless without their process
        }
    }

    void unpackFile(const std::string& path, squashfs::OwnInode inode) {
        const bool linked = inode->base.type == SQFS_INODE_EXT_FILE && inode->data.file_ext.nlink > 1;
        if (linked) {
            const auto [first, isNew] = firstNames.try_emplace(inode->base.inode_number, path);
            if (!isNew) {
                hardLinks.emplace_back(first->second, path);
                return;
            }
        }
        squashfs::XattrSet xattrs = reader.xattrs(*inode);
        writers.add({path, std::move(inode), std::move(xattrs)});
    }

    void makeSymlink(const std::string& path, const sqfs_inode_generic_t& inode) {
        const auto size = inode.base.type == SQFS_INODE_SLINK ? inode.data.slink.target_size
                                                              : inode.data.slink_ext.target_size;
        const std::string target(reinterpret_cast<const char*>(inode.extra), size);
        if (::symlinkat(target.c_str(), root, path.c_str()) != 0) {
            fail("create", path);
        }
        setTime(path, inode);
    }

    void setTime(const std::string& path, const sqfs_inode_generic_t& inode) {
        const auto mtime = modificationTime(inode);
        const struct timespec times[] = {mtime, mtime};
        // Cosmetic; not supported by every filesystem.
        ::utimensat(root, path.c_str(), times, AT_SYMLINK_NOFOLLOW);
    }

    void setDirectoryXattrs(const std::string& path, const sqfs_inode_generic_t& inode) {
        const auto xattrs = reader.xattrs(inode);
        if (xattrs.empty()) {
            return;
        }
        const UniqueFd directory(
            ::openat(root, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!directory) {
            fail("open", path);
        }
        setXattrs(directory.get(), xattrs, path);
    }

    void makeHardLinks() {
        for (const auto& [first, second] : hardLinks) {
            if (::linkat(root, first.c_str(), root, second.c_str(), 0) != 0) {
                fail("link", second);
            }
        }
    }

    /// Sets modes and times last: creating entries requires write permission and changes the times.
    void completeDirectories() {
        for (auto next = completions.rbegin(); next != completions.rend(); ++next) {
            const UniqueFd directory(::openat(root, next->path.empty() ? "." : next->path.c_str(),
                                              O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
            const struct timespec times[] = {next->mtime, next->mtime};
            if (!directory || ::fchmod(directory.get(), next->mode) != 0 ||
                ::futimens(directory.get(), times) != 0) {
                fail("complete", next->path);
            }
        }
    }

    squashfs::Reader& reader;
    int root;
    std::vector<Directory> waiting;
    std::vector<Completion> completions;
    std::unordered_set<std::uint32_t> seenDirectories;
    std::unordered_map<std::uint32_t, std::string> firstNames;
    std::vector<std::pair<std::string, std::string>> hardLinks;
    FileWriters writers;
};

/// A private directory beside the final one; removed unless it was renamed to it.
class Workplace {
public:
    explicit Workplace(const std::string& finalPath) : target(finalPath) {
        while (target.size() > 1 && target.back() == '/') {
            target.pop_back();
        }
        const auto slash = target.rfind('/');
        const auto prefix = slash == std::string::npos ? std::string() : target.substr(0, slash + 1);
        path = cat(prefix, '.', target.substr(slash == std::string::npos ? 0 : slash + 1), ".unpack-",
                   randomLetters());
        checkErrno(::mkdir(path.c_str(), 0700), cat("Failed to create the directory ", path));
        directory = openFile(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    }
    Workplace(const Workplace&) = delete;
    Workplace& operator=(const Workplace&) = delete;
    ~Workplace() {
        try {
            removeTree(path);
        } catch (const Error&) {
            // A later clean-up recognises the leftovers by name; report the first error.
        }
    }

    int fd() const noexcept { return directory.get(); }

    void publish() {
        if (::rename(path.c_str(), target.c_str()) == 0) {
            return;
        }
        const int errnum = errno;
        if ((errnum == ENOTEMPTY || errnum == EEXIST) && isDirectory(target)) {
            return;  // another process was faster
        }
        throw Error::fromErrno(cat("Failed to rename the unpacked image to ", target), errnum);
    }

private:
    std::string target;
    std::string path;
    UniqueFd directory;
};

}  // namespace

void unpackSquashfs(const std::string& imagePath, const std::string& directory) {
    const auto file = openFile(imagePath, O_RDONLY | O_NONBLOCK);
    squashfs::Reader reader(imagePath, squashfs::readSquashfsSuperblock(file.get(), imagePath).offset);
    Workplace workplace(directory);
    Unpacker(reader, workplace.fd()).run();
    workplace.publish();
}

}  // namespace sarus::image::build
