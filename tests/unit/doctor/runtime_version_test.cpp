#include "doctor/runtime_version.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"

namespace sarus::doctor::runtime_version_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> known(const std::string& program, const std::string& version) {
    return knownVulnerabilities(parseRuntimeVersion(cat(program, " version ", version, "\nspec: 1.0.2\n")));
}

TEST(RuntimeVersion, ReadsTheOutputOfBothPrograms) {
    const auto crun = parseRuntimeVersion("crun version 1.8.1\ncommit: f8a096\n+SYSTEMD\n");
    EXPECT_EQ(crun.program, "crun");
    EXPECT_EQ(crun.text, "1.8.1");
    EXPECT_FALSE(crun.isOfDistribution);
    EXPECT_TRUE(parseRuntimeVersion("runc version 1.1.5+ds1\ncommit: 1\n").isOfDistribution);
    EXPECT_TRUE(parseRuntimeVersion("runc version 1.1.12-0ubuntu3\n").isOfDistribution);
    EXPECT_FALSE(parseRuntimeVersion("runc version 1.0.0-rc93\n").isOfDistribution);
    EXPECT_EQ(parseRuntimeVersion("youki version 0.3.0").program, "");
    EXPECT_EQ(parseRuntimeVersion("").program, "");
}

TEST(RuntimeVersion, KnownVulnerabilitiesEndWithTheCorrectedVersion) {
    EXPECT_THAT(known("runc", "1.1.11"), Contains("CVE-2024-21626"));
    EXPECT_THAT(known("runc", "1.1.12"), Not(Contains("CVE-2024-21626")));
    EXPECT_THAT(known("runc", "1.0.0-rc94"), Contains("CVE-2021-30465"));
    EXPECT_THAT(known("runc", "1.2.7"), Contains(HasSubstr("CVE-2025-31133")));
    EXPECT_THAT(known("runc", "1.2.8"), IsEmpty());
    EXPECT_THAT(known("runc", "1.3.0-rc.1"), Contains(HasSubstr("CVE-2025-31133")));
    EXPECT_THAT(known("runc", "1.3.2"), Contains(HasSubstr("CVE-2025-31133")));
    EXPECT_THAT(known("runc", "1.3.3"), IsEmpty());
    EXPECT_THAT(known("crun", "1.4.3"), Contains("CVE-2022-27650"));
    EXPECT_THAT(known("crun", "1.8.1"), IsEmpty());
    EXPECT_THAT(known("crun", "UNKNOWN"), IsEmpty());
    EXPECT_THAT(known("runc", "99999999999999999999.1.0"), IsEmpty());
}

}  // namespace
}  // namespace sarus::doctor::runtime_version_test
