#include "hooks/kit/injection/version_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hooks/mpi/explain.hpp"
#include "hooks/mpi/libraries.hpp"

namespace sarus::hooks::mpi::version_check_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Injection injectionOf(const std::string& path, std::vector<VersionNeed> needs,
                      std::vector<std::string> needed = {}) {
    Injection injection{.library = hostLibrary(path), .destinations = {"/usr/lib/x"}, .links = {}};
    injection.library.elf.versionNeeds = std::move(needs);
    injection.library.elf.needed = std::move(needed);
    return injection;
}

std::optional<std::vector<std::string>> oldGlibc(const HostLibrary&, const std::string& name) {
    return name == "libc.so.6" ? std::optional(std::vector<std::string>{"GLIBC_2.9", "GLIBC_2.31"})
                               : std::nullopt;
}

TEST(VersionCheck, isContentWithVersionsOfTheContainer) {
    EXPECT_THAT(
        findMissingNeeds({injectionOf("/h/libmpi.so.12", {{"libc.so.6", {"GLIBC_2.9"}}}, {"libc.so.6"})},
                         oldGlibc),
        IsEmpty());
}

TEST(VersionCheck, namesMissingVersionsOnceWithAllWhoNeedThem) {
    const auto missing =
        findMissingNeeds({injectionOf("/h/libmpi.so.12", {{"libc.so.6", {"GLIBC_2.31", "GLIBC_2.34"}}}),
                          injectionOf("/h/libdep.so.1", {{"libc.so.6", {"GLIBC_2.34"}}})},
                         oldGlibc);
    ASSERT_EQ(missing.size(), 1U);
    EXPECT_TRUE(isFatal(missing[0]));
    EXPECT_EQ(describe(missing[0]),
              "GLIBC_2.34 of libc.so.6 (which goes up to GLIBC_2.31), needed by libmpi.so.12, libdep.so.1");
}

TEST(VersionCheck, acceptsVersionsOfOtherInjectedLibraries) {
    auto provider = injectionOf("/h/libdep.so.1", {});
    provider.library.elf.versionDefinitions = {"DEP_1"};
    const auto user = [](const char* version) {
        return injectionOf("/h/libmpi.so.12", {{"libdep.so.1", {version}}});
    };
    EXPECT_THAT(findMissingNeeds({user("DEP_1"), provider}, oldGlibc), IsEmpty());
    EXPECT_EQ(findMissingNeeds({user("DEP_2"), provider}, oldGlibc).size(), 1U);
}

TEST(VersionCheck, aLibraryBesideTheContainersOwnProvidesNothing) {
    auto beside = injectionOf("/h/libc.so.6", {});
    beside.method = Method::add;
    beside.library.elf.versionDefinitions = {"GLIBC_2.34"};
    const auto user = injectionOf("/h/libmpi.so.12", {{"libc.so.6", {"GLIBC_2.34"}}});
    EXPECT_EQ(findMissingNeeds({user, beside}, oldGlibc).size(), 1U);
    beside.links = {"libc.so.6"};
    EXPECT_THAT(findMissingNeeds({user, beside}, oldGlibc), IsEmpty());
}

TEST(VersionCheck, aMissingLibraryIsFatalOnlyIfVersionsAreNeeded) {
    const auto plain = findMissingNeeds({injectionOf("/h/libmpi.so.12", {}, {"libpmi.so.0"})}, oldGlibc);
    ASSERT_EQ(plain.size(), 1U);
    EXPECT_FALSE(isFatal(plain[0]));
    EXPECT_THAT(describe(plain[0]), HasSubstr("libpmi.so.0 (there is no such library)"));
    const auto versioned =
        findMissingNeeds({injectionOf("/h/libmpi.so.12", {{"libgfortran.so.5", {"GFORTRAN_8"}}})}, oldGlibc);
    ASSERT_EQ(versioned.size(), 1U);
    EXPECT_TRUE(isFatal(versioned[0]));
}

TEST(VersionCheck, providersWithoutDefinitionsSatisfyEverything) {
    const auto unversioned = [](const HostLibrary&, const std::string&) {
        return std::optional(std::vector<std::string>{});
    };
    EXPECT_THAT(findMissingNeeds({injectionOf("/h/libmpi.so.12", {{"libx.so.1", {"X_1"}}})}, unversioned),
                IsEmpty());
}

TEST(Explain, isOneJsonObjectAndAnAlignedTable) {
    Survey survey;
    survey.plan.injections.push_back(injectionOf("/h/libmpi.so.12", {}));
    survey.plan.problems.push_back("a \"problem\"");
    Configuration configuration;
    configuration.bindMounts = {"/dev/kgni0"};
    EXPECT_THAT(explainAsJson(survey, configuration), HasSubstr("\"problems\":[\"a \\\"problem\\\"\"]}\n"));
    EXPECT_THAT(explainAsTable(survey, configuration),
                HasSubstr("mpi    replace  /h/libmpi.so.12  /usr/lib/x\n"));
    EXPECT_THAT(explainAsTable(survey, configuration), HasSubstr("problem: a \"problem\"\n"));
}

}  // namespace
}  // namespace sarus::hooks::mpi::version_check_test
