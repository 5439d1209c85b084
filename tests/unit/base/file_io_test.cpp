#include "base/file_io.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include "base/error.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"

namespace sarus::file_io_test {
namespace {

using test::TemporaryDirectory;

void write(const std::string& path, std::string_view text) {
    writeAll(openFile(path, O_WRONLY | O_CREAT, 0644).get(), text, path);
}

TEST(ReadFile, RefusesMoreThanTheLimit) {
    const TemporaryDirectory directory;
    write(directory / "f", "12345");
    EXPECT_EQ(readFile(directory / "f", 5), "12345");
    EXPECT_THROW(readFile(directory / "f", 4), Error);
}

TEST(OpenFile, NamesThePathInItsError) {
    try {
        openFile("/nonexistent/x", O_RDONLY);
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "Failed to open /nonexistent/x: No such file or directory");
    }
}

TEST(ReplaceFile, ReplacesWithTheGivenModeAndLeavesNoTemporary) {
    const TemporaryDirectory directory;
    write(directory / "f", "old");
    replaceFile(directory / "f", "new", 0600);
    EXPECT_EQ(readFile(directory / "f"), "new");
    struct stat status {};
    ASSERT_EQ(::stat((directory / "f").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
    ASSERT_EQ(::unlink((directory / "f").c_str()), 0);
    EXPECT_EQ(::rmdir(directory.path().c_str()), 0) << "something else is left in the directory";
    ASSERT_EQ(::mkdir(directory.path().c_str(), 0700), 0);
}

TEST(ReplaceFile, KeepsTheOldFileAndCleansUpWhenItFails) {
    const TemporaryDirectory directory;
    createDirectories(directory / "target/full");
    EXPECT_THROW(replaceFile(directory / "target", "new", 0644), Error);  // a directory cannot be replaced
    EXPECT_TRUE(isDirectory(directory / "target/full"));
    removeTree(directory / "target");
    EXPECT_EQ(::rmdir(directory.path().c_str()), 0) << "a temporary file is left";
    ASSERT_EQ(::mkdir(directory.path().c_str(), 0700), 0);
}

TEST(CreateDirectories, CreatesParentsAndRefusesAFileInTheWay) {
    const TemporaryDirectory directory;
    createDirectories(directory / "a/b/c");
    createDirectories(directory / "a/b/c");
    EXPECT_TRUE(isDirectory(directory / "a/b/c"));
    write(directory / "file", "");
    EXPECT_THROW(createDirectories(directory / "file/d"), Error);
}

TEST(CreateDirectories, SucceedsBesideOneWhoRemovesWhatIsEmpty) {
    const TemporaryDirectory directory;
    std::atomic<bool> ends = false;
    auto other = std::async(std::launch::async, [&] {
        while (!ends) {
            for (const char* path : {"a/b/c", "a/b", "a"}) {
                ::rmdir((directory / path).c_str());
            }
            ::usleep(100);
        }
    });
    for (int round = 0; round < 2000; ++round) {
        EXPECT_NO_THROW(createDirectories(directory / "a/b/c"));
    }
    ends = true;
}

TEST(RemoveTree, RemovesUnreadableDirectoriesAndDoesNotFollowLinks) {
    const TemporaryDirectory directory;
    const TemporaryDirectory other;
    write(other / "precious", "data");
    createDirectories(directory / "tree/sub/deep");
    write(directory / "tree/sub/file", "x");
    ASSERT_EQ(::symlink(other.path().c_str(), (directory / "tree/link").c_str()), 0);
    ASSERT_EQ(::chmod((directory / "tree/sub").c_str(), 0), 0);
    removeTree(directory / "tree");
    EXPECT_FALSE(pathExists(directory / "tree"));
    EXPECT_EQ(readFile(other / "precious"), "data");
    removeTree(directory / "tree");  // a missing tree is no error
}

TEST(RemoveTree, SucceedsBesideAnotherThatRemovesTheSame) {
    const TemporaryDirectory directory;
    for (int round = 0; round < 300; ++round) {
        for (const char* branch : {"a", "b", "c"}) {
            createDirectories(cat(directory / "tree/", branch, "/deep"));
            write(cat(directory / "tree/", branch, "/file"), "x");
        }
        const auto remove = [&] { removeTree(directory / "tree"); };
        auto other = std::async(std::launch::async, remove);
        EXPECT_NO_THROW(remove());
        EXPECT_FALSE(pathExists(directory / "tree"));
        EXPECT_NO_THROW(other.get());
    }
}

TEST(RemoveTree, NeedsFewDescriptorsHoweverDeepTheTreeIs) {
    const TemporaryDirectory directory;
    auto here = openFile(directory.path(), O_RDONLY | O_DIRECTORY);
    for (int level = 0; level < 1100; ++level) {
        ASSERT_EQ(::mkdirat(here.get(), "level", 0700), 0);
        ASSERT_EQ(::mkdirat(here.get(), "beside", 0700), 0);
        here = openFileAt(here.get(), "level", O_RDONLY | O_DIRECTORY);
        openFileAt(here.get(), "file", O_WRONLY | O_CREAT, 0600);
    }
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit few{.rlim_cur = static_cast<rlim_t>(here.get()) + 8, .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    removeTree(directory / "level");
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_FALSE(pathExists(directory / "level"));
}

}  // namespace
}  // namespace sarus::file_io_test
