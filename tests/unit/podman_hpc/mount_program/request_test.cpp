#include "podman_hpc/mount_program/request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sarus::podman_hpc::request_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

OverlayRequest parse(const std::string& options) {
    return parseOverlayRequest({"-o", options, "/s/overlay/id/merged"}).value();
}

TEST(OverlayRequest, IsThatOfContainersStorage) {
    const auto request =
        parse("lowerdir=/q/overlay/l/B:/q/overlay/l/A,upperdir=/s/u,workdir=/s/w,,volatile,nodev");
    EXPECT_THAT(request.lower, ElementsAre("/q/overlay/l/B", "/q/overlay/l/A"));
    EXPECT_EQ(request.upper, "/s/u");
    EXPECT_EQ(request.work, "/s/w");
    EXPECT_THAT(request.further, ElementsAre("volatile", "nodev"));
    EXPECT_EQ(request.target, "/s/overlay/id/merged");
}

TEST(OverlayRequest, MayBeToReadAlone) {
    const auto request = parse("lowerdir=/q/overlay/id/diff:/q/overlay/id/empty");
    EXPECT_THAT(request.lower, ElementsAre("/q/overlay/id/diff", "/q/overlay/id/empty"));
    EXPECT_EQ(request.upper, "");
    EXPECT_THAT(request.further, IsEmpty());
}

TEST(OverlayRequest, EscapesCommasAndColons) {
    const auto request = parse(R"(lowerdir=/a\,b\\:c:/d\\\\e,upperdir=/u\054\072x,workdir=/w\\)");
    EXPECT_THAT(request.lower, ElementsAre("/a,b:c", R"(/d\e)"));
    EXPECT_EQ(request.upper, "/u,:x");
    EXPECT_EQ(request.work, R"(/w\)");
}

TEST(OverlayRequest, ColonsOfMappingsAndCommasOfLabelsSeparateNothing) {
    const auto request = parse(R"(lowerdir=/a,context="u:r:t:s0:c1,c2",uidmapping=:0:1:10:10:0:1,x="y)");
    EXPECT_THAT(request.further,
                ElementsAre(R"(context="u:r:t:s0:c1,c2")", "uidmapping=:0:1:10:10:0:1", R"(x="y)"));
}

TEST(OverlayRequest, ForbidsDevicesUnlessTheyAreAllowed) {
    for (const auto* const said : {",dev", ",nodev"}) {
        auto request = parse(std::string("lowerdir=/a") + said);
        EXPECT_FALSE(forbidDevices(request));
        EXPECT_THAT(request.further, ElementsAre(said + 1));
    }
    auto request = parse("lowerdir=/a,volatile");
    EXPECT_TRUE(forbidDevices(request));
    EXPECT_THAT(request.further, ElementsAre("volatile", "nodev"));
}

TEST(OverlayRequest, QuotesInsideAValueAreOrdinary) {
    EXPECT_THAT(splitMountOptions(R"(upperdir=/a"b,volatile)"), ElementsAre(R"(upperdir=/a"b)", "volatile"));
}

TEST(OverlayRequest, LastEscapeIsItself) {
    EXPECT_THAT(splitMountOptions("a\\"), ElementsAre("a\\"));
    EXPECT_THAT(splitLayers("a\\"), ElementsAre("a\\"));
    EXPECT_THAT(splitMountOptions(R"(\400\x\12)"), ElementsAre("400x12"));  // no octal numbers of a byte
}

TEST(OverlayRequest, OtherCallsAreNone) {
    using Words = std::vector<std::string>;
    for (const auto& words : {Words{}, Words{"--version"}, Words{"-o", "lowerdir=/a"},
                              Words{"-o", "lowerdir=/a", "--help"}, Words{"-f", "lowerdir=/a", "/m"},
                              Words{"-o", "upperdir=/a", "/m"}, Words{"-o", "lowerdir=/a", "/m", "/n"}}) {
        EXPECT_FALSE(parseOverlayRequest(words));
    }
}

TEST(OverlayRequest, FormattedIsReadBack) {
    for (const auto* const options : {"lowerdir=/a:/b,upperdir=/u,workdir=/w,volatile",
                                      R"(lowerdir=/a\,b\\:c:/d\\\\e,context="a,b",uidmapping=:0:1:2)",
                                      R"(lowerdir=/\\x,upperdir=/\",workdir=/w\,)"}) {
        const auto request = parse(options);
        const auto again = parse(formatOptions(request));
        EXPECT_EQ(again.lower, request.lower) << options;
        EXPECT_EQ(again.upper, request.upper) << options;
        EXPECT_EQ(again.work, request.work) << options;
        EXPECT_EQ(again.further, request.further) << options;
    }
    EXPECT_EQ(formatOptions(parse("lowerdir=/a:/b,upperdir=/u,workdir=/w,,volatile")),
              "lowerdir=/a:/b,upperdir=/u,workdir=/w,volatile");
}

}  // namespace
}  // namespace sarus::podman_hpc::request_test
