#pragma once

#include <sqfs/io.h>
#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::squashfs {

/// A file descriptor as the libsquashfs file type. Remembers the errno of a failure, to tell "disk full" from
/// damage. /dev/null serves as a file that is written only to know its size. Not copyable; does not own the
/// descriptor.
class File {
public:
    /// Called before each write with its begin and end.
    using OnWrite = std::function<void(std::uint64_t begin, std::uint64_t end)>;

    /// `name`: for messages. `beforeWrite`: called for writes by libsquashfs.
    File(int descriptor, std::string name, OnWrite beforeWrite = {});
    /// For reading, from `offset` to the end of the file. Positions count from there.
    File(int descriptor, std::string name, std::uint64_t offset);
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    sqfs_file_t* get() noexcept { return &interface.file; }
    std::uint64_t size() const noexcept { return length; }
    /// Of position 0 in the descriptor's file.
    std::uint64_t offset() const noexcept { return begin; }
    /// The size of the file when it was largest.
    std::uint64_t peak() const noexcept { return largest; }

    /// Fills `buffer`. Throws Error, also if the file is too short.
    void read(std::uint64_t offset, std::span<unsigned char> buffer);
    /// Writes the pieces consecutively. Throws Error.
    void write(std::uint64_t offset, std::vector<struct iovec> pieces);
    void truncate(std::uint64_t size);

    /// Throws Error if the result of a libsquashfs call is negative.
    void check(int result, std::string_view doing) const;

private:
    struct Interface {
        sqfs_file_t file;
        File* self;
    };

    static File& of(const sqfs_file_t* file);
    static int readAt(sqfs_file_t* file, sqfs_u64 offset, void* buffer, size_t size);
    static int writeAt(sqfs_file_t* file, sqfs_u64 offset, const void* buffer, size_t size);
    static sqfs_u64 getSize(const sqfs_file_t* file);
    static int truncateTo(sqfs_file_t* file, sqfs_u64 size);
    int writeAll(std::uint64_t offset, std::vector<struct iovec> pieces);

    Interface interface {};
    int fd;
    std::string path;
    OnWrite onWrite;
    bool isRegular = false;
    std::uint64_t begin = 0;
    std::uint64_t length = 0;
    std::uint64_t largest = 0;
    std::atomic<int> failure{0};
};

}  // namespace sarus::squashfs
