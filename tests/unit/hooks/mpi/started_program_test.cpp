#include "hooks/mpi/started_program.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/text.hpp"
#include "hooks/kit/linker_cache/linker_cache.hpp"
#include "hooks/kit/root_fixture.hpp"

namespace sarus::hooks::mpi::started_program_test {
namespace {

using Strings = std::vector<std::string>;

const ElfFile like = [] {
    ElfFile elf;
    elf.is64Bit = true;
    elf.machine = machine::x86_64;
    return elf;
}();

class StartedProgramTest : public ::testing::Test {
protected:
    StartedProgramTest() { root.glibc(); }

    void file(const std::string& path, const Strings& needed, const std::string& rpath = {},
              const std::string& runpath = {}) const {
        test::ElfBuilder builder;
        builder.needed = needed;
        builder.rpath = rpath;
        builder.runpath = runpath;
        root.write(path, builder.build());
    }
    StartedProgram read(const Strings& arguments, const std::string& libraryPath = {}) const {
        const LibrarySearch search(root.fd(), libraryPath);
        return readStartedProgram({.arguments = arguments,
                                   .workingDirectory = "/work",
                                   .path = "/bin:/app",
                                   .libraryPath = libraryPath},
                                  root.fd(), search, like, [](std::string_view name) {
                                      return name.starts_with("libmpi_abi") ? LibraryUse::otherMpi
                                             : name.starts_with("libmpi")   ? LibraryUse::counterpart
                                                                            : LibraryUse::none;
                                  });
    }
    /// Where the program's MPI comes from.
    std::string found(const std::string& libraryPath = {}) const {
        const auto program = read({"/app/run"}, libraryPath);
        return program.libraries.empty() ? "nothing" : program.libraries[0].path;
    }

    test::Root root;
};

TEST_F(StartedProgramTest, CommandIsFoundAsTheRuntimeFindsIt) {
    file("app/run", {});
    file("work/own", {});
    root.link("bin/link", "../app/run");
    root.write("bin/run", "");
    checkErrno(::chmod((root / "bin/run").c_str(), 0644), "chmod");
    EXPECT_EQ(read({"run"}).path, "/app/run");
    EXPECT_EQ(read({"link"}).path, "/app/run");
    EXPECT_EQ(read({"./own"}).path, "/work/own");
    for (const Strings& unknown :
         {Strings{}, Strings{""}, Strings{"absent"}, Strings{"/app"}, Strings{"/bin/run"}}) {
        EXPECT_EQ(read(unknown).path, "");
    }
}

TEST_F(StartedProgramTest, AnotherMpiMayBeBuiltOnACounterpart) {
    file("app/run", {"libmpi_abi.so.1"});
    file("usr/lib/libmpi_abi.so.1", {"libmpi.so.12"});
    file("usr/lib/libmpi.so.12", {"libmpi_cxx.so.1"});
    root.library("usr/lib/libmpi_cxx.so.1", "libmpi_cxx.so.1");
    const auto program = read({"/app/run"});
    ASSERT_EQ(program.libraries.size(), 2U);
    EXPECT_EQ(program.libraries[1].path, "/usr/lib/libmpi.so.12");
}

TEST_F(StartedProgramTest, ScriptsLeadToTheirInterpreterOnce) {
    file("app/run", {});
    root.write("bin/script", "#! /app/run -x\necho\n");
    root.write("bin/second", "#!/bin/script\n");
    EXPECT_EQ(read({"script"}).path, "/app/run");
    EXPECT_EQ(read({"second"}).path, "");
}

TEST_F(StartedProgramTest, DirectoriesCountInTheOrderOfTheDynamicLinker) {
    for (const auto* directory : {"rpath", "environment", "runpath", "cached", "usr/lib"}) {
        root.library(cat(directory, "/libmpi.so.12"), "libmpi.so.12");
    }
    root.write("etc/ld.so.conf", "/cached\n");
    updateLinkerCache(root.fd());
    file("app/run", {"libmpi.so.12"}, "/rpath");
    EXPECT_EQ(found("/environment"), "/rpath/libmpi.so.12");
    file("app/run", {"libmpi.so.12"}, "/rpath", "/runpath");
    EXPECT_EQ(found("/environment"), "/environment/libmpi.so.12");
    EXPECT_EQ(found(), "/runpath/libmpi.so.12");
    file("app/run", {"libmpi.so.12"});
    EXPECT_EQ(found(), "/cached/libmpi.so.12");
    root.write("etc/ld.so.cache", "");
    root.write("etc/ld.so.conf", "");
    EXPECT_EQ(found(), "/usr/lib/libmpi.so.12");
}

TEST_F(StartedProgramTest, OnlyRpathsOfThoseWhoAskedAreInherited) {
    root.library("own/libmpi.so.12", "libmpi.so.12");
    file("app/libsolver.so", {"libmpi.so.12"});
    file("app/run", {"libsolver.so"}, "/app:/own");
    EXPECT_EQ(found(), "/own/libmpi.so.12");
    EXPECT_EQ(read({"run"}).directories, (Strings{"/app", "/own"}));
    file("app/run", {"libsolver.so"}, {}, "/app:/own");
    EXPECT_EQ(found(), "nothing");
    EXPECT_EQ(read({"run"}).directories, Strings{});
}

TEST_F(StartedProgramTest, OriginIsTheDirectoryOfTheFileItself) {
    root.library("spack/mpich/lib/libmpi.so.12", "libmpi.so.12");
    file("spack/solver/lib/libsolver.so", {"libmpi.so.12"}, {}, "${ORIGIN}/../../mpich/lib");
    file("spack/app/bin/run", {"libsolver.so"}, {}, "/nowhere:$LIB:$ORIGIN/../../solver/lib");
    root.link("app/run", "/view/run");
    root.link("view", "spack/app/bin");
    EXPECT_EQ(found(), "/spack/mpich/lib/libmpi.so.12");
}

TEST_F(StartedProgramTest, LibraryMayBeNamedByItsPath) {
    root.library("own/libmpi.so.12", "");
    file("app/run", {"/own/libmpi.so.12"});
    EXPECT_EQ(found(), "/own/libmpi.so.12");
}

TEST_F(StartedProgramTest, OtherMachinesAndStaticProgramsAreUnknown) {
    root.library("app/run", "", machine::aarch64);
    EXPECT_EQ(read({"run"}).path, "");
    root.write("app/run", "no program");
    EXPECT_EQ(read({"run"}).path, "");
}

TEST_F(StartedProgramTest, UnreasonableNeedsMakeTheProgramUnknown) {
    std::string directories;
    Strings needed;
    for (int i = 0; i < 300; ++i) {
        root.write(cat("d", i, "/x"), "");
        directories += cat(":/d", i);
        needed.push_back(cat("lib", i, ".so"));
    }
    file("app/run", needed, directories);
    EXPECT_EQ(read({"run"}).path, "");
}

}  // namespace
}  // namespace sarus::hooks::mpi::started_program_test
