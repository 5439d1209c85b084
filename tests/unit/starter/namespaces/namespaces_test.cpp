#include "starter/namespaces/namespaces.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "starter/small_files.hpp"
#include "starter/system_calls.hpp"

namespace sarus::starter::namespaces_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class NamespaceCalls : public ::testing::Test {
protected:
    NamespaceCalls() { prepare(); }

    std::string prepare() {
        directory = std::make_unique<test::TemporaryDirectory>();
        createDirectories(*directory / "host/proc/self");
        for (const auto* name : {"setgroups", "uid_map", "gid_map"}) {
            test::makeFile(map(name));
        }
        return directory->path();
    }

    std::string map(const std::string& name) const { return *directory / ("host/proc/self/" + name); }

    static void enter(Mode mode) {
        auto credentials = Credentials::acquire(mode);
        enterNamespaces(credentials);
        EXPECT_EQ(credentials.ownerUid(), mode == Mode::privileged ? 1000U : 0U);
    }

    std::unique_ptr<test::TemporaryDirectory> directory;
};

TEST_F(NamespaceCalls, WithPrivilegesThereIsAMountNamespaceAlone) {
    test::SystemCalls calls(directory->path());
    enter(Mode::privileged);
    EXPECT_THAT(calls.made(), ElementsAre("unshare mount namespace", "mount - on / (recursive,slave)",
                                          "mount_setattr /dev (nosuid)"));
    EXPECT_EQ(readFile(map("uid_map")), "");
}

TEST_F(NamespaceCalls, WithoutPrivilegesTheUserBecomesRootOfAUserNamespaceBefore) {
    test::SystemCalls calls(directory->path());
    enter(Mode::rootless);
    EXPECT_THAT(calls.made(), ElementsAre("unshare user namespace", "unshare mount namespace",
                                          "mount - on / (recursive,slave)"));
    EXPECT_EQ(readFile(map("setgroups")), "deny");
    EXPECT_EQ(readFile(map("uid_map")), "0 1000 1\n");
    EXPECT_EQ(readFile(map("gid_map")), "0 100 1\n");
}

TEST_F(NamespaceCalls, ARefusedCallIsAnErrorThatSaysWhatToDo) {
    for (const auto mode : {Mode::privileged, Mode::rootless}) {
        test::failEachCall([this] { return prepare(); }, [&] { enter(mode); },
                           [&](const std::string& call, const Error* error, const test::SystemCalls& calls) {
                               ASSERT_NE(error, nullptr);
                               EXPECT_THAT(error->what(), StartsWith("Failed to "));
                               EXPECT_THAT(error->what(), HasSubstr("Input/output error"));
                               EXPECT_EQ(calls.made().back(), call);
                               if (mode == Mode::rootless) {
                                   EXPECT_THAT(error->hint(), HasSubstr("user namespaces"));
                               }
                           });
    }
}

}  // namespace
}  // namespace sarus::starter::namespaces_test
