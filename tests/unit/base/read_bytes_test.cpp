#include "base/read_bytes.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "base/error.hpp"
#include "base/file_io.hpp"

namespace sarus {

TEST(ReadBytes, GivesWhatTheFileHasOfThemAndKeepsItsPosition) {
    const auto file = makeMemoryFile("test", "0123456789");
    const auto position = ::lseek(file.get(), 0, SEEK_CUR);
    EXPECT_EQ(readBytes(file.get(), 2, 3, "the file"), "234");
    EXPECT_EQ(readBytes(file.get(), 8, 5, "the file"), "89");
    EXPECT_EQ(readBytes(file.get(), 10, 5, "the file"), "");
    EXPECT_EQ(::lseek(file.get(), 0, SEEK_CUR), position);
}

TEST(ReadBytes, NamesAFileThatCannotBeRead) {
    try {
        readBytes(-1, 0, 1, "the file");
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()), "Failed to read the file: Bad file descriptor");
    }
    EXPECT_EQ(readableBytes(-1, 0, 1), "");
}

TEST(ReadBytes, RefusesAnOffsetThatNoFileReaches) {
    const auto file = makeMemoryFile("test", "0123456789");
    EXPECT_EQ(readableBytes(file.get(), ~std::uint64_t{0} - 10, 1), "");
    EXPECT_THROW(readBytes(file.get(), ~std::uint64_t{0} - 10, 1, "the file"), Error);
}

}  // namespace sarus
