#pragma once

#include <sqfs/io.h>
#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "image/build/written_digest.hpp"

namespace sarus::image::build {

/// A file descriptor in the form that libsquashfs reads and writes, which remembers the errno of a failure so that "disk full"
/// can be told from damage. Neither copyable nor owner of the descriptor.
class SquashfsFile {
public:
    /// `name`: for messages.
    SquashfsFile(int descriptor, std::string name);
    SquashfsFile(const SquashfsFile&) = delete;
    SquashfsFile& operator=(const SquashfsFile&) = delete;

    sqfs_file_t* get() noexcept { return &interface.file; }
    std::uint64_t size() const noexcept { return length; }

    /// Writes the pieces one behind the other. Throws Error. To be followed by takeHashes() of the same.
    void write(std::uint64_t offset, std::vector<struct iovec> pieces);
    /// From any thread.
    void takeHashes(const BlocksToHash& done) { written.take(done); }

    /// The fs-verity digest of the file, which was empty in the beginning, in its final state.
    std::string digest();

    /// Turns a result of libsquashfs into an Error unless it is 0 or positive.
    void check(int result, std::string_view doing) const;

private:
    struct Interface {
        sqfs_file_t file;
        SquashfsFile* self;
    };

    static SquashfsFile& of(const sqfs_file_t* file);
    static int readAt(sqfs_file_t* file, sqfs_u64 offset, void* buffer, size_t size);
    static int writeAt(sqfs_file_t* file, sqfs_u64 offset, const void* buffer, size_t size);
    static sqfs_u64 getSize(const sqfs_file_t* file);
    static int truncate(sqfs_file_t* file, sqfs_u64 size);

    Interface interface {};
    int fd;
    std::string path;
    std::uint64_t length = 0;
    WrittenDigest written;
    std::atomic<int> failure{0};
};

/// The words for an error code of libsquashfs.
std::string_view squashfsProblem(int code);

}  // namespace sarus::image::build
