#include "cli/env_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::cli::env_file_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string failure(std::string_view text) {
    try {
        parseEnvironmentFile(text, "job.env");
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(EnvironmentFile, LinesAreTakenAsTheyAre) {
    EXPECT_THAT(parseEnvironmentFile("A=1\nB=\"x y\" # no comment\nC=\nD==\n", "f"),
                ElementsAre("A=1", "B=\"x y\" # no comment", "C=", "D=="));
}

TEST(EnvironmentFile, NameAloneMeansTheCallersValue) {
    EXPECT_THAT(parseEnvironmentFile("HOME\nB", "f"), ElementsAre("HOME", "B"));
}

TEST(EnvironmentFile, CommentsAndEmptyLinesAreSkipped) {
    EXPECT_THAT(parseEnvironmentFile("# a\n\n  \t\n  # b\n  A=1\n", "f"), ElementsAre("A=1"));
    EXPECT_THAT(parseEnvironmentFile("", "f"), IsEmpty());
}

TEST(EnvironmentFile, ByteOrderMarkAndCarriageReturnsAreNoPartOfIt) {
    EXPECT_THAT(parseEnvironmentFile("\xEF\xBB\xBF"
                                     "A=1\r\nB=2\r\n\r\n",
                                     "f"),
                ElementsAre("A=1", "B=2"));
}

TEST(EnvironmentFile, ErrorsNameFileAndLine) {
    EXPECT_EQ(failure("A=1\n=2\n"),
              "Invalid environment file job.env, line 2: '=2' has no name before the '='");
    EXPECT_EQ(failure("\nA B=2\n"),
              "Invalid environment file job.env, line 2: the name 'A B' contains white space");
    EXPECT_EQ(failure("export A=2"),
              "Invalid environment file job.env, line 1: the name 'export A' contains white space");
    EXPECT_THAT(failure(std::string_view("A=\0x", 4)),
                HasSubstr("job.env, line 1: it holds a NUL character"));
}

TEST(EnvironmentFile, SizeIsBounded) {
    EXPECT_THROW(readEnvironmentFile("/dev/zero"), Error);
}

}  // namespace
}  // namespace sarus::cli::env_file_test
