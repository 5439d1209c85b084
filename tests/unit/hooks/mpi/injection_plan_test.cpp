#include "hooks/mpi/injection_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.hpp"
#include "hooks/mpi/libraries.hpp"

namespace sarus::hooks::mpi::injection_plan_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using Strings = std::vector<std::string>;

InjectionPlan planFor(const Strings& mpi, const Strings& container, AbiPolicy policy = AbiPolicy::major,
                      const Strings& dependencies = {}) {
    InjectionRequest request{
        .mpiLibraries = {}, .dependencies = {}, .containerLibraries = {}, .policy = policy};
    for (const auto& path : mpi) {
        request.mpiLibraries.push_back(hostLibrary(path));
    }
    for (const auto& path : dependencies) {
        request.dependencies.push_back(hostLibrary(path));
    }
    for (const auto& path : container) {
        request.containerLibraries.push_back(containerLibrary(path));
    }
    return planInjection(request);
}

TEST(InjectionPlan, mountsTheHostLibraryOverTheContainersPath) {
    const auto plan = planFor({"/host/libmpi.so.12.2.0"}, {"/opt/mpi/libmpi.so.12.1.8"});
    ASSERT_EQ(plan.injections.size(), 1U);
    EXPECT_EQ(plan.injections[0].method, Method::replace);
    EXPECT_EQ(plan.injections[0].destinations, Strings{"/opt/mpi/libmpi.so.12.1.8"});
    EXPECT_THAT(plan.problems, IsEmpty());
    EXPECT_THAT(plan.warnings, IsEmpty());
}

TEST(InjectionPlan, linksAllLowerVersionNumbers) {
    const auto plan = planFor({"/host/libmpi.so.12.2.0"}, {"/lib/libmpi.so.12.1.8"});
    EXPECT_THAT(plan.injections.at(0).links,
                UnorderedElementsAre("libmpi.so", "libmpi.so.12", "libmpi.so.12.2", "libmpi.so.12.2.0"));
}

TEST(InjectionPlan, replacesEveryCopyInTheContainer) {
    const auto plan = planFor({"/host/libmpi.so.12.2"}, {"/a/libmpi.so.12.1", "/b/libmpi.so.12.0"});
    EXPECT_THAT(plan.injections.at(0).destinations, ElementsAre("/a/libmpi.so.12.1", "/b/libmpi.so.12.0"));
}

TEST(InjectionPlan, refusesContainersWithoutMpi) {
    EXPECT_THAT(planFor({"/host/libmpi.so.12"}, {}).problems,
                ElementsAre("No MPI libraries found in the container"));
    EXPECT_THAT(planFor({"/host/libmpi.so.12"}, {"/lib/libfabric.so.1"}).problems, Not(IsEmpty()));
}

TEST(InjectionPlan, leavesOutMpiLibrariesWhichTheContainerLacks) {
    const auto plan = planFor({"/host/libmpi.so.12.1", "/host/libmpicxx.so.12.1"}, {"/lib/libmpi.so.12.1"});
    EXPECT_EQ(plan.injections.size(), 1U);
    EXPECT_THAT(
        plan.notes,
        ElementsAre("The host's /host/libmpicxx.so.12.1 is left out: the container has no such library"));
    EXPECT_THAT(plan.problems, IsEmpty());
}

TEST(InjectionPlan, addsMpiLibrariesWhichInjectedOnesNeed) {
    InjectionRequest request{
        .mpiLibraries = {hostLibrary("/h/libmpi.so.40.3"), hostLibrary("/h/libopen-pal.so.80.0"),
                         hostLibrary("/h/libopen-rte.so.80.0"), hostLibrary("/h/libmpi_usempi.so.40.1")},
        .dependencies = {},
        .containerLibraries = {containerLibrary("/c/libmpi.so.40.1")}};
    request.mpiLibraries[0].elf.needed = {"libopen-rte.so.80"};
    request.mpiLibraries[2].elf.needed = {"libopen-pal.so.80"};
    const auto plan = planInjection(request);
    ASSERT_EQ(plan.injections.size(), 3U);
    EXPECT_EQ(plan.injections[1].destinations, Strings{"/usr/lib/libopen-rte.so.80.0"});
    EXPECT_EQ(plan.injections[1].method, Method::add);
    EXPECT_EQ(plan.injections[2].destinations, Strings{"/usr/lib/libopen-pal.so.80.0"});
    EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("libmpi_usempi")));
}

struct AbiCase {
    const char* host;
    const char* container;
    AbiPolicy policy;
    bool isProblem;
    bool isWarning;
};

class Abi : public ::testing::TestWithParam<AbiCase> {};

TEST_P(Abi, isDecidedByThePolicy) {
    const auto& c = GetParam();
    const auto plan = planFor({c.host}, {c.container}, c.policy);
    EXPECT_EQ(!plan.problems.empty(), c.isProblem);
    EXPECT_EQ(!plan.warnings.empty(), c.isWarning);
    if (c.isProblem) {
        EXPECT_THAT(plan.problems[0],
                    ::testing::ContainsRegex("not[ a-z]* ABI compatible with container's MPI library"));
    }
    if (c.isWarning) {
        EXPECT_THAT(plan.warnings[0], HasSubstr("Partial ABI compatibility detected"));
    }
}

INSTANTIATE_TEST_SUITE_P(
    Policies, Abi,
    ::testing::Values(AbiCase{"/h/libmpi.so.12.2", "/c/libmpi.so.12.1", AbiPolicy::major, false, false},
                      AbiCase{"/h/libmpi.so.12.0", "/c/libmpi.so.12.1", AbiPolicy::major, false, true},
                      AbiCase{"/h/libmpi.so.12.0", "/c/libmpi.so.12.1", AbiPolicy::full, false, true},
                      AbiCase{"/h/libmpi.so.12.2", "/c/libmpi.so.12.1", AbiPolicy::full, false, false},
                      AbiCase{"/h/libmpi.so.12.1.9", "/c/libmpi.so.12.1.2", AbiPolicy::strict, false, false},
                      AbiCase{"/h/libmpi.so.12.2", "/c/libmpi.so.12.1", AbiPolicy::strict, true, false},
                      AbiCase{"/h/libmpi.so.12", "/c/libmpi.so.12.0.0", AbiPolicy::major, false, false},
                      AbiCase{"/h/libmpi.so.12", "/c/libmpi.so.12.0.0", AbiPolicy::full, false, false},
                      AbiCase{"/h/libmpi.so.12", "/c/libmpi.so.12.0.0", AbiPolicy::strict, false, false},
                      AbiCase{"/h/libmpi.so.12.0.0", "/c/libmpi.so.12", AbiPolicy::strict, false, false},
                      AbiCase{"/h/libmpi.so.12", "/c/libmpi.so.12.1", AbiPolicy::strict, true, false},
                      AbiCase{"/h/libmpi.so.12.1", "/c/libmpi.so.40.1", AbiPolicy::major, true, false},
                      AbiCase{"/h/libmpi.so.12.1", "/c/libmpi.so.40.1", AbiPolicy::full, true, false}));

TEST(InjectionPlan, warnsOfAnotherMpiBesideTheOneThatIsReplaced) {
    const auto plan = planFor({"/h/libmpi.so.12.1"}, {"/a/libmpi.so.12.1", "/b/libmpi.so.40.1"});
    EXPECT_THAT(plan.problems, IsEmpty());
    EXPECT_EQ(plan.injections.at(0).destinations, Strings{"/a/libmpi.so.12.1"});
    EXPECT_THAT(plan.warnings, ElementsAre(AllOf(HasSubstr("Another MPI"), HasSubstr("/b/libmpi.so.40.1"))));
}

TEST(InjectionPlan, warnsOfAnotherMpiOfAnotherName) {
    const auto plan = planFor({"/h/libmpi.so.40.3"}, {"/c/libmpi.so.40.3", "/c/libmpich.so.12.1"});
    EXPECT_THAT(plan.problems, IsEmpty());
    EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("/c/libmpich.so.12.1")));
}

TEST(InjectionPlan, refusesIfTheProgramUsesTheOtherMpi) {
    InjectionRequest request{
        .mpiLibraries = {hostLibrary("/h/libmpi.so.12.1")},
        .dependencies = {},
        .containerLibraries = {containerLibrary("/a/libmpi.so.12.1"), containerLibrary("/b/libmpi.so.40.1")}};
    request.containerLibraries[1].isUsed = true;
    EXPECT_THAT(planInjection(request).problems, ElementsAre(HasSubstr("/b/libmpi.so.40.1")));
}

TEST(InjectionPlan, strictPolicyRefusesEveryOtherMinorNumber) {
    EXPECT_THAT(planFor({"/h/libmpi.so.12.1"}, {"/a/libmpi.so.12.1", "/b/libmpi.so.12.2"}, AbiPolicy::strict)
                    .problems,
                ElementsAre(HasSubstr("not strictly ABI compatible")));
}

TEST(InjectionPlan, olderHostLibrariesGiveOneWarning) {
    const auto plan = planFor({"/h/libmpi.so.12.1", "/h/libmpicxx.so.12.1"},
                              {"/c/libmpi.so.12.2", "/d/libmpi.so.12.3", "/c/libmpicxx.so.12.2"});
    EXPECT_THAT(plan.warnings,
                ElementsAre(AllOf(HasSubstr("Partial ABI compatibility detected"),
                                  HasSubstr("/d/libmpi.so.12.3"), HasSubstr("/c/libmpicxx.so.12.2"))));
}

TEST(InjectionPlan, refusesLibrariesWithoutMajorNumber) {
    EXPECT_THAT(planFor({"/h/libmpi.so.12.1"}, {"/a/libmpi.so"}).problems, Not(IsEmpty()));
}

TEST(InjectionPlan, standsInForTheNamesOfOtherDistributions) {
    const auto plan = planFor({"/h/libmpi.so.12.2.0", "/h/libmpifort.so.12.2.0"},
                              {"/usr/lib/libmpich.so.12.1.8", "/usr/lib/libmpichfort.so.12.1.8"});
    EXPECT_THAT(plan.problems, IsEmpty());
    EXPECT_EQ(plan.injections.at(0).destinations, Strings{"/usr/lib/libmpich.so.12.1.8"});
    EXPECT_THAT(plan.injections.at(0).links, ::testing::IsSupersetOf({"libmpi.so.12", "libmpich.so.12"}));
    EXPECT_EQ(plan.injections.at(1).destinations, Strings{"/usr/lib/libmpichfort.so.12.1.8"});
    EXPECT_EQ(planFor({"/h/libmpi_gnu_112.so.12.0"}, {"/c/libmpi.so.12.0"}).injections.at(0).method,
              Method::replace);
}

TEST(InjectionPlan, leavesTheLibrariesOfOpenMpiAlone) {
    const auto plan =
        planFor({"/h/libmpi.so.12.1"}, {"/c/libmpi.so.12.1", "/c/libmpi_cxx.so.40", "/c/libmpi_mpifh.so.40"});
    EXPECT_THAT(plan.problems, IsEmpty());
    EXPECT_EQ(plan.injections.at(0).destinations, Strings{"/c/libmpi.so.12.1"});
}

TEST(InjectionPlan, replacesTheStandardAbiBesideAnIncompatibleMpi) {
    const auto plan =
        planFor({"/h/libmpi.so.12.1", "/h/libmpi_abi.so.0.0"}, {"/c/libmpi.so.40.1", "/c/libmpi_abi.so.0.0"});
    EXPECT_THAT(plan.problems, IsEmpty());
    EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("ABI compatible")));
    ASSERT_EQ(plan.injections.size(), 1U);
    EXPECT_EQ(plan.injections[0].destinations, Strings{"/c/libmpi_abi.so.0.0"});
}

/// What comes of an image with MPICH's ABI and the standard one, whose program uses the libraries `used`.
InjectionPlan planForBothAbis(const std::string& host, const Strings& used) {
    InjectionRequest request{.mpiLibraries = {hostLibrary(host)},
                             .dependencies = {},
                             .containerLibraries = {containerLibrary("/c/libmpi.so.12.1"),
                                                    containerLibrary("/c/libmpi_abi.so.1.0")},
                             .program = "/bin/app"};
    for (auto& library : request.containerLibraries) {
        library.isUsed = std::find(used.begin(), used.end(), library.path) != used.end();
    }
    return planInjection(request);
}

TEST(InjectionPlan, refusesIfTheProgramUsesAnMpiOfAnotherAbi) {
    EXPECT_THAT(planForBothAbis("/h/libmpi.so.12.1", {"/c/libmpi_abi.so.1.0"}).problems,
                ElementsAre("Host's MPI library /h/libmpi.so.12.1 is not ABI compatible with container's MPI "
                            "library /c/libmpi_abi.so.1.0, which /bin/app uses"));
    EXPECT_THAT(planForBothAbis("/h/libmpi_abi.so.1.0", {"/c/libmpi.so.12.1"}).problems,
                ElementsAre(HasSubstr("container's MPI library /c/libmpi.so.12.1, which /bin/app uses")));
}

TEST(InjectionPlan, isSilentOnAnotherAbiIfTheProgramUsesTheReplacedMpi) {
    for (const Strings& used :
         {Strings{"/c/libmpi.so.12.1"}, Strings{"/c/libmpi_abi.so.1.0", "/c/libmpi.so.12.1"}}) {
        const auto plan = planForBothAbis("/h/libmpi.so.12.1", used);
        EXPECT_THAT(plan.problems, IsEmpty());
        EXPECT_THAT(plan.warnings, IsEmpty());
        EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("/c/libmpi_abi.so.1.0 is not replaced")));
    }
}

TEST(InjectionPlan, warnsOfAnotherAbiIfTheProgramIsUnknown) {
    const auto plan = planForBothAbis("/h/libmpi.so.12.1", {});
    EXPECT_THAT(plan.problems, IsEmpty());
    EXPECT_THAT(plan.warnings, ElementsAre(AllOf(HasSubstr("Another MPI"), HasSubstr("libmpi_abi.so.1.0"))));
}

TEST(InjectionPlan, namesTheMpiOfAnotherAbiThatIsAlone) {
    EXPECT_THAT(planFor({"/h/libmpi.so.12.1"}, {"/c/libmpi_abi.so.1.0"}).problems,
                ElementsAre(AllOf(HasSubstr("not ABI compatible"), HasSubstr("/c/libmpi_abi.so.1.0"))));
}

TEST(InjectionPlan, putsDependenciesWithoutCounterpartUnderUsrLib) {
    const auto plan =
        planFor({"/h/libmpi.so.12"}, {"/c/libmpi.so.12"}, AbiPolicy::major, {"/h/libugni.so.0.6.0"});
    EXPECT_EQ(plan.injections.at(1).destinations, Strings{"/usr/lib/libugni.so.0.6.0"});
    EXPECT_EQ(plan.injections.at(1).role, Role::dependency);
}

TEST(InjectionPlan, replacesOlderDependencies) {
    const auto plan = planFor({"/h/libmpi.so.12"}, {"/c/libmpi.so.12", "/c/libdep.so.1.2"}, AbiPolicy::major,
                              {"/h/libdep.so.1.3"});
    EXPECT_EQ(plan.injections.at(1).method, Method::replace);
    EXPECT_EQ(plan.injections.at(1).destinations, Strings{"/c/libdep.so.1.2"});
}

TEST(InjectionPlan, keepsNewerDependenciesOfTheContainer) {
    const auto plan = planFor({"/h/libmpi.so.12"}, {"/c/libmpi.so.12", "/c/libdep.so.1.5"}, AbiPolicy::major,
                              {"/h/libdep.so.1.3"});
    const auto& injection = plan.injections.at(1);
    EXPECT_EQ(injection.destinations, Strings{"/usr/lib/libdep.so.1.3"});
    EXPECT_THAT(injection.links, UnorderedElementsAre("libdep.so.1.3"));
    EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("is kept")));
}

TEST(InjectionPlan, keepsTheLinkerNameOfAnIncompatibleDependency) {
    const auto plan = planFor({"/h/libmpi.so.12"}, {"/c/libmpi.so.12", "/c/libdep.so.2.5"}, AbiPolicy::major,
                              {"/h/libdep.so.1.3"});
    EXPECT_THAT(plan.injections.at(1).links, UnorderedElementsAre("libdep.so.1", "libdep.so.1.3"));
}

TEST(InjectionPlan, keepsADependencyWhoseSymbolVersionsTheHostLacks) {
    InjectionRequest request{.mpiLibraries = {hostLibrary("/h/libmpi.so.12")},
                             .dependencies = {hostLibrary("/h/libstdc++.so.6.0.28")},
                             .containerLibraries = {containerLibrary("/c/libmpi.so.12"),
                                                    containerLibrary("/c/libstdc++.so.6.0.30")}};
    request.dependencies[0].elf.versionDefinitions = {"GLIBCXX_3.4.28"};
    request.containerLibraries[1].versionDefinitions = {"GLIBCXX_3.4.28", "GLIBCXX_3.4.30"};
    EXPECT_EQ(planInjection(request).injections.at(1).method, Method::add);
    request.dependencies[0].elf.versionDefinitions.push_back("GLIBCXX_3.4.30");
    EXPECT_EQ(planInjection(request).injections.at(1).method, Method::replace);
}

/// The plan for another version of libibverbs in the container.
InjectionPlan planForVerbs(const std::string& host, std::vector<std::string> hostVersions,
                           const std::string& container, std::vector<std::string> containerVersions) {
    InjectionRequest request{
        .mpiLibraries = {hostLibrary("/h/libmpi.so.12")},
        .dependencies = {hostLibrary(host)},
        .containerLibraries = {containerLibrary("/c/libmpi.so.12"), containerLibrary(container)}};
    request.dependencies[0].elf.versionDefinitions = std::move(hostVersions);
    request.containerLibraries[1].versionDefinitions = std::move(containerVersions);
    return planInjection(request);
}

TEST(InjectionPlan, replacesALibraryWhosePrivateSymbolVersionsAreOthers) {
    const auto plan = planForVerbs("/h/libibverbs.so.1.18.65", {"IBVERBS_1.1", "IBVERBS_PRIVATE_65"},
                                   "/c/libibverbs.so.1.14.44", {"IBVERBS_1.1", "IBVERBS_PRIVATE_44"});
    EXPECT_EQ(plan.injections.at(1).destinations, Strings{"/c/libibverbs.so.1.14.44"});
    EXPECT_THAT(plan.warnings, IsEmpty());
}

TEST(InjectionPlan, warnsIfTheHostsPackageReplacesANewerOne) {
    for (const auto* version : {"1.18.65", "1.11.33"}) {
        const auto plan = planForVerbs("/h/libibverbs.so.1.11.33", {"IBVERBS_1.1", "IBVERBS_PRIVATE_33"},
                                       cat("/c/libibverbs.so.", version),
                                       {"IBVERBS_1.1", "IBVERBS_1.14", "IBVERBS_PRIVATE_65"});
        EXPECT_EQ(plan.injections.at(1).method, Method::replace);
        EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("is replaced, although it is newer")));
    }
}

}  // namespace
}  // namespace sarus::hooks::mpi::injection_plan_test
