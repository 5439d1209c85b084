#include "base/descriptors.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/file_io.hpp"
#include "base/isolated_process.hpp"
#include "base/path_in_root.hpp"

namespace sarus::descriptors_test {
namespace {

using namespace sarus::test;

bool isOpen(int fd) {
    return ::fcntl(fd, F_GETFD) >= 0;
}

/// Exchanges two descriptors, uses one twice, and closes the rest.
void expectArranged() {
    const auto null = openFile("/dev/null", O_RDONLY);
    const auto zero = openFile("/dev/zero", O_RDONLY);
    ::dup2(zero.get(), 20);
    ::dup2(null.get(), 3);
    ::dup2(20, 4);
    ::dup2(null.get(), 900);
    ASSERT_TRUE(arrangeDescriptors({0, 1, 2, 4, 3, 3}));
    EXPECT_EQ(pathOfDescriptor(3), "/dev/zero");
    EXPECT_EQ(pathOfDescriptor(4), "/dev/null");
    EXPECT_EQ(pathOfDescriptor(5), "/dev/null");
    EXPECT_EQ(::fcntl(3, F_GETFD), 0) << "programs inherit it";
    EXPECT_FALSE(isOpen(6) || isOpen(900));
}

TEST(Descriptors, AreArranged) {
    inChild(expectArranged);
}

TEST(Descriptors, AreArrangedOnOldKernels) {
    inChild([] {
        failSystemCalls({SYS_close_range}, ENOSYS);
        expectArranged();
    });
}

TEST(Descriptors, OneThatIsNoneIsAnError) {
    inChild([] {
        EXPECT_FALSE(arrangeDescriptors({0, 1, 2, -1}));
        EXPECT_EQ(errno, EBADF);
    });
}

TEST(Descriptors, ARangeIsClosed) {
    inChild([] {
        for (const int fd : {10, 11, 12}) {
            ::dup2(2, fd);
        }
        closeRange(10, 11);
        closeRange(13, 12);
        EXPECT_FALSE(isOpen(10) || isOpen(11));
        EXPECT_TRUE(isOpen(12));
        closeRange(3);
        EXPECT_FALSE(isOpen(12));
    });
}

TEST(Descriptors, OthersAreClosedByTheNextProgram) {
    for (const bool isOld : {false, true}) {
        inChild([&] {
            for (const int fd : {100, 101}) {
                ::dup2(2, fd);
            }
            if (isOld) {
                failSystemCalls({SYS_close_range}, ENOSYS);
            }
            closeOnExec(101);
            EXPECT_EQ(::fcntl(100, F_GETFD), 0);
            EXPECT_EQ(::fcntl(101, F_GETFD), FD_CLOEXEC);
        });
    }
}

}  // namespace
}  // namespace sarus::descriptors_test
