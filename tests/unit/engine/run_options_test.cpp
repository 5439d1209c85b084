#include "engine/run_options.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::engine::run_options_test {
namespace {

std::string errorOf(auto function) {
    try {
        function();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(AnnotationOption, TheFirstEqualsSignSplits) {
    EXPECT_EQ(parseAnnotation("a=b=c"), std::pair(std::string("a"), std::string("b=c")));
    EXPECT_EQ(parseAnnotation("a="), std::pair(std::string("a"), std::string()));
}

TEST(AnnotationOption, WithoutEqualsSignTheValueIsEmpty) {
    EXPECT_EQ(parseAnnotation("key"), std::pair(std::string("key"), std::string()));
}

TEST(AnnotationOption, EmptyOptionAndEmptyKeyAreRefused) {
    EXPECT_EQ(errorOf([] { parseAnnotation(""); }),
              "Invalid annotation requested from CLI: empty option value");
    EXPECT_EQ(
        errorOf([] { parseAnnotation("=value"); }),
        "Error parsing annotation from CLI '=value': Failed to parse key-value pair '=value': key is empty");
}

TEST(EnvironmentOption, TheFirstEqualsSignSplits) {
    EXPECT_EQ(parseEnvironmentOption("NESTED=innerName=innerValue"),
              std::pair(std::string("NESTED"), std::optional<std::string>("innerName=innerValue")));
    EXPECT_EQ(parseEnvironmentOption("A="), std::pair(std::string("A"), std::optional<std::string>("")));
}

TEST(EnvironmentOption, WithoutEqualsSignTheValueIsTheHosts) {
    EXPECT_EQ(parseEnvironmentOption("A"), std::pair(std::string("A"), std::optional<std::string>()));
}

TEST(EnvironmentOption, EmptyOptionAndEmptyNameAreRefused) {
    EXPECT_EQ(errorOf([] { parseEnvironmentOption(""); }),
              "Invalid environment variable requested from CLI: empty option value");
    EXPECT_EQ(errorOf([] { parseEnvironmentOption("=value"); }),
              "Error parsing environment variable requested from CLI '=value': Failed to parse key-value "
              "pair '=value': key is empty");
}

TEST(Workdir, MustBeAbsolute) {
    EXPECT_EQ(errorOf([] { checkWorkdir("invalid"); }),
              "The working directory 'invalid' is invalid, it needs to be an absolute path.");
    EXPECT_EQ(errorOf([] { checkWorkdir(""); }),
              "The working directory '' is invalid, it needs to be an absolute path.");
    EXPECT_EQ(errorOf([] { checkWorkdir("/a/b"); }), "no error");
    EXPECT_EQ(errorOf([] { checkWorkdir("/"); }), "no error");
}

TEST(Workdir, MustNotBeBelowProc) {
    for (const auto* path : {"/proc", "/proc/self/fd/7", "//proc/1", "/a/../proc/self", "/./proc/"}) {
        EXPECT_NE(errorOf([&] { checkWorkdir(path); }), "no error") << path;
    }
    EXPECT_EQ(errorOf([] { checkWorkdir("/process"); }), "no error");
    EXPECT_EQ(errorOf([] { checkWorkdir("/a/proc"); }), "no error");
}

TEST(ContainerName, HasThePatternOfADirectoryName) {
    for (const auto& name : {std::string("a"), std::string("0.b_c-D"), std::string(128, 'x')}) {
        EXPECT_NO_THROW(checkContainerName(name)) << name;
    }
    for (const auto& name : {std::string(), std::string("."), std::string(".."), std::string("-a"),
                             std::string("_a"), std::string("a/b"), std::string("a b"), std::string("a\n"),
                             std::string("\xC3\xBC"), std::string("a\0b", 3), std::string(129, 'x')}) {
        EXPECT_THROW(checkContainerName(name), Error) << name;
    }
}

TEST(MpiType, MustNotBeEmpty) {
    EXPECT_EQ(errorOf([] { checkMpiType(""); }), "Empty value provided for --mpi-type option");
    EXPECT_NO_THROW(checkMpiType("mpich"));
}

}  // namespace
}  // namespace sarus::engine::run_options_test
