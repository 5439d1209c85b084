// Options of mksquashfs that the builder honours, and those that it refuses by name.

#include "image/build/write/squashfs_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "image/build/layer_fixture.hpp"

namespace sarus::image::build::squashfs_options_test {
namespace {

using testing::HasSubstr;

std::string problemOf(std::string_view text) {
    try {
        parseMksquashfsOptions(text);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(MksquashfsOptions, WithoutOptionsTheDefaultsHold) {
    const auto options = parseMksquashfsOptions("  ");
    EXPECT_EQ(options.compressor, "zstd");
    EXPECT_EQ(options.level, 3U);
    EXPECT_EQ(options.blockSize, 131072U);
}

TEST(MksquashfsOptions, ACompressorBringsItsOwnDefaultLevel) {
    EXPECT_EQ(parseMksquashfsOptions("-comp gzip").level, 9U);
    EXPECT_EQ(parseMksquashfsOptions("-comp zstd").level, 15U);
    EXPECT_EQ(parseMksquashfsOptions("-Xcompression-level 7 -comp gzip").level, 7U);
}

TEST(MksquashfsOptions, Settings) {
    const auto options = parseMksquashfsOptions(
        "-comp xz -Xdict-size 50% -Xbcj x86,arm -b 1M -processors 3 -mem 64M -no-xattrs -no-duplicates "
        "-no-fragments -noD -nopad "
        "-exports -no-sparse "
        "-force-uid 7 -force-gid 8 -all-time 99 -mkfs-time 5 -noappend -quiet -no-progress");
    EXPECT_EQ(options.blockSize, 1048576U);
    EXPECT_EQ(options.dictionarySize, 524288U);
    EXPECT_EQ(options.compressorFlags, SQFS_COMP_FLAG_XZ_X86 | SQFS_COMP_FLAG_XZ_ARM);
    EXPECT_EQ(options.workers, 3U);
    EXPECT_EQ(options.memory, 64U << 20U);
    EXPECT_EQ(options.owner, 7U);
    EXPECT_EQ(options.group, 8U);
    EXPECT_EQ(options.allTimes, 99U);
    EXPECT_EQ(options.creationTime, 5U);
    EXPECT_FALSE(options.xattrs || options.duplicates || options.fragments || options.compressData ||
                 options.padding || options.sparse);
    EXPECT_TRUE(options.exportable);
    EXPECT_EQ(parseMksquashfsOptions("-b 64k").blockSize, 65536U);
    EXPECT_EQ(parseMksquashfsOptions("-mem 64").memory, 64U << 20U);
    EXPECT_EQ(parseMksquashfsOptions("-all-root").owner, 0U);
    EXPECT_EQ(parseMksquashfsOptions("-root-owned").group, 0U);
    EXPECT_EQ(parseMksquashfsOptions("-comp lz4 -Xhc").compressorFlags, SQFS_COMP_FLAG_LZ4_HC);
    EXPECT_EQ(parseMksquashfsOptions("-comp gzip -Xwindow-size 9 -Xstrategy filtered,fixed").windowSize, 9);
}

TEST(MksquashfsOptions, WhatCannotBeHonouredIsNamed) {
    for (const std::string option :
         {"-comp lzo", "-comp lzma", "-comp brotli", "-e", "-noI", "-frobnicate", "file", "-Xhc", "-Xbcj",
          "-no-hardlinks", "-always-use-fragments", "-sort"}) {
        EXPECT_THAT(problemOf(option + " x"), HasSubstr(option.substr(0, option.find(' ')))) << option;
    }
}

TEST(MksquashfsOptions, InvalidValuesAreNamed) {
    for (const std::string option :
         {"-b 100000", "-b 2k", "-b 2M", "-b x", "-b", "-comp", "-processors 0", "-Xcompression-level 23",
          "-comp gzip -Xcompression-level 10", "-comp gzip -Xwindow-size 16", "-comp xz -Xdict-size 101%",
          "-comp xz -Xbcj mips", "-force-uid -1", "-mem 99999999999999999999", "-b 18446744073709551615M"}) {
        EXPECT_THAT(problemOf(option), HasSubstr("mksquashfsOptions: ")) << option;
    }
}

TEST(MksquashfsOptions, EveryCompressorMakesAReadableImage) {
    for (const std::string text :
         {"-comp gzip", "-comp gzip -Xcompression-level 1 -Xwindow-size 12 -Xstrategy default,filtered",
          "-comp xz -Xdict-size 8k -b 8k -Xbcj x86", "-comp lz4 -Xhc", "-comp lz4", "-comp zstd",
          "-b 4k -no-fragments -noD -exports", "-no-duplicates -no-sparse -nopad"}) {
        test::LayoutWriter layout;
        const std::string content(300000, 'q');
        layout.writeIndex(layout.addImage(
            {test::TarWriter().file("a", content).file("b", content).file("c", "tail").finish()}));
        auto request = test::requestFor(layout, layout.scratch("out"));
        request.squashfs = parseMksquashfsOptions(text);
        buildImage(request);
        const auto tree = test::readTree(layout.scratch("out"));
        EXPECT_EQ(tree.at("b").content, content) << text;
        EXPECT_EQ(tree.at("c").content, "tail") << text;
    }
}

}  // namespace
}  // namespace sarus::image::build::squashfs_options_test
