#include "image/import/builder_client.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.hpp"
#include "image/build_report.hpp"
#include "image/scratch.hpp"

namespace sarus::image::builder_client_test {
namespace {

const auto& report = test::buildReport;

TEST(Builder, getsTheOptionsOfTheSite) {
    const test::Scratch scratch;
    const auto program = scratch.write("builder", cat("#!/bin/sh\nprintf '%s\\n' \"$@\" >",
                                                      scratch.path("arguments"), "\necho '", report, "'\n"));
    ::chmod(program.c_str(), 0755);
    EXPECT_EQ(buildSquashfs({program, "-comp zstd"}, {"/layout"}, "/output").squashfsSize, 4096U);
    const auto arguments = readFile(scratch.path("arguments"));
    EXPECT_EQ(arguments.find("build\n/layout\n/output\n"), 0U);
    EXPECT_NE(arguments.find("--mksquashfs-options\n-comp zstd\n"), std::string::npos);
}

TEST(Builder, getsTheLimitsOfTheSite) {
    const test::Scratch scratch;
    const auto program = scratch.write("builder", cat("#!/bin/sh\nprintf '%s\\n' \"$@\" >",
                                                      scratch.path("arguments"), "\necho '", report, "'\n"));
    ::chmod(program.c_str(), 0755);
    const BuilderSettings limited{
        .path = program, .mksquashfsOptions = {}, .maxUnpackedSize = 100'000'000'000, .maxEntries = 7};
    buildSquashfs(limited, {"/layout"}, "/output");
    EXPECT_NE(readFile(scratch.path("arguments")).find("--max-size\n100000000000\n--max-entries\n7\n"),
              std::string::npos);
    buildSquashfs({program, ""}, {"/layout"}, "/output");
    EXPECT_EQ(readFile(scratch.path("arguments")).find("--max"), std::string::npos);
}

TEST(Builder, failureIsReportedWithItsMessage) {
    const test::Scratch scratch;
    const auto program = scratch.write(
        "builder", "#!/bin/sh\necho 'Layer 2 is corrupt' >&2\necho 'pull it again' >&2\nexit 1\n");
    ::chmod(program.c_str(), 0755);
    testing::internal::CaptureStderr();  // no terminal, whatever runs the tests
    try {
        buildSquashfs({program, ""}, {"/layout"}, "/output");
        ADD_FAILURE();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "Failed to make the squashfs image: Layer 2 is corrupt");
        EXPECT_EQ(error.hint(), "pull it again");
    }
    testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace sarus::image::builder_client_test
