#include "image/store/conversions.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "image/scratch.hpp"

namespace sarus::image::conversions_test {
namespace {

class Conversions : public testing::Test {
protected:
    Conversions() { ::setenv("HOME", scratch.path().c_str(), 1); }
    ~Conversions() override { ::setenv("HOME", old.c_str(), 1); }

    std::string old = ::getenv("HOME") != nullptr ? ::getenv("HOME") : "/";
    test::Scratch scratch;
    const std::string id = layersIdOf({"sha256:1", "sha256:2"});
};

TEST_F(Conversions, LayersHaveAnIdThatTheirOrderDecides) {
    EXPECT_EQ(id.size(), 64U);
    EXPECT_NE(layersIdOf({"sha256:2", "sha256:1"}), id);
    EXPECT_EQ(layersIdOf({}), "");
    EXPECT_EQ(layersIdOf({"sha256:1", ""}), "");
}

TEST_F(Conversions, EachProgramHasItsNote) {
    EXPECT_FALSE(notedConversion(Converter::sarus, id));
    noteConversion(Converter::sarus, id, "/a");
    noteConversion(Converter::podmanHpc, id, "/b");
    EXPECT_EQ(notedConversion(Converter::sarus, id), "/a");
    EXPECT_EQ(notedConversion(Converter::podmanHpc, id), "/b");
    noteConversion(Converter::sarus, id, "/c");
    EXPECT_EQ(notedConversion(Converter::sarus, id), "/c");
}

TEST_F(Conversions, WhatCannotBeNotedIsNot) {
    noteConversion(Converter::sarus, "", "/a");
    noteConversion(Converter::sarus, id, "a");
    EXPECT_FALSE(notedConversion(Converter::sarus, ""));
    EXPECT_FALSE(notedConversion(Converter::sarus, id));
    EXPECT_FALSE(pathExists(scratch.path(".cache")));
    scratch.write(".cache", "a file");
    noteConversion(Converter::sarus, id, "/a");
    EXPECT_FALSE(notedConversion(Converter::sarus, id));
}

TEST_F(Conversions, OnlyAnOwnHomeCounts) {
    noteConversion(Converter::sarus, id, "/a");
    for (const std::string home : {::geteuid() == 0 ? "/nonexistent" : "/", "", "relative"}) {
        ::setenv("HOME", home.c_str(), 1);
        noteConversion(Converter::sarus, id, "/b");
        EXPECT_FALSE(notedConversion(Converter::sarus, id)) << home;
    }
    ::unsetenv("HOME");
    EXPECT_FALSE(notedConversion(Converter::sarus, id));
}

TEST_F(Conversions, ConvertersHaveNames) {
    EXPECT_EQ(parseConverter("sarus"), Converter::sarus);
    EXPECT_EQ(parseConverter("podman-hpc"), Converter::podmanHpc);
    EXPECT_THROW(parseConverter("docker"), Error);
}

}  // namespace
}  // namespace sarus::image::conversions_test
