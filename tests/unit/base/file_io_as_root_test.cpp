#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/isolated_process.hpp"
#include "base/temporary_directory.hpp"

namespace sarus::file_io_as_root_test {
namespace {

int errnoOfRemoval(const std::string& path) {
    try {
        removeTree(path);
    } catch (const Error& error) {
        return error.errnum();
    }
    return 0;
}

TEST(RemoveTreeAsRoot, LeavesAloneWhatIsMountedInTheTree) {
    test::inMountNamespace([] {
        const test::TemporaryDirectory host;
        const auto tree = host.path() + "/tree";
        createDirectories(host.path() + "/others/directory");
        replaceFile(host.path() + "/others/file", "text", 0600);
        createDirectories(tree + "/dev");
        ASSERT_EQ(
            ::mount((host.path() + "/others").c_str(), (tree + "/dev").c_str(), nullptr, MS_BIND, nullptr),
            0);
        EXPECT_EQ(errnoOfRemoval(tree), EBUSY);
        EXPECT_EQ(errnoOfRemoval(tree + "/dev"), EBUSY);
        EXPECT_TRUE(pathExists(host.path() + "/others/file"));
        EXPECT_TRUE(pathExists(host.path() + "/others/directory"));
        ASSERT_EQ(::umount2((tree + "/dev").c_str(), MNT_DETACH), 0);
        EXPECT_EQ(errnoOfRemoval(tree), 0);
        EXPECT_FALSE(pathExists(tree));
    });
}

}  // namespace
}  // namespace sarus::file_io_as_root_test
