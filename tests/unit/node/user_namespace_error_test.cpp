#include "node/user_namespace_error.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"

namespace sarus::node::user_namespace_error_test {
namespace {

class UserNamespaceError : public ::testing::Test {
protected:
    UserNamespaceError() {
        createDirectories(settings / "user");
        createDirectories(settings / "kernel");
    }

    void set(const std::string& path, const std::string& value) const {
        replaceFile(settings / path, cat(value, '\n'), 0644);
    }

    std::string text() const {
        const auto error = userNamespaceError("Failed to try", EPERM, settings.path());
        return cat(error.what(), " / ", error.hint());
    }

    test::TemporaryDirectory settings;
};

TEST_F(UserNamespaceError, WithoutAReasonItSaysWhatIsNeeded) {
    const std::string expected =
        "Failed to try: Operation not permitted / Containers without privileges need user namespaces; the "
        "administrator can "
        "allow them, or install sarus-starter set-user-ID root";
    EXPECT_EQ(text(), expected) << "settings which the kernel does not have";
    set("user/max_user_namespaces", "63000");
    set("kernel/unprivileged_userns_clone", "1");
    set("kernel/apparmor_restrict_unprivileged_userns", "0");
    EXPECT_EQ(text(), expected) << "settings which allow them";
}

TEST_F(UserNamespaceError, ALimitOfZeroIsNamed) {
    set("user/max_user_namespaces", "0");
    EXPECT_EQ(text(),
              "Failed to try: user namespaces are disabled by the kernel setting user.max_user_namespaces=0: "
              "Operation not permitted"
              " / The administrator can allow them with `sysctl user.max_user_namespaces=15000`, or install "
              "sarus-starter "
              "set-user-ID root");
}

TEST_F(UserNamespaceError, TheSwitchOfDebianIsNamed) {
    set("user/max_user_namespaces", "10");
    set("kernel/unprivileged_userns_clone", "0");
    EXPECT_EQ(text(),
              "Failed to try: user namespaces are disabled by the kernel setting "
              "kernel.unprivileged_userns_clone=0: Operation not "
              "permitted / The administrator can allow them with `sysctl "
              "kernel.unprivileged_userns_clone=1`, or install "
              "sarus-starter set-user-ID root");
}

TEST_F(UserNamespaceError, TheRestrictionOfAppArmorIsNamedWithTheProfile) {
    set("kernel/unprivileged_userns_clone", "1");
    set("kernel/apparmor_restrict_unprivileged_userns", "1");
    EXPECT_EQ(text(),
              "Failed to try: user namespaces are restricted by the kernel setting "
              "kernel.apparmor_restrict_unprivileged_userns=1: "
              "Operation not permitted / The administrator can load the AppArmor profile "
              "etc/apparmor.d/sarus-starter of the "
              "installation, or allow them with `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or "
              "install sarus-starter "
              "set-user-ID root");
}

TEST_F(UserNamespaceError, TheCureIsACommandForTheSettingThatForbidsThem) {
    EXPECT_EQ(userNamespaceCure(settings.path()), "sysctl -w user.max_user_namespaces=15000 (as root)");
    set("kernel/apparmor_restrict_unprivileged_userns", "1");
    EXPECT_EQ(userNamespaceCure(settings.path()),
              "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (as root)");
}

}  // namespace
}  // namespace sarus::node::user_namespace_error_test
