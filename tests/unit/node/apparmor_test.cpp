#include "node/apparmor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::node::apparmor_test {
namespace {

constexpr std::string_view loaded = "sarus-default (enforce)\n/usr/bin/man (complain)\nunconfined-names\n";

TEST(AppArmorProfile, IsFoundByItsWholeName) {
    EXPECT_TRUE(listsProfile(loaded, "sarus-default"));
    EXPECT_TRUE(listsProfile(loaded, "/usr/bin/man"));
    EXPECT_TRUE(listsProfile(loaded, "unconfined-names"));
    EXPECT_FALSE(listsProfile(loaded, "sarus"));
    EXPECT_FALSE(listsProfile(loaded, "default"));
    EXPECT_FALSE(listsProfile("", "sarus-default"));
}

TEST(AppArmorProfile, ThatIsNotLoadedIsNamed) {
    EXPECT_NO_THROW(checkAppArmorProfile(std::nullopt));
    try {
        checkAppArmorProfile("no-such-profile-of-sarus");
    } catch (const Error& error) {  // not thrown where the list exists and the test may not read it
        EXPECT_THAT(
            error.what(),
            testing::HasSubstr("'no-such-profile-of-sarus' (`apparmorProfile` in sarus.json) is not loaded"));
    }
}

}  // namespace
}  // namespace sarus::node::apparmor_test
