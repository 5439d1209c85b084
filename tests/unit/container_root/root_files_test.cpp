#include "container_root/root_files.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "hooks/kit/root_fixture.hpp"

namespace sarus::container_root::root_files_test {
namespace {

TEST(DirectoryInRoot, IsAbsentOnlyIfThereIsNone) {
    const test::Root root;
    root.write("lib/file", "x");
    root.link("loop", "loop");
    const auto top = openFile(root.path(), O_PATH | O_DIRECTORY);
    EXPECT_TRUE(tryOpenDirectoryInRoot(top.get(), "/lib"));
    for (const auto& none : {std::string("/none"), std::string("/lib/file"), std::string("/loop"),
                             std::string("/none/lib"), '/' + std::string(300, 'x')}) {
        EXPECT_FALSE(tryOpenDirectoryInRoot(top.get(), none)) << none;
    }
    // Before it looks at the first Error, the sanitizer for undefined behaviour needs a descriptor.
    EXPECT_THROW(openFile(root.path() + "/none", O_RDONLY), Error);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const auto lowest = openFile("/dev/null", O_RDONLY).get();
    for (int more = 0; more < 2; ++more) {
        const rlimit few{.rlim_cur = static_cast<rlim_t>(lowest + more), .rlim_max = before.rlim_max};
        std::string message;
        ::setrlimit(RLIMIT_NOFILE, &few);
        try {
            tryOpenDirectoryInRoot(top.get(), "/lib");
        } catch (const Error& error) {
            message = error.what();
        }
        ::setrlimit(RLIMIT_NOFILE, &before);
        EXPECT_THAT(message,
                    testing::AllOf(testing::HasSubstr("/lib"), testing::HasSubstr("Too many open files")));
    }
}

}  // namespace
}  // namespace sarus::container_root::root_files_test
