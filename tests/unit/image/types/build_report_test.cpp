#include "image/types/build_report.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "image/build_report.hpp"

namespace sarus::image::build_report_test {
namespace {

using test::digestOf;
const auto& report = test::buildReport;

TEST(BuildReport, isReadFromTheReport) {
    const auto result = parseBuildReport(report + "\n");
    EXPECT_EQ(result.configDigest, digestOf('b'));
    EXPECT_EQ(result.config, R"({"os":"linux"})");
    EXPECT_EQ(result.squashfsDigest, "fsverity-" + digestOf('c'));
    EXPECT_EQ(result.squashfsSize, 4096U);
    EXPECT_EQ(result.owner, "1000:100");
    EXPECT_EQ(result.builder, "2.0.0");
    EXPECT_EQ(result.compressor, "zstd 1.5.4");
}

TEST(BuildReport, thatIsIncompleteIsAnError) {
    EXPECT_THROW(parseBuildReport(""), Error);
    EXPECT_THROW(parseBuildReport("[]"), Error);
    EXPECT_THROW(parseBuildReport(R"({"configDigest":"x"})"), Error);
    EXPECT_THROW(parseBuildReport(report.substr(0, report.find(",\"squashfsSize")) + "}"), Error);
    EXPECT_THROW(parseBuildReport(report.substr(0, report.find(",\"builder")) + "}"), Error);
    auto shortDigest = report;
    shortDigest.erase(shortDigest.find("fsverity-sha256:") + 20, 1);
    EXPECT_THROW(parseBuildReport(shortDigest), Error);
}

TEST(BuildReport, comesBack) {
    EXPECT_EQ(serializeBuildReport(parseBuildReport(report)), report);
}

TEST(ImageDescription, comesBack) {
    const auto line = serializeImageDescription({"oci", digestOf('b'), "", "{}", "1f"});
    const auto description = parseImageDescription(line);
    EXPECT_EQ(description.format, "oci");
    EXPECT_EQ(description.configDigest, digestOf('b'));
    EXPECT_EQ(description.name, "");
    EXPECT_EQ(description.config, "{}");
    EXPECT_EQ(description.layersId, "1f");
    EXPECT_THROW(parseImageDescription(R"({"format":"oci"})"), Error);
    EXPECT_THROW(parseImageDescription("oci"), Error);
}

TEST(ConversionDescription, comesBack) {
    const auto line = serializeConversionDescription({"1000:100", "2.0.0", "zstd 1.5.4"});
    const auto description = parseConversionDescription(line);
    EXPECT_EQ(description.owner, "1000:100");
    EXPECT_EQ(description.builder, "2.0.0");
    EXPECT_EQ(description.compressor, "zstd 1.5.4");
    EXPECT_THROW(parseConversionDescription(R"({"owner":"1000:100"})"), Error);
}

}  // namespace
}  // namespace sarus::image::build_report_test
