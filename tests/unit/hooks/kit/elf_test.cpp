#include "hooks/kit/elf.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "hooks/kit/elf_builder.hpp"

namespace sarus::hooks::elf_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

std::optional<ElfFile> read(const std::string& bytes, ElfDetail detail = ElfDetail::everything) {
    ElfBytes source{std::string_view(bytes)};
    return readElf(source, detail);
}

test::ElfBuilder completeLibrary() {
    test::ElfBuilder builder;
    builder.soname = "libx.so.1";
    builder.needed = {"libc.so.6", "libm.so.6"};
    builder.runpath = "$ORIGIN/../lib";
    builder.interpreter = "/lib64/ld-linux-x86-64.so.2";
    builder.versionNeeds = {{"libc.so.6", {"GLIBC_2.2.5", "GLIBC_2.34"}},
                            {"libm.so.6", {"GLIBC_2.29", "weak:GLIBC_2.99"}}};
    builder.versionDefinitions = {"X_1.0", "X_1.1"};
    return builder;
}

TEST(Elf, readsEveryClassAndByteOrder) {
    for (const bool is64Bit : {false, true}) {
        for (const bool bigEndian : {false, true}) {
            auto builder = completeLibrary();
            builder.is64Bit = is64Bit;
            builder.bigEndian = bigEndian;
            builder.machine = 0x1234;
            builder.flags = 0x05000400;
            const auto elf = read(builder.build());
            ASSERT_TRUE(elf);
            EXPECT_EQ(elf->is64Bit, is64Bit);
            EXPECT_EQ(elf->isBigEndian, bigEndian);
            EXPECT_EQ(elf->machine, 0x1234);
            EXPECT_EQ(elf->flags, 0x05000400U);
            EXPECT_EQ(elf->type, 3);
            EXPECT_EQ(elf->soname, "libx.so.1");
            EXPECT_THAT(elf->needed, ElementsAre("libc.so.6", "libm.so.6"));
            EXPECT_EQ(elf->runpath, "$ORIGIN/../lib");
            EXPECT_EQ(elf->rpath, std::nullopt);
            EXPECT_EQ(elf->interpreter, "/lib64/ld-linux-x86-64.so.2");
            EXPECT_THAT(elf->versionNeeds,
                        ElementsAre(VersionNeed{"libc.so.6", {"GLIBC_2.2.5", "GLIBC_2.34"}},
                                    VersionNeed{"libm.so.6", {"GLIBC_2.29"}}));
            EXPECT_THAT(elf->versionDefinitions, ElementsAre("X_1.0", "X_1.1"));
        }
    }
}

TEST(Elf, readsProgramsAndLibrariesOfThisMachine) {
    const auto program = readElf(openFile("/proc/self/exe", O_RDONLY).get());
    ASSERT_TRUE(program);
    EXPECT_TRUE(program->interpreter.has_value());
    EXPECT_THAT(program->needed, Contains("libc.so.6"));
    EXPECT_THAT(program->versionDefinitions, ElementsAre());
    const auto need = std::find_if(program->versionNeeds.begin(), program->versionNeeds.end(),
                                   [](const auto& entry) { return entry.file == "libc.so.6"; });
    ASSERT_NE(need, program->versionNeeds.end());
    EXPECT_FALSE(need->versions.empty());

    std::string libc;
    for (const char* path :
         {"/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6", "/lib64/libc.so.6"}) {
        libc = libc.empty() && pathExists(path) ? path : libc;
    }
    ASSERT_FALSE(libc.empty());
    const auto library = readElf(openFile(libc, O_RDONLY).get());
    ASSERT_TRUE(library);
    EXPECT_EQ(library->soname, "libc.so.6");
    for (const auto& version : need->versions) {
        EXPECT_THAT(library->versionDefinitions, Contains(version));
    }
    EXPECT_THAT(library->versionDefinitions, Not(Contains("libc.so.6")))
        << "the base definition names the file, not a version";
}

TEST(Elf, readsOnlyTheSonameIfThatIsAllThatIsAskedFor) {
    const auto elf = read(completeLibrary().build(), ElfDetail::soname);
    EXPECT_EQ(elf->soname, "libx.so.1");
    EXPECT_TRUE(elf->needed.empty());
}

TEST(Elf, saysThatOtherFilesAreNoElfFiles) {
    EXPECT_EQ(read(""), std::nullopt);
    EXPECT_EQ(read("\x7f"
                   "EL"),
              std::nullopt);
    EXPECT_EQ(read("/* GNU ld script */ INPUT(/lib/libc.so.6)"), std::nullopt);
}

TEST(Elf, survivesTruncationAtEveryByte) {
    const auto whole = completeLibrary().build();
    for (std::size_t size = 4; size < whole.size(); ++size) {
        EXPECT_THROW(read(whole.substr(0, size)), Error) << size;
    }
    EXPECT_TRUE(read(whole));
}

TEST(Elf, survivesEveryValueInEveryByte) {
    const auto whole = completeLibrary().build();
    for (std::size_t at = 4; at < whole.size(); ++at) {
        for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
            auto damagedFile = whole;
            damagedFile[at] = static_cast<char>(value);
            try {
                read(damagedFile);
            } catch (const Error&) {
                // an error is as good as a result; a crash or an endless loop is not
            }
        }
    }
}

TEST(Elf, endsOnVersionChainsWithoutEnd) {
    auto builder = completeLibrary();
    builder.endlessVersions = true;
    EXPECT_THROW(read(builder.build()), Error);
    builder.versionNeeds.assign(1, {"libc.so.6", std::vector<std::string>(20000, "GLIBC_2.2.5")});
    EXPECT_THROW(read(builder.build()), Error) << "more records than any library has";
}

TEST(Elf, readsFilesThroughADescriptorWithoutMovingItsOffset) {
    const test::TemporaryDirectory directory;
    replaceFile(directory / "x", completeLibrary().build(), 0644);
    const auto fd = openFile(directory / "x", O_RDONLY);
    EXPECT_EQ(readElf(fd.get())->soname, "libx.so.1");
    EXPECT_EQ(::lseek(fd.get(), 0, SEEK_CUR), 0);
}

}  // namespace
}  // namespace sarus::hooks::elf_test
