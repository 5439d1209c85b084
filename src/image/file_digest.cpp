#include "image/file_digest.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/fsverity.hpp"
#include "base/text.hpp"

namespace sarus::image {

namespace {

using fsverity::blockSize;

constexpr std::size_t blocksAtOnce = 256;
constexpr unsigned int mostThreads = 8;  // more would only queue before the disk

class FileHasher {
public:
    FileHasher(int descriptor, std::string_view name) : fd(descriptor), nameForMessages(name) {
        struct stat status {};
        checkErrno(::fstat(fd, &status), cat("Failed to examine ", name));
        size = static_cast<std::uint64_t>(status.st_size);
        count = (size + blockSize - 1) / blockSize;
        leaves.resize(count);
    }

    std::string digest() {
        const auto wanted = std::min<std::uint64_t>(std::clamp(std::thread::hardware_concurrency(), 1U, mostThreads),
                                                    (count + blocksAtOnce - 1) / blocksAtOnce);
        {
            std::vector<std::jthread> threads;
            try {
                while (threads.size() + 1 < wanted) {
                    threads.emplace_back([this] { work(); });
                }
            } catch (const std::system_error&) {
                // As many threads as the user may have.
            }
            work();
        }
        if (failure) {
            std::rethrow_exception(failure);
        }
        return leaves.digest(size);
    }

private:
    void work() noexcept {
        try {
            std::vector<unsigned char> buffer(blocksAtOnce * blockSize);
            std::vector<const unsigned char*> blocks(blocksAtOnce);
            std::vector<fsverity::Hash> hashes(blocksAtOnce);
            for (std::size_t i = 0; i < blocksAtOnce; ++i) {
                blocks[i] = buffer.data() + i * blockSize;
            }
            for (auto first = next.fetch_add(blocksAtOnce); first < count; first = next.fetch_add(blocksAtOnce)) {
                const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(blocksAtOnce, count - first));
                read(first * blockSize, {buffer.data(), now * blockSize});
                fsverity::hashBlocks(blocks.data(), now, hashes.data());
                leaves.set(first, {hashes.data(), now});
            }
        } catch (...) {
            const std::lock_guard lock(mutex);
            failure = std::current_exception();
            next = count;
        }
    }

    /// What is behind the file's end is zero.
    void read(std::uint64_t offset, std::span<unsigned char> buffer) {
        while (!buffer.empty()) {
            const auto got = ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(offset));
            if (got < 0 && errno == EINTR) {
                continue;
            }
            checkErrno(got, cat("Failed to read ", nameForMessages));
            if (got == 0) {
                break;
            }
            buffer = buffer.subspan(static_cast<std::size_t>(got));
            offset += static_cast<std::uint64_t>(got);
        }
        if (offset < size && !buffer.empty()) {
            throw Error(cat("Failed to read ", nameForMessages, ": it became shorter meanwhile"));
        }
        std::fill(buffer.begin(), buffer.end(), std::uint8_t{0});
    }

    int fd;
    std::string_view nameForMessages;
    std::uint64_t size = 0;
    std::uint64_t count = 0;
    fsverity::Leaves leaves;
    std::atomic<std::uint64_t> next{0};
    std::mutex mutex;
    std::exception_ptr failure;
};

}  // namespace

std::string fsverityDigestOfFile(int fd, std::string_view nameForMessages) {
    return FileHasher(fd, nameForMessages).digest();
}

}  // namespace sarus::image
