#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/failing_listing.hpp"
#include "base/text.hpp"
#include "hooks/ssh/login_environment.hpp"
#include "hooks/ssh/port_owner.hpp"
#include "hooks/ssh/public_keys.hpp"
#include "hooks/ssh/settings.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;
using namespace std::string_literals;
using testing::HasSubstr;

HookEnvironment environment(std::map<std::string, std::string, std::less<>> more) {
    more.insert({{"HOOK_BASE_DIR", "/home"}, {"PASSWD_FILE", "/p"}, {"DROPBEAR_DIR", "/d"}});
    return HookEnvironment(std::move(more));
}

TEST(SshSettings, TheNewNameOfThePortComesFirst) {
    EXPECT_EQ(ssh::readSettings(environment({{"SERVER_PORT", "2000"}})).port, 2000);
    EXPECT_EQ(ssh::readSettings(environment({{"SERVER_PORT", "2000"}, {"SERVER_PORT_DEFAULT", "3000"}})).port,
              3000);
    EXPECT_THROW(ssh::readSettings(environment({})), Error);
    EXPECT_THROW(ssh::readSettings(environment({{"SERVER_PORT", "22"}})), Error);
}

TEST(SshSettings, SwitchesAreTruthValues) {
    const auto read = [](const char* name, const char* value) {
        return ssh::readSettings(environment({{"SERVER_PORT", "2000"}, {name, value}}));
    };
    for (const auto* const value : {"False", "FALSE", "0", "no"}) {
        EXPECT_FALSE(read("OVERLAY_MOUNT_HOME_SSH", value).overlay);
        EXPECT_FALSE(read("JOIN_NAMESPACES", value).joinNamespaces);
    }
    EXPECT_THROW(read("OVERLAY_MOUNT_HOME_SSH", "off course"), Error);
    EXPECT_TRUE(read("JOIN_NAMESPACES", "yes").joinNamespaces);
    EXPECT_TRUE(read("JOIN_NAMESPACES", "TRUE").joinNamespaces);
    EXPECT_TRUE(read("OTHER", "").joinNamespaces);
}

TEST(SshSettings, DirectoriesAreAbsolute) {
    auto relative = std::map<std::string, std::string, std::less<>>{
        {"SERVER_PORT", "2000"}, {"HOOK_BASE_DIR", "home"}, {"PASSWD_FILE", "/p"}, {"DROPBEAR_DIR", "/d"}};
    EXPECT_THROW(ssh::readSettings(HookEnvironment(std::move(relative))), Error);
}

TEST(LoginEnvironment, ExportsCannotBreak) {
    const std::vector<std::string> variables{
        "A=it's $x `y`\n", "B=", "BASH_FUNC_f%%=() { :; }", "PWD=/x", "SSH_TTY=x", "=x", "1A=x"};
    EXPECT_EQ(ssh::formatExports(variables), "export A='it'\\''s $x `y`\n'\nexport B=''\n");
    EXPECT_EQ(ssh::formatEnvironment(variables),
              "A=it's $x `y`\n\0B=\0BASH_FUNC_f%%=() { :; }\0PWD=/x\0=x\0001A=x\0"s);
}

constexpr const char* key =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0nUVgSY3Vg5pm7p4bZbg9xS7D5GkGEO8yN2UxTHHfr me@home";

TEST(PublicKeys, AreLinesOfKeysAlone) {
    EXPECT_EQ(ssh::parsePublicKeys(std::string("# mine\n\n  ") + key + "\r\n"), std::string(key) + '\n');
    for (const auto& text : {"command=\"id\" "s + key, "ssh-rsa"s + (key + 11), "ssh-ed25519 AAAA"s, "x"s,
                             ""s, "ssh-ed25519 AAA*"s, "ssh-ed25519"s}) {
        EXPECT_THROW(ssh::parsePublicKeys(text), Error) << text;
    }
}

TEST(PublicKeys, ThePublicHalfIsTheBeginningOfTheFile) {
    const auto string = [](const std::string& text) {
        return "\0\0\0"s + static_cast<char>(text.size()) + text;
    };
    const auto half = string("ecdsa-sha2-nistp256") + string("nistp256") + string("point");
    EXPECT_EQ(ssh::publicHalf(half + string("secret")),
              "AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAAAFcG9pbnQ=");
    EXPECT_THROW(ssh::publicHalf(half.substr(0, half.size() - 1)), Error);
    EXPECT_THROW(ssh::publicHalf("-----BEGIN"), Error);
}

TEST(PortOwner, AForeignListenerComesFirst) {
    const auto line = [](const char* port, const char* state, int uid, int inode) {
        return "   0: 00000000:"s + port + " 00000000:0000 " + state +
               " 00000000:00000000 00:00000000 00000000 " + std::to_string(uid) + " 0 " +
               std::to_string(inode) + " 1 0\n";
    };
    const auto table =
        line("3B9F", "0A", 1000, 5) + line("3B9F", "0A", 1001, 6) + line("3B9F", "0A", 1000, 7);
    const auto found = ssh::findListener(table, 15263, 1000);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->uid, 1001U);
    EXPECT_EQ(found->inode, 6U);
    EXPECT_FALSE(ssh::findListener(line("3B9F", "01", 1, 1) + line("3B9E", "0A", 1, 1), 15263, 1));
}

TEST(PortOwner, AListOfProcessesThatCannotBeReadIsAnError) {
    for (const int after : {0, 5}) {
        const test::FailingListing failing(EIO, after);
        EXPECT_THROW(ssh::processOfSocket(1), Error) << after;
    }
}

}  // namespace
