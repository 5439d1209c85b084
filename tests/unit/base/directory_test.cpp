#include "base/directory.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"

namespace sarus {
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
    EXPECT_THAT(namesOf(Directory(scratch.path())), testing::UnorderedElementsAre(".hidden", "folder"));
}

TEST_F(DirectoryTest, LooksAnewAtADescriptorThatStaysTheCallers) {
    const auto fd = openFile(scratch.path(), O_RDONLY | O_DIRECTORY);
    EXPECT_EQ(namesOf(Directory::of(fd.get())).size(), 2U);
    EXPECT_EQ(namesOf(Directory::of(fd.get())).size(), 2U);
}

TEST_F(DirectoryTest, ThatIsNotThereHasNoEntriesAndSaysWhy) {
    Directory missing(scratch.path() + "/missing");
    EXPECT_EQ(errno, ENOENT);
    EXPECT_FALSE(missing);
    EXPECT_EQ(missing.next(), nullptr);
}

}  // namespace
}  // namespace sarus
