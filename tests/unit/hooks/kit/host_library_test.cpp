#include "hooks/kit/host_library.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "hooks/kit/root_fixture.hpp"

namespace sarus::hooks::host_library_test {
namespace {

using test::Root;

std::string errorOf(const std::string& path) {
    try {
        readHostLibrary(path);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(PathList, EmptyPartsAndRepetitionsAreLeftOut) {
    EXPECT_EQ(parsePathList("MPI_LIBS", "/a::/b:/a:"), (std::vector<std::string>{"/a", "/b"}));
    EXPECT_TRUE(parsePathList("MPI_LIBS", "").empty());
    EXPECT_TRUE(parsePathList("MPI_LIBS", ":::").empty());
}

TEST(PathList, RelativePathIsRefusedWithTheVariablesName) {
    try {
        parsePathList("MPI_LIBS", "/a:lib/b\n");
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "MPI_LIBS contains a path that is not absolute: lib/b\\x0a");
    }
}

TEST(HostLibrary, VersionIsTheMostCompleteAmongFileAndLinks) {
    const Root root;
    root.library("lib/libmpi.so.12.1.8", "libmpi.so.12");
    root.link("lib/libmpi.so.12", "libmpi.so.12.1.8");
    const auto library = readHostLibrary(root / "lib/libmpi.so.12");
    EXPECT_EQ(library.path, root / "lib/libmpi.so.12");
    EXPECT_EQ(library.fileName(), "libmpi.so.12");
    EXPECT_EQ(library.name.version, (std::vector<std::uint32_t>{12, 1, 8}));
    EXPECT_EQ(library.soname(), "libmpi.so.12");
}

TEST(HostLibrary, VersionComesFromTheSonameWhereTheFileNameHasNone) {
    const Root root;
    root.library("libmpi.so", "libmpi.so.12");
    EXPECT_EQ(readHostLibrary(root / "libmpi.so").name.version, (std::vector<std::uint32_t>{12}));
    root.library("libother.so", "libmpi.so.12");
    EXPECT_TRUE(readHostLibrary(root / "libother.so").name.version.empty());
}

TEST(HostLibrary, WithoutSonameItIsAskedForByItsFileName) {
    const Root root;
    root.library("plugin-1.2.so", "");
    const auto library = readHostLibrary(root / "plugin-1.2.so");
    EXPECT_EQ(library.soname(), "plugin-1.2.so");
    root.library("plugin", "");
    EXPECT_EQ(readHostLibrary(root / "plugin").name.linkerName, "plugin");
}

TEST(HostLibrary, WhatIsNoSharedLibraryIsRefused) {
    const Root root;
    root.write("script.so", "#!/bin/sh\n");
    EXPECT_EQ(errorOf(root / "script.so"),
              "The host library " + (root / "script.so") + " is not a shared library");
    root.write("damaged.so",
               "\x7f"
               "ELF\x02\x01\x01");
    EXPECT_NE(errorOf(root / "damaged.so"), "no error");
    EXPECT_NE(errorOf(root / "missing.so"), "no error");
    EXPECT_NE(errorOf(root.path()), "no error");
}

TEST(HostLibrary, FifoIsRefusedWithoutWaiting) {
    const Root root;
    checkErrno(::mkfifo((root / "libmpi.so.12").c_str(), 0600), "mkfifo");
    EXPECT_NE(errorOf(root / "libmpi.so.12"), "no error");
}

ElfFile elfOf(std::uint16_t machine, bool is64Bit, bool isBigEndian = false) {
    ElfFile elf;
    elf.machine = machine;
    elf.is64Bit = is64Bit;
    elf.isBigEndian = isBigEndian;
    return elf;
}

TEST(SameMachine, NeedsProcessorWordSizeAndByteOrder) {
    const auto x86 = elfOf(machine::x86_64, true);
    auto executable = x86;
    executable.type = 2;
    EXPECT_TRUE(isSameMachine(x86, executable));
    EXPECT_FALSE(isSameMachine(x86, elfOf(machine::aarch64, true)));
    EXPECT_FALSE(isSameMachine(x86, elfOf(machine::x86_64, false))) << "x32";
    EXPECT_FALSE(isSameMachine(x86, elfOf(machine::x86_64, true, true)));
}

}  // namespace
}  // namespace sarus::hooks::host_library_test
