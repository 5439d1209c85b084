#include "hooks/sethomevar/account_home.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "base/error.hpp"
#include "base/temporary_directory.hpp"

namespace sarus::hooks::sethomevar::account_home_test {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

class AccountHome : public testing::Test {
protected:
    /// The home of `uid` in a file with this text.
    static std::string homeIn(std::string_view passwd, uid_t uid) {
        const test::TemporaryDirectory directory;
        const auto path = directory / "passwd";
        std::ofstream(path) << passwd;
        return homeOf(uid, {.passwdFile = path, .searchPath = "/no/such"});
    }
};

TEST_F(AccountHome, IsThatOfTheFile) {
    EXPECT_EQ(homeIn("\na:x:10:10::/home/a:/bin/sh\n\n+::::::\nb:x:11:11::/home/b:\n", 11), "/home/b");
}

TEST_F(AccountHome, MissingAccountOrDirectoryIsAnError) {
    EXPECT_THROW(homeIn("a:x:10:10::/home/a:/bin/sh\n", 11), Error);
    EXPECT_THROW(homeIn("a:x:10:10:::/bin/sh\n", 10), Error);
    EXPECT_THROW(homeIn("a:x:10:10::home:/bin/sh\n", 10), Error);
}

TEST(SethomevarSettings, PathOfTheFileIsAbsolute) {
    EXPECT_THROW(readSettings(HookEnvironment(Variables{{"PASSWD_FILE", "passwd"}})), Error);
    EXPECT_EQ(readSettings(HookEnvironment(Variables{})).searchPath, "/usr/bin:/bin");
}

}  // namespace
}  // namespace sarus::hooks::sethomevar::account_home_test
