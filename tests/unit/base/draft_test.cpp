#include "base/draft.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"

namespace sarus::draft_test {
namespace {

using test::TemporaryDirectory;

std::string onlyEntry(const std::string& path) {
    Directory entries(path, Missing::isError);
    const char* name = entries.next();
    std::string first = name == nullptr ? "" : name;
    return entries.next() == nullptr ? first : "several";
}

TEST(Draft, ReplacesAFileWithTheGivenMode) {
    const TemporaryDirectory directory;
    for (const auto* const text : {"one", "two"}) {
        Draft draft(directory / "f", 0640);
        writeAll(draft.fd(), text, "f");
        draft.replace();
        EXPECT_EQ(readFile(directory / "f"), text);
    }
    struct stat status {};
    ASSERT_EQ(::stat((directory / "f").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0640U);
    EXPECT_EQ(onlyEntry(directory.path()), "f");
}

TEST(Draft, CreatesOnlyANameThatIsFree) {
    const TemporaryDirectory directory;
    Draft first(directory / "f", 0600);
    Draft second(directory / "f", 0600);
    writeAll(second.fd(), "second", "f");
    EXPECT_TRUE(second.create());
    EXPECT_FALSE(first.create());
    EXPECT_EQ(readFile(directory / "f"), "second");
}

TEST(Draft, LeavesNothingIfItIsGivenUp) {
    const TemporaryDirectory directory;
    {
        const Draft draft(directory / "f", 0600);
        writeAll(draft.fd(), "text", "f");
    }
    EXPECT_EQ(onlyEntry(directory.path()), "");
}

TEST(Draft, LeavesNothingIfItCannotReplace) {
    const TemporaryDirectory directory;
    createDirectories(directory / "f");
    {
        Draft draft(directory / "f", 0600);
        EXPECT_THROW(draft.replace(), Error);
    }
    EXPECT_EQ(onlyEntry(directory.path()), "f");
}

TEST(Draft, NeedsNoRightToReadTheDirectory) {
    const TemporaryDirectory directory;
    createDirectories(directory / "d", 0300);
    Draft draft(directory / "d/f", 0600);
    EXPECT_TRUE(draft.create());
}

TEST(Draft, NamesTheFileIfThereIsNoDirectory) {
    try {
        const Draft draft("/nonexistent/f", 0600);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find("Failed to open /nonexistent/f"), 0U) << error.what();
    }
}

}  // namespace
}  // namespace sarus::draft_test
