#include "hooks/glibc/replacement_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::hooks::glibc::replacement_plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Strings = std::vector<std::string>;

ElfFile libcOf(Strings versions, std::string soname = "libc.so.6") {
    ElfFile elf;
    elf.soname = std::move(soname);
    elf.versionDefinitions = std::move(versions);
    return elf;
}

HostLibrary hostLibrary(const std::string& path, Strings versions = {}) {
    return {path, {}, libcOf(std::move(versions), path.substr(path.rfind('/') + 1))};
}

const std::vector<ContainerFile> filesOfContainer{{"/lib/x86_64-linux-gnu/libc.so.6", "libc.so.6"},
                                                  {"/opt/libc.so.6", "libc.so.6"},
                                                  {"/lib/libm.so.6", "libm.so.6"}};

ReplacementRequest upgrade() {
    return {.hostLibraries = {hostLibrary("/lib64/libc.so.6", {"GLIBC_2.2.5", "GLIBC_2.36", "GLIBC_PRIVATE"}),
                              hostLibrary("/lib64/libm.so.6")},
            .containerCLibrary = libcOf({"GLIBC_2.2.5", "GLIBC_2.31"}),
            .hostRelease = {},
            .containerRelease = {},
            .findFiles = [] { return filesOfContainer; }};
}

TEST(GlibcVersion, isTheNewestDefinedOneByNumber) {
    EXPECT_EQ(
        versionOf(libcOf({"GLIBC_2.9", "GLIBC_2.31", "GLIBC_PRIVATE", "GLIBC_ABI_DT_RELR", "GLIBC_2.2.5"}))
            ->text(),
        "2.31");
    EXPECT_FALSE(versionOf(libcOf({"GLIBC_PRIVATE"})));
    EXPECT_FALSE(versionOf(libcOf({})));
}

TEST(GlibcRelease, isThatOfTheBanner) {
    using namespace std::string_view_literals;
    EXPECT_EQ(
        releaseIn(
            "\0GNU C Library\0GNU C Library (Debian GLIBC 2.31-13) stable release version 2.31.\nCopyright\0"sv)
            ->text(),
        "2.31");
    EXPECT_EQ(releaseIn("GNU C Library (GNU libc) development release version 2.38.9000.\n")->text(),
              "2.38.9000");
    EXPECT_FALSE(releaseIn("GNU C Library\0release version 2.31"sv));
    EXPECT_FALSE(releaseIn("GNU C Library (x) stable release version ."));
    EXPECT_FALSE(releaseIn("GNU C Library (x) stable release version 2..31"));
    EXPECT_FALSE(releaseIn("GNU C Library (x) stable release version 2.3")) << "the part ends here";
    EXPECT_FALSE(releaseIn("GNU C Library"));
    EXPECT_FALSE(releaseIn(""));
}

TEST(GlibcVersion, comparesNumbersNotDigits) {
    EXPECT_LT(versionOf(libcOf({"GLIBC_2.9"})), versionOf(libcOf({"GLIBC_2.10"})));
}

TEST(CLibraryName, isThatOfLibcOnly) {
    EXPECT_TRUE(isCLibraryName("libc.so.6"));
    EXPECT_TRUE(isCLibraryName("libc-2.31.so"));
    EXPECT_FALSE(isCLibraryName("libcrypt.so.1"));
    EXPECT_FALSE(isCLibraryName("libc.so"));
    EXPECT_FALSE(isCLibraryName("libc-client.so"));
}

TEST(ReplacementPlan, replacesAllFilesOfTheSoname) {
    const auto plan = planReplacement(upgrade());
    ASSERT_EQ(plan.replacements.size(), 2U);
    EXPECT_THAT(plan.replacements[0].destinations,
                ElementsAre("/lib/x86_64-linux-gnu/libc.so.6", "/opt/libc.so.6"));
    EXPECT_THAT(plan.replacements[1].destinations, ElementsAre("/lib/libm.so.6"));
    EXPECT_THAT(plan.announcement, ::testing::AllOf(HasSubstr("2.31"), HasSubstr("2.36")));
    EXPECT_THAT(plan.warnings, IsEmpty());
}

TEST(ReplacementPlan, doesNothingUnlessTheContainersIsOlder) {
    for (const auto* version : {"GLIBC_2.36", "GLIBC_2.41", "GLIBC_3.0"}) {
        auto request = upgrade();
        request.containerCLibrary = libcOf({version});
        request.findFiles = [] {
            ADD_FAILURE() << "reads the container for nothing";
            return filesOfContainer;
        };
        const auto plan = planReplacement(request);
        EXPECT_THAT(plan.replacements, IsEmpty()) << version;
        EXPECT_THAT(plan.reason, HasSubstr("not older")) << version;
    }
}

TEST(ReplacementPlan, comparesReleasesWhereBothAreKnown) {
    auto request = upgrade();  // by their symbols, 2.36 and 2.31
    request.hostRelease = Version{{2, 37}};
    EXPECT_THAT(planReplacement(request).announcement,
                ::testing::AllOf(HasSubstr("2.31"), HasSubstr("2.36")));
    request.containerRelease = Version{{2, 32}};
    EXPECT_THAT(planReplacement(request).announcement,
                ::testing::AllOf(HasSubstr("2.32"), HasSubstr("2.37")));
    request.containerRelease = Version{{2, 37}};
    EXPECT_THAT(planReplacement(request).replacements, IsEmpty());
}

TEST(ReplacementPlan, doesNothingForContainersWithoutGlibc) {
    auto request = upgrade();
    request.containerCLibrary.reset();
    EXPECT_THAT(planReplacement(request).replacements, IsEmpty());
    request.containerCLibrary = libcOf({});
    EXPECT_THAT(planReplacement(request).replacements, IsEmpty());
}

TEST(ReplacementPlan, refusesAnotherSoname) {
    auto request = upgrade();
    request.containerCLibrary->soname = "libc.so.7";
    EXPECT_THROW(planReplacement(request), Error);
}

TEST(ReplacementPlan, needsTheCLibraryInTheList) {
    auto request = upgrade();
    request.hostLibraries.erase(request.hostLibraries.begin());
    EXPECT_THROW(planReplacement(request), Error);
}

TEST(ReplacementPlan, addsWhatTheContainerLacksWithOneWarning) {
    auto request = upgrade();
    request.hostLibraries.push_back(hostLibrary("/lib64/libmvec.so.1"));
    auto plan = planReplacement(request);
    EXPECT_TRUE(plan.replacements.at(2).isAdded);
    EXPECT_THAT(plan.replacements.at(2).destinations, ElementsAre("/lib64/libmvec.so.1"));
    EXPECT_THAT(plan.warnings,
                ElementsAre("The container has no libmvec.so.1: the host's is added in /lib64"));
    request.hostLibraries.push_back(hostLibrary("/lib64/libanl.so.1"));
    request.hostLibraries.push_back(hostLibrary("/lib64/libutil.so.1"));
    plan = planReplacement(request);
    EXPECT_THAT(plan.warnings,
                ElementsAre("The container has no libmvec.so.1 and 2 other libraries of GLIBC_LIBS: the "
                            "host's are added in /lib64"));
}

TEST(ReplacementPlan, warnsAboutPartsThatRemainOfTheOldRelease) {
    auto request = upgrade();
    request.findFiles = [] {
        auto files = filesOfContainer;
        files.push_back({"/lib/libpthread.so.0", "libpthread.so.0"});
        return files;
    };
    EXPECT_THAT(planReplacement(request).warnings, ElementsAre(HasSubstr("libpthread.so.0")));
}

}  // namespace
}  // namespace sarus::hooks::glibc::replacement_plan_test
