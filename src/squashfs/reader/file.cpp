#include "squashfs/reader/file.hpp"

#include <sqfs/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::squashfs {

namespace {

/// The description of an error code of libsquashfs.
std::string_view problem(int code) {
    switch (code) {
        case SQFS_ERROR_ALLOC:
            return "out of memory";
        case SQFS_ERROR_IO:
            return "input/output error";
        case SQFS_ERROR_COMPRESSOR:
            return "the compressor failed, or the compressed data are damaged";
        case SQFS_ERROR_CORRUPTED:
            return "the squashfs is damaged";
        case SQFS_ERROR_UNSUPPORTED:
            return "not supported by this build of libsquashfs";
        case SQFS_ERROR_OVERFLOW:
            return "a number is too large for the format";
        case SQFS_ERROR_OUT_OF_BOUNDS:
            return "the squashfs is damaged or incomplete";
        case SFQS_ERROR_SUPER_MAGIC:
        case SFQS_ERROR_SUPER_VERSION:
        case SQFS_ERROR_SUPER_BLOCK_SIZE:
            return "not a squashfs image of version 4.0";
        default:
            return "the squashfs library failed";
    }
}

}  // namespace

File::File(int descriptor, std::string name, OnWrite beforeWrite)
    : fd(descriptor), path(std::move(name)), onWrite(std::move(beforeWrite)) {
    struct stat status {};
    checkErrno(::fstat(fd, &status), cat("Failed to examine ", path));
    isRegular = S_ISREG(status.st_mode);
    length = static_cast<std::uint64_t>(status.st_size);
    largest = length;
    interface.self = this;
    interface.file.base.destroy = [](sqfs_object_t*) {};
    interface.file.read_at = readAt;
    interface.file.write_at = writeAt;
    interface.file.get_size = getSize;
    interface.file.truncate = truncateTo;
}

File::File(int descriptor, std::string name, std::uint64_t offset) : File(descriptor, std::move(name)) {
    if (offset > length) {
        throw Error(cat("Failed to read ", path, ": ", problem(SQFS_ERROR_OUT_OF_BOUNDS)));
    }
    begin = offset;
    length -= offset;
}

File& File::of(const sqfs_file_t* file) {
    // `file` is the first member of the standard-layout type Interface.
    return *reinterpret_cast<const Interface*>(file)->self;
}

int File::readAt(sqfs_file_t* file, sqfs_u64 offset, void* buffer, size_t size) {
    auto& self = of(file);
    auto* next = static_cast<char*>(buffer);
    if (self.begin != 0 && offset > self.length) {
        return SQFS_ERROR_OUT_OF_BOUNDS;  // the sum could be a place in front of the filesystem
    }
    offset += self.begin;
    while (size > 0) {
        const auto count = ::pread(self.fd, next, size, static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            self.failure = errno;
            return SQFS_ERROR_IO;
        }
        if (count == 0) {
            return SQFS_ERROR_OUT_OF_BOUNDS;
        }
        next += count;
        offset += static_cast<sqfs_u64>(count);
        size -= static_cast<size_t>(count);
    }
    return 0;
}

int File::writeAt(sqfs_file_t* file, sqfs_u64 offset, const void* buffer, size_t size) {
    auto& self = of(file);
    if (self.onWrite) {
        self.onWrite(offset, offset + size);
    }
    return size == 0
               ? 0
               : self.writeAll(offset,
                               {{const_cast<void*>(buffer), size}});  // iovec lacks const; it is for writing
}

int File::writeAll(std::uint64_t offset, std::vector<struct iovec> pieces) {
    for (std::size_t next = 0; next < pieces.size();) {
        auto count = ::pwritev(fd, &pieces[next],
                               static_cast<int>(std::min<std::size_t>(pieces.size() - next, IOV_MAX)),
                               static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            failure = count < 0 ? errno : ENOSPC;
            return SQFS_ERROR_IO;
        }
        offset += static_cast<std::uint64_t>(count);
        for (; next < pieces.size() && static_cast<std::size_t>(count) >= pieces[next].iov_len; ++next) {
            count -= static_cast<ssize_t>(pieces[next].iov_len);
        }
        if (count > 0) {
            pieces[next].iov_base = static_cast<char*>(pieces[next].iov_base) + count;
            pieces[next].iov_len -= static_cast<std::size_t>(count);
        }
    }
    length = std::max<std::uint64_t>(length, offset);
    largest = std::max(largest, length);
    return 0;
}

void File::read(std::uint64_t offset, std::span<unsigned char> buffer) {
    check(readAt(get(), offset, buffer.data(), buffer.size()), "Failed to read");
}

void File::write(std::uint64_t offset, std::vector<struct iovec> pieces) {
    check(writeAll(offset, std::move(pieces)), "Failed to write");
}

void File::truncate(std::uint64_t size) {
    check(truncateTo(get(), size), "Failed to write");
}

sqfs_u64 File::getSize(const sqfs_file_t* file) {
    return of(file).length;
}

int File::truncateTo(sqfs_file_t* file, sqfs_u64 size) {
    auto& self = of(file);
    if (self.isRegular && ::ftruncate(self.fd, static_cast<off_t>(size)) != 0) {
        self.failure = errno;
        return SQFS_ERROR_IO;
    }
    self.length = size;
    return 0;
}

void File::check(int result, std::string_view doing) const {
    if (result >= 0) {
        return;
    }
    const int errnum = failure;
    if (errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG) {
        throw Error::fromErrno(cat(doing, ' ', path), errnum,
                               "Free some space (or ask for a larger quota) and repeat the command");
    }
    if (errnum != 0) {
        throw Error::fromErrno(cat(doing, ' ', path), errnum);
    }
    throw Error(cat(doing, ' ', path, ": ", problem(result)));
}

}  // namespace sarus::squashfs
