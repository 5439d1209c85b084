#include "squashfs/sif.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"

namespace sarus::squashfs::sif_test {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t squashfs = 1;
constexpr std::uint32_t ext3 = 2;
constexpr std::uint32_t encrypted = 5;
constexpr std::uint32_t systemPartition = 1;
constexpr std::uint32_t primary = 2;
constexpr std::uint32_t data = 3;
constexpr std::uint32_t overlay = 4;

template <typename Number>
void put(std::string& bytes, std::size_t offset, Number number) {
    for (std::size_t i = 0; i < sizeof number; ++i) {
        bytes[offset + i] = static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * i) & 0xffU);
    }
}

struct Part {
    std::uint32_t filesystem;
    std::uint32_t purpose;
    std::uint64_t offset = 4000;
    std::uint64_t size = 96;
    std::uint32_t type = 0x4004;
    bool isUsed = true;
};

std::string sif(const std::vector<Part>& parts) {
    std::string bytes(8192, '\0');
    bytes.replace(32, 9, "SIF_MAGIC");
    put<std::uint64_t>(bytes, 88, parts.size());
    put<std::uint64_t>(bytes, 96, 200);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto at = 200 + i * 585;
        put(bytes, at, parts[i].type);
        bytes[at + 4] = parts[i].isUsed ? 1 : 0;
        put(bytes, at + 17, parts[i].offset);
        put(bytes, at + 25, parts[i].size);
        put(bytes, at + 201, parts[i].filesystem);
        put(bytes, at + 205, parts[i].purpose);
    }
    return bytes;
}

FilePart find(const std::string& bytes) {
    const test::TemporaryDirectory directory;
    replaceFile(directory / "file", bytes, 0600);
    return findSquashfs(openFile(directory / "file", O_RDONLY).get(), bytes.size(), "FILE");
}

std::string refusal(const std::string& bytes) {
    try {
        find(bytes);
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), ::testing::StartsWith("Failed to use image FILE: the "));
        return error.what();
    }
    return {};
}

TEST(Sif, AnyOtherFileIsTakenWhole) {
    const auto part = find("hsqs and more");
    EXPECT_EQ(part.offset, 0U);
    EXPECT_EQ(part.size, 13U);
    EXPECT_EQ(find("").size, 0U);
}

TEST(Sif, ThePrimarySystemPartitionCounts) {
    const auto part = find(
        sif({{squashfs, data, 1}, {squashfs, primary, 5000, 100}, {ext3, overlay, 2}, {0, 0, 3, 9, 0x4001}}));
    EXPECT_EQ(part.offset, 5000U);
    EXPECT_EQ(part.size, 100U);
}

TEST(Sif, WithoutOneTheOnlySquashfsPartitionCounts) {
    EXPECT_EQ(find(sif({{ext3, overlay, 1}, {squashfs, data, 5000}})).offset, 5000U);
    EXPECT_EQ(find(sif({{squashfs, systemPartition, 5000}})).offset, 5000U);
}

TEST(Sif, UnusedDescriptorsDoNotCount) {
    EXPECT_EQ(find(sif({{squashfs, primary, 1, 96, 0x4004, false}, {squashfs, data, 5000}})).offset, 5000U);
    EXPECT_THAT(refusal(sif({{squashfs, primary, 1, 96, 0x4004, false}})), HasSubstr("has no partition"));
}

TEST(Sif, WhatCannotBeMountedIsNamed) {
    EXPECT_THAT(refusal(sif({{encrypted, primary}})), HasSubstr("has an encrypted file system in place of"));
    EXPECT_THAT(refusal(sif({{ext3, primary}, {squashfs, data}})),
                HasSubstr("has ext3 in place of squashfs"));
    EXPECT_THAT(refusal(sif({{77, primary}})), HasSubstr("has an unknown file system"));
    EXPECT_THAT(refusal(sif({{squashfs, data}, {squashfs, data}})), HasSubstr("2 partitions with squashfs"));
    EXPECT_THAT(refusal(sif({{squashfs, primary}, {squashfs, primary}})), HasSubstr("2 primary system"));
}

TEST(Sif, NothingOutsideOfTheFileIsRead) {
    constexpr auto all = ~std::uint64_t{0};
    for (const auto& part : std::vector<Part>{{squashfs, primary, 8192 - 95},
                                              {squashfs, primary, 8193, 0},
                                              {squashfs, primary, all, 2},
                                              {squashfs, primary, 2, all},
                                              {squashfs, primary, all - 95, 96}}) {
        EXPECT_THAT(refusal(sif({part})), HasSubstr("the partition of the SIF file is incomplete"));
    }
    auto bytes = sif({{squashfs, primary}});
    for (const std::uint64_t table : {std::uint64_t{8000}, std::uint64_t{8192}, all, all / 2}) {
        put(bytes, 96, table);
        EXPECT_THAT(refusal(bytes), HasSubstr("of the SIF file is"));
    }
    for (const std::uint64_t count : {std::uint64_t{1025}, all, all / 585 + 2}) {
        put(bytes, 88, count);
        EXPECT_THAT(refusal(bytes), HasSubstr("the table of the SIF file is damaged or too large"));
    }
    EXPECT_THAT(refusal(sif({{squashfs, primary}}).substr(0, 127)),
                HasSubstr("header of the SIF file is incomplete"));
    EXPECT_THAT(refusal(sif({{squashfs, primary}}).substr(0, 784)),
                HasSubstr("table of the SIF file is incomplete"));
}

}  // namespace
}  // namespace sarus::squashfs::sif_test
