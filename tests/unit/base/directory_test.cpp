#include "base/directory.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/config_files.hpp"
#include "base/error.hpp"
#include "base/failing_listing.hpp"
#include "base/file_io.hpp"
#include "base/path_checker.hpp"
#include "base/process_tree.hpp"
#include "base/temporary_directory.hpp"

namespace sarus::directory_test {
namespace {

std::vector<std::string> namesOf(Directory directory) {
    std::vector<std::string> names;
    while (const char* name = directory.next()) {
        names.emplace_back(name);
    }
    return names;
}

class DirectoryTest : public testing::Test {
protected:
    DirectoryTest() {
        std::ofstream(scratch.path() + "/.hidden");
        std::filesystem::create_directory(scratch.path() + "/folder");
    }
    test::TemporaryDirectory scratch;
};

TEST_F(DirectoryTest, HasItsEntriesWithoutItselfAndItsParent) {
    EXPECT_THAT(namesOf(Directory(scratch.path(), Missing::isError)),
                testing::UnorderedElementsAre(".hidden", "folder"));
}

TEST_F(DirectoryTest, LooksAnewAtADescriptorThatStaysTheCallers) {
    const auto fd = openFile(scratch.path(), O_RDONLY | O_DIRECTORY);
    EXPECT_EQ(namesOf(Directory::of(fd.get(), scratch.path())).size(), 2U);
    EXPECT_EQ(namesOf(Directory::of(fd.get(), scratch.path())).size(), 2U);
}

TEST_F(DirectoryTest, OfAProcessThatEndsMeanwhileIsAtItsEnd) {
    const auto child = ::fork();
    if (child == 0) {
        ::pause();
        ::_exit(0);
    }
    const auto path = "/proc/" + std::to_string(child) + "/fd";
    auto opened = openFile(path, O_RDONLY | O_DIRECTORY);
    Directory begun(path, Missing::isEmpty);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_THAT(namesOf(std::move(begun)), testing::IsEmpty());
    EXPECT_THAT(namesOf(Directory(std::move(opened), path, Missing::isEmpty)), testing::IsEmpty());
}

TEST_F(DirectoryTest, ThatIsNotThereIsAnErrorUnlessTheCallerSaysOtherwise) {
    const auto missing = scratch.path() + "/missing";
    EXPECT_THAT([&] { Directory(missing, Missing::isError); },
                testing::ThrowsMessage<Error>(
                    testing::StrEq("Failed to list " + missing + ": No such file or directory")));
    EXPECT_EQ(Directory(missing, Missing::isEmpty).next(), nullptr);
    EXPECT_EQ(Directory(scratch.path() + "/.hidden", Missing::isEmpty).next(), nullptr);
    EXPECT_EQ(Directory(AT_FDCWD, missing.c_str(), missing, Missing::isEmpty).next(), nullptr);
}

TEST_F(DirectoryTest, IsNeverEmptyBecauseItCannotBeOpened) {
    EXPECT_THROW(Directory(UniqueFd(), "nothing"), Error);
    EXPECT_THROW(Directory::of(-1, "nothing"), Error);
    EXPECT_THROW(namesOf(Directory(openFile(scratch.path(), O_PATH | O_DIRECTORY), "not for reading")),
                 Error);
    const auto loop = scratch.path() + "/loop";
    std::filesystem::create_symlink("loop", loop);
    EXPECT_THROW(Directory(loop, Missing::isEmpty), Error);
    EXPECT_THROW(Directory(std::string(5000, 'x'), Missing::isEmpty), Error);
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
    std::string message;
    try {
        Directory(scratch.path(), Missing::isEmpty);
    } catch (const Error& error) {
        message = error.what();
    }
    ::setrlimit(RLIMIT_NOFILE, &before);
    EXPECT_EQ(message, "Failed to list " + scratch.path() + ": Too many open files");
}

// Each of these lists a directory, and takes no failure for its end, whenever it comes.

TEST_F(DirectoryTest, FailureToReadIsAnErrorOfEveryFunctionThatLists) {
    const auto fd = openFile(scratch.path(), O_RDONLY | O_DIRECTORY);
    const std::vector<std::pair<const char*, std::function<void()>>> users{
        {"Directory", [&] { namesOf(Directory(scratch.path(), Missing::isError)); }},
        {"a missing one is none", [&] { namesOf(Directory(scratch.path(), Missing::isEmpty)); }},
        {"of", [&] { namesOf(Directory::of(fd.get(), scratch.path())); }},
        {"listFiles", [&] { listFiles(fd.get(), scratch.path(), {".json"}); }},
        {"removeTree", [&] { removeTree(scratch.path()); }},
        {"checkTree",
         [&] {
             PathChecker({{::geteuid()}, true}).checkTree(scratch.path());
         }},
        {"children", [&] { Process(::getpid()).children(); }},
    };
    for (const auto& [name, use] : users) {
        for (const int after : {0, 1}) {
            for (const int reason : {EIO, ESTALE}) {
                const test::FailingListing failing(reason, after);
                EXPECT_THROW(use(), Error) << name << " after " << after;
            }
        }
    }
    EXPECT_TRUE(std::filesystem::exists(scratch.path()));
}

}  // namespace
}  // namespace sarus::directory_test
