#include "image/store/index_lock.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <new>
#include <thread>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "image/scratch.hpp"

namespace sarus::image::index_lock_test {
namespace {

/// The calls of flock(2) that are still to answer ESTALE, in this process and its children.
std::atomic<int>& staleAnswers() {
    static auto* const shared = new (::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                                            MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>(0);
    return *shared;
}

TEST(LockFile, SurvivesThatAnotherNodeReplacesTheFile) {
    const test::Scratch scratch;
    const auto path = scratch.write("index", "{}");
    staleAnswers() = 2;
    const auto lock = lockFile(path, LockMode::exclusive, {});
    EXPECT_EQ(staleAnswers(), 0) << "the file that the server has forgotten";
    EXPECT_TRUE(hasName(lock.get(), path));
}

TEST(LockFile, WaitsForAMomentInWhichNothingHasTheName) {
    const test::Scratch scratch;
    const auto path = scratch.path("index");
    std::thread otherNode([&] {
        ::usleep(100'000);
        scratch.write("index", "{}");
    });
    EXPECT_NO_THROW(lockFile(path, LockMode::exclusive, {}));
    otherNode.join();
    EXPECT_THROW(lockFile(scratch.path("missing"), LockMode::exclusive, {}), Error);
}

}  // namespace

/// Stands before that of the C library.
extern "C" int flock(int fd, int operation) {
    if (staleAnswers() > 0 && staleAnswers()-- > 0) {
        errno = ESTALE;
        return -1;
    }
    return static_cast<int>(::syscall(SYS_flock, fd, operation));
}

}  // namespace sarus::image::index_lock_test
