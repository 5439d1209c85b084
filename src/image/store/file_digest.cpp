#include "image/store/file_digest.hpp"

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

constexpr auto blocksAtOnce = fsverity::FileBlocks::atOnce;
constexpr unsigned int mostThreads = 8;  // more would only queue for the disk

class FileHasher {
public:
    FileHasher(int descriptor, std::string_view name) : fd(descriptor), nameForMessages(name) {
        struct stat status {};
        checkErrno(::fstat(fd, &status), cat("Failed to examine ", name));
        size = static_cast<std::uint64_t>(status.st_size);
        leaves.resizeFor(size);
    }

    std::string digest() {
        const auto wanted =
            std::min<std::uint64_t>(std::clamp(std::thread::hardware_concurrency(), 1U, mostThreads),
                                    (leaves.count() + blocksAtOnce - 1) / blocksAtOnce);
        {
            std::vector<std::jthread> threads;
            try {
                while (threads.size() + 1 < wanted) {
                    threads.emplace_back([this] { work(); });
                }
            } catch (const std::system_error&) {
                // As many threads as the user's limit allows.
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
            fsverity::FileBlocks blocks(fd, size, nameForMessages);
            for (auto first = next.fetch_add(blocksAtOnce); first < leaves.count();
                 first = next.fetch_add(blocksAtOnce)) {
                blocks.hash(first, leaves);
            }
        } catch (...) {
            const std::lock_guard lock(mutex);
            failure = std::current_exception();
            next = leaves.count();
        }
    }

    int fd;
    std::string_view nameForMessages;
    std::uint64_t size = 0;
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
