#include "node/selinux.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.hpp"

namespace sarus::node::selinux_test {
namespace {

std::string complaintAbout(const std::optional<std::string>& label, const char* key = "selinuxLabel") {
    try {
        checkSelinuxLabel(label, key);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(SelinuxLabels, ArePartOfTheOptionsOfAMount) {
    EXPECT_EQ(withMountLabel("mode=755", std::nullopt), "mode=755");
    EXPECT_EQ(withMountLabel("mode=755", "u:r:t:s0:c1,c2"), "mode=755,context=\"u:r:t:s0:c1,c2\"");
    EXPECT_EQ(withMountLabel("", "u:r:t:s0"), "context=\"u:r:t:s0\"");
}

TEST(SelinuxLabels, AreNotNeeded) {
    EXPECT_EQ(complaintAbout(std::nullopt), "");
}

TEST(SelinuxLabels, CannotBeUsedWithoutSelinux) {
    const std::string problem = ::access("/sys/fs/selinux/context", F_OK) == 0
                                    ? "is not valid"
                                    : "SELinux is not enabled on this node";
    EXPECT_THAT(complaintAbout("no:such:label"),
                testing::AllOf(testing::HasSubstr("'no:such:label' (`selinuxLabel` in sarus.json)"),
                               testing::HasSubstr(problem)));
    EXPECT_THAT(
        complaintAbout("no:such:mount-label", "selinuxMountLabel"),
        testing::AllOf(testing::HasSubstr("'no:such:mount-label' (`selinuxMountLabel` in sarus.json)"),
                       testing::HasSubstr(problem)));
}

TEST(SelinuxLabels, CannotAddOptionsToAMount) {
    EXPECT_THAT(complaintAbout("u:r:t:s0\",size=1g,x=\""), testing::HasSubstr("has a quotation mark"));
}

}  // namespace
}  // namespace sarus::node::selinux_test
