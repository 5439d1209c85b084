#include "hooks/mpi/configuration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hooks/kit/root_fixture.hpp"

namespace sarus::hooks::mpi::configuration_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Variables = std::map<std::string, std::string, std::less<>>;

/// A configuration without a mistake, for variations.
class ConfigurationTest : public ::testing::Test {
protected:
    ConfigurationTest() {
        host.library("libmpi.so.12.2.0", "libmpi.so.12");
        host.library("libplain.so", "");
        variables["MPI_LIBS"] = host / "libmpi.so.12.2.0";
    }
    std::vector<std::string> problemsWith(const std::string& name, const std::string& value) {
        variables[name] = value;
        return checkConfiguration(HookEnvironment(variables));
    }

    test::Root host;
    Variables variables;
};

TEST_F(ConfigurationTest, defaultsApplyToWhatIsAbsentOrEmpty) {
    EXPECT_THAT(problemsWith("MPI_DEPENDENCY_LIBS", ""), IsEmpty());
    EXPECT_THAT(problemsWith("MPI_COMPATIBILITY_TYPE", ""), IsEmpty());
    EXPECT_THAT(problemsWith("MPI_VERSION_CHECK", ""), IsEmpty());
    const auto configuration = readConfiguration(HookEnvironment(variables));
    EXPECT_EQ(configuration.policy, AbiPolicy::major);
    EXPECT_TRUE(configuration.isMissingVersionFatal);
    EXPECT_EQ(configuration.mpiLibraries.at(0).soname(), "libmpi.so.12");
}

TEST_F(ConfigurationTest, unknownCompatibilityTypeIsAnErrorThatNamesTheKnownOnes) {
    EXPECT_THAT(
        problemsWith("MPI_COMPATIBILITY_TYPE", "STRICT"),
        ElementsAre("MPI_COMPATIBILITY_TYPE is 'STRICT'. Supported values: 'major', 'full', 'strict'."));
    for (const auto* known : {"major", "full", "strict"}) {
        EXPECT_THAT(problemsWith("MPI_COMPATIBILITY_TYPE", known), IsEmpty());
    }
}

TEST_F(ConfigurationTest, unknownVersionCheckIsAnError) {
    EXPECT_THAT(problemsWith("MPI_VERSION_CHECK", "off"),
                ElementsAre("MPI_VERSION_CHECK is 'off'. Supported values: 'error', 'warn'."));
    EXPECT_THAT(problemsWith("MPI_VERSION_CHECK", "warn"), IsEmpty());
}

TEST_F(ConfigurationTest, emptyListOfMpiLibrariesIsAnError) {
    EXPECT_THAT(problemsWith("MPI_LIBS", ""), ElementsAre("MPI_LIBS names no library"));
    EXPECT_THAT(problemsWith("MPI_LIBS", "::"), ElementsAre("MPI_LIBS names no library"));
    EXPECT_THAT(checkConfiguration(HookEnvironment(Variables{})), ElementsAre("MPI_LIBS is not set"));
}

TEST_F(ConfigurationTest, absentFilesAreErrors) {
    EXPECT_THAT(problemsWith("MPI_LIBS", "/nonexistent/libmpi.so.12"),
                ElementsAre(HasSubstr("/nonexistent/libmpi.so.12")));
    variables["MPI_LIBS"] = host / "libmpi.so.12.2.0";
    EXPECT_THAT(problemsWith("MPI_DEPENDENCY_LIBS", "/nonexistent/libdep.so"),
                ElementsAre(HasSubstr("MPI_DEPENDENCY_LIBS: ")));
    EXPECT_EQ(problemsWith("BIND_MOUNTS", "/nonexistent/device").size(), 2U);
}

TEST_F(ConfigurationTest, mpiLibraryNeedsAVersionNumber) {
    EXPECT_THAT(problemsWith("MPI_LIBS", host / "libplain.so"),
                ElementsAre(HasSubstr("has no version number")));
}

TEST_F(ConfigurationTest, allMistakesAreReportedAtOnce) {
    variables["MPI_LIBS"] = "relative";
    variables["MPI_VERSION_CHECK"] = "off";
    try {
        readConfiguration(HookEnvironment(variables));
        FAIL();
    } catch (const Error& error) {
        EXPECT_THAT(error.what(),
                    HasSubstr("MPI_LIBS contains a path that is not absolute: relative; MPI_VERSION_CHECK"));
    }
}

}  // namespace
}  // namespace sarus::hooks::mpi::configuration_test
