#include "hooks/kit/linker_cache/ld_cache.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <cstring>
#include <tuple>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/subprocess.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"

namespace sarus::hooks::ld_cache_test {
namespace {

using ::testing::ElementsAre;

std::string number(std::uint32_t value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// A cache in the old format, as libc5 and early glibc had it.
std::string oldCache() {
    const std::string names = std::string("libm.so.6\0/lib/libm.so.6\0libc.so.6\0/lib/libc.so.6\0", 50);
    return std::string("ld.so-1.7.0\0", 12) + number(2) + number(3) + number(0) + number(10) + number(3) +
           number(25) + number(35) + names;
}

std::vector<std::string> shown(const LdCache& cache) {
    std::vector<std::string> lines;
    for (const auto& entry : cache.entries()) {
        lines.push_back(cat(entry.name, " => ", entry.path, entry.hwcapsSubdirectory.empty() ? "" : " @",
                            entry.hwcapsSubdirectory));
    }
    return lines;
}

std::optional<std::string> noteOf(std::string_view bytes, std::string_view LdCacheNotes::*note) {
    ElfBytes source(bytes);
    return readLdCacheNote(source, bytes.size(), note);
}

std::string sample(bool bigEndian = false) {
    return serializeLdCache({{"libb.so.1", "/lib/libb.so.1", ld_cache_flags::x86_64, ""},
                             {"libb.so.10", "/lib/libb.so.10", ld_cache_flags::x86_64, ""},
                             {"liba.so.2", "/first/liba.so.2", ld_cache_flags::x86_64, ""},
                             {"liba.so.2", "/second/liba.so.2", ld_cache_flags::x86_64, ""},
                             {"liba.so.2", "/v3/liba.so.2", ld_cache_flags::x86_64, "x86-64-v3"},
                             {"liba.so.2", "/v2/liba.so.2", ld_cache_flags::x86_64, "x86-64-v2"},
                             {"liba.so.2", "/lib32/liba.so.2.real", ld_cache_flags::elfLibc6, ""}},
                            {"the stamp", "the libraries"}, bigEndian);
}

TEST(LdCache, readsWhatItWroteInTheOrderOfTheDynamicLinker) {
    for (const bool bigEndian : {false, true}) {
        const auto bytes = sample(bigEndian);
        const auto cache = LdCache::parse(bytes);
        EXPECT_THAT(shown(cache),
                    ElementsAre("libb.so.10 => /lib/libb.so.10", "libb.so.1 => /lib/libb.so.1",
                                "liba.so.2 => /v2/liba.so.2 @x86-64-v2",
                                "liba.so.2 => /v3/liba.so.2 @x86-64-v3", "liba.so.2 => /first/liba.so.2",
                                "liba.so.2 => /second/liba.so.2", "liba.so.2 => /lib32/liba.so.2.real"));
        EXPECT_EQ(cache.entries()[0].flags, ld_cache_flags::x86_64);
        EXPECT_EQ(cache.entries()[6].flags, ld_cache_flags::elfLibc6);
        EXPECT_EQ(cache.generator(), "sarus");
        EXPECT_EQ(noteOf(bytes, &LdCacheNotes::stamp),
                  bigEndian ? std::nullopt : std::optional<std::string>("the stamp"));
        EXPECT_EQ(noteOf(bytes, &LdCacheNotes::libraries),
                  bigEndian ? std::nullopt : std::optional<std::string>("the libraries"));
    }
}

TEST(LdCache, readsTheOldFormat) {
    const auto cache = LdCache::parse(oldCache());
    EXPECT_THAT(shown(cache), ElementsAre("libm.so.6 => /lib/libm.so.6", "libc.so.6 => /lib/libc.so.6"));
    EXPECT_EQ(noteOf(oldCache(), &LdCacheNotes::stamp), std::nullopt);
}

TEST(LdCache, prefersTheNewFormatWhereBothAreInOneFile) {
    for (const std::size_t alignment : {4U, 8U}) {
        auto entries = std::string("ld.so-1.7.0\0", 12) + number(1) + number(3) + number(0) + number(0);
        entries.resize((entries.size() + alignment - 1) / alignment * alignment, '\0');
        EXPECT_EQ(LdCache::parse(entries + sample()).entries().size(), 7U);
    }
}

TEST(LdCache, readsTheFormatsThatLdconfigWritesForThisMachine) {
    const auto ldconfig = pathExists("/sbin/ldconfig") ? "/sbin/ldconfig" : "/usr/sbin/ldconfig";
    if (!pathExists(ldconfig)) {
        GTEST_SKIP() << "no ldconfig on this machine";
    }
    const test::TemporaryDirectory directory;
    for (const char* format : {"old", "new", "compat"}) {
        const auto file = directory / format;
        // -X: leave the machine's links alone
        const auto made = runAndCapture({ldconfig, {"ldconfig", "-X", "-c", format, "-C", file}});
        ASSERT_TRUE(made.status.ok()) << made.err;
        const auto listed = runAndCapture({ldconfig, {"ldconfig", "-p", "-C", file}});
        std::vector<std::string> expected;
        for (const auto& line : split(listed.out, '\n')) {
            const auto arrow = line.find(" => ");
            if (line.starts_with('\t') && arrow != std::string::npos) {
                expected.push_back(cat(line.substr(1, line.find(' ') - 1), line.substr(arrow)));
            }
        }
        std::vector<std::string> found;
        const auto bytes = readFile(file);
        const auto cache = LdCache::parse(bytes);
        for (const auto& entry : cache.entries()) {
            found.push_back(cat(entry.name, " => ", entry.path));
        }
        if (std::string_view(format) == "old") {
            EXPECT_FALSE(found.empty()) << "newer ldconfig programs cannot list the old format";
        } else {
            EXPECT_EQ(found, expected) << format;
        }
    }
}

TEST(LdCache, ldconfigListsOurCache) {
    const auto ldconfig = pathExists("/sbin/ldconfig") ? "/sbin/ldconfig" : "/usr/sbin/ldconfig";
    if (!pathExists(ldconfig)) {
        GTEST_SKIP() << "no ldconfig on this machine";
    }
    const test::TemporaryDirectory directory;
    replaceFile(directory / "cache", sample(), 0644);
    const auto listed = runAndCapture({ldconfig, {"ldconfig", "-p", "-C", directory / "cache"}});
    EXPECT_TRUE(listed.status.ok()) << listed.err;
    EXPECT_NE(listed.out.find("7 libs found"), std::string::npos) << listed.out;
    EXPECT_NE(listed.out.find("liba.so.2 (libc6,x86-64, hwcap: \"x86-64-v3\") => /v3/liba.so.2"),
              std::string::npos)
        << listed.out;
    EXPECT_NE(listed.out.find("Cache generated by: sarus"), std::string::npos) << listed.out;
}

TEST(LdCache, comparesDigitsAsNumbers) {
    EXPECT_GT(compareLibraryNames("libx.so.10", "libx.so.9"), 0);
    EXPECT_LT(compareLibraryNames("libx.so.9", "libx.so.10"), 0);
    EXPECT_EQ(compareLibraryNames("libx.so.09", "libx.so.9"), 0);
    EXPECT_GT(compareLibraryNames("lib1", "liba"), 0) << "a digit comes after everything else";
    EXPECT_GT(compareLibraryNames("libx.so.1", "libx.so"), 0);
    EXPECT_LT(compareLibraryNames("libx.so", "libx.so.1"), 0);
    EXPECT_EQ(compareLibraryNames("", ""), 0);
}

TEST(LdCache, survivesTruncationAndEveryChangedByte) {
    for (const auto& whole :
         {sample(), sample(true), oldCache(), std::string("ld.so-1.7.0\0", 12) + number(0) + sample()}) {
        for (std::size_t size = 0; size < whole.size(); ++size) {
            try {
                LdCache::parse(whole.substr(0, size));
            } catch (const Error&) {
            }
        }
        for (std::size_t at = 0; at < whole.size(); ++at) {
            for (const int value : {0x00, 0x01, 0x7f, 0xff}) {
                auto changed = whole;
                changed[at] = static_cast<char>(value);
                try {
                    const auto cache = LdCache::parse(changed);
                    EXPECT_LE(cache.entries().size(), changed.size());
                } catch (const Error&) {
                }
            }
        }
    }
}

TEST(LdCache, refusesHugeCountsForeignFilesAndOverlappingNames) {
    auto huge = sample();
    std::memset(huge.data() + 20, 0xff, 4);
    EXPECT_THROW(LdCache::parse(huge), Error);
    EXPECT_THROW(LdCache::parse(""), Error);
    EXPECT_THROW(LdCache::parse("#!/bin/sh\n"), Error);
    const std::string longName(4000, 'x');
    const auto one = serializeLdCache({{longName, "/" + longName, 3, ""}});
    std::vector<LdCacheRecord> many(500, {"a", "/a", 3, ""});
    auto overlapping = serializeLdCache(many) + longName + '\0';
    const auto offset = static_cast<std::uint32_t>(overlapping.size() - 4001);
    for (std::size_t i = 0; i < many.size(); ++i) {
        std::memcpy(overlapping.data() + 48 + i * 24 + 8, &offset, 4);
    }
    EXPECT_NO_THROW(LdCache::parse(one));
    EXPECT_THROW(LdCache::parse(overlapping), Error) << "a small file would become a large list";
}

TEST(LdCache, knowsTheFlagsOfEachMachine) {
    const auto flags = [](std::uint16_t machineNumber, bool is64Bit, std::uint32_t elfFlags = 0) {
        ElfFile file;
        file.machine = machineNumber;
        file.is64Bit = is64Bit;
        file.flags = elfFlags;
        return ldCacheFlags(file);
    };
    EXPECT_EQ(flags(machine::x86_64, true), 0x0303U);
    EXPECT_EQ(flags(machine::x86_64, false), 0x0803U);
    EXPECT_EQ(flags(machine::i386, false), 0x0003U);
    EXPECT_EQ(flags(machine::aarch64, true), 0x0a03U);
    EXPECT_EQ(flags(machine::arm, false, 0x05000400), 0x0903U);
    EXPECT_EQ(flags(machine::riscv, true, 0x5), 0x1003U);
    EXPECT_EQ(flags(0x4242, true), std::nullopt);
}

}  // namespace
}  // namespace sarus::hooks::ld_cache_test
