#include "hooks/pc_injection/plan.hpp"

#include <gmock/gmock.h>

namespace sarus::hooks::pc_injection::plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

HostLibrary hostLibrary(const std::string& path) {
    return {path, *parseLibraryName(path), {}};
}

ContainerLibrary containerLibrary(const std::string& path) {
    return {.path = path, .name = *parseLibraryName(path)};
}

InjectionPlan plan(const std::string& host, const std::vector<std::string>& container) {
    Settings settings;
    settings.primary = {hostLibrary(host)};
    std::vector<ContainerLibrary> libraries;
    for (const auto& path : container) {
        libraries.push_back(containerLibrary(path));
    }
    return planInjection(settings, libraries);
}

TEST(PcInjectionPlan, ReplacesEveryLibraryOfTheSameMajorVersion) {
    const auto made = plan("/h/liba.so.1.2", {"/lib/liba.so.1.1", "/opt/liba.so.1", "/lib/libb.so.1"});
    ASSERT_EQ(made.injections.size(), 1U);
    EXPECT_THAT(made.injections[0].destinations, ElementsAre("/lib/liba.so.1.1", "/opt/liba.so.1"));
    EXPECT_THAT(made.warnings, IsEmpty());
}

TEST(PcInjectionPlan, AddsTheLibraryBesideAnotherMajorVersion) {
    const auto made = plan("/h/liba.so.1.2", {"/lib/liba.so.2"});
    EXPECT_THAT(made.injections[0].destinations, ElementsAre("/run/pc-injection/liba.so.1.2"));
    EXPECT_THAT(made.warnings, ElementsAre(HasSubstr("/lib/liba.so.2 (liba.so.2) is not ABI compatible")));
    EXPECT_THAT(made.problems, IsEmpty());
}

TEST(PcInjectionPlan, OlderMinorVersionOfTheHostIsAWarning) {
    const auto made = plan("/h/liba.so.1.2", {"/lib/liba.so.1.3"});
    EXPECT_THAT(made.injections[0].destinations, ElementsAre("/lib/liba.so.1.3"));
    EXPECT_THAT(made.warnings, ElementsAre(HasSubstr("Partial ABI compatibility detected")));
}

TEST(PcInjectionPlan, MissingNumbersCountAsZero) {
    const auto made = plan("/h/liba.so.1", {"/lib/liba.so.1.0.0"});
    EXPECT_THAT(made.injections[0].destinations, ElementsAre("/lib/liba.so.1.0.0"));
    EXPECT_THAT(made.warnings, IsEmpty());
}

TEST(PcInjectionPlan, LibrariesWithoutAnyVersionAreAProblem) {
    EXPECT_THAT(plan("/h/liba.so.1", {"/lib/liba.so"}).problems, ElementsAre(HasSubstr("no version number")));
    EXPECT_THAT(plan("/h/liba.so.1", {"/lib/liba.so", "/lib/liba.so.1"}).problems, IsEmpty());
}

TEST(PcInjectionPlan, UnversionedLibraryReplacesAllOfItsName) {
    EXPECT_THAT(plan("/h/liba.so", {"/lib/liba.so.1", "/lib/liba.so"}).injections[0].destinations,
                ElementsAre("/lib/liba.so.1", "/lib/liba.so"));
    EXPECT_THAT(plan("/h/liba.so", {}).injections[0].destinations, ElementsAre("/run/pc-injection/liba.so"));
}

TEST(PcInjectionPlan, DependenciesAreAlwaysAdded) {
    Settings settings;
    settings.dependency = {hostLibrary("/h/liba.so.1.2")};
    settings.dependency[0].elf.soname = "liba.so.1";
    EXPECT_THAT(planInjection(settings, {containerLibrary("/lib/liba.so.1")}).injections[0].destinations,
                ElementsAre("/run/pc-injection/liba.so.1.2", "/run/pc-injection/liba.so.1"));
}

TEST(PcInjectionPlan, LibraryPathHasNoEmptyAndRepeatedEntries) {
    EXPECT_EQ(libraryPathWith(""), "/run/pc-injection");
    EXPECT_EQ(libraryPathWith("/a::/run/pc-injection:/a:/b"), "/run/pc-injection:/a:/b");
}

}  // namespace
}  // namespace sarus::hooks::pc_injection::plan_test
