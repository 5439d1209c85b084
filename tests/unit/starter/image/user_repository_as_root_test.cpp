#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/isolated_process.hpp"
#include "starter/image/user_repository.hpp"
#include "starter/isolated.hpp"
#include "starter/root_owned_directory.hpp"

namespace sarus::starter::user_repository_as_root_test {
namespace {

constexpr uid_t user = 12345;

class UserRepository : public testing::Test {
protected:
    UserRepository() {
        createDirectories(directory / "etc");
        createDirectories(directory / "base");
        writeAll(openFile(directory / "etc/passwd", O_WRONLY | O_CREAT, 0644).get(),
                 "alice:x:12345:12346::/home/alice:/bin/sh\n", "passwd");
        config.prefixDir = directory.path();
        config.localRepositoryBaseDir = directory / "base";
    }

    /// 0: created, 1: Error.
    int createAs(uid_t caller, Mode mode = Mode::privileged, bool knowsFlags = true) {
        return test::isolated([&] {
            if (!knowsFlags) {
                test::failSystemCalls({SYS_renameat2}, EINVAL);
            }
            if (::setgroups(0, nullptr) != 0 || ::setresgid(12346, 12346, 12346) != 0 ||
                ::setresuid(caller, mode == Mode::privileged ? 0 : caller,
                            mode == Mode::privileged ? 0 : caller) != 0) {
                return 50;
            }
            try {
                PathChecker paths({});
                createUserRepository(config, Credentials::acquire(mode), paths);
                return 0;
            } catch (const Error&) {
                return 1;
            }
        });
    }
    struct stat made() {
        struct stat status {};
        EXPECT_EQ(::lstat((directory / "base/alice").c_str(), &status), 0);
        return status;
    }

    test::RootOwnedDirectory directory;
    engine::SiteConfig config;
};

TEST_F(UserRepository, BelongsToTheCallerAloneAndIsPrivate) {
    ASSERT_EQ(createAs(user), 0);
    EXPECT_EQ(made().st_uid, user);
    EXPECT_EQ(made().st_gid, 12346U);
    EXPECT_EQ(made().st_mode, static_cast<mode_t>(S_IFDIR | 0700));
}

TEST_F(UserRepository, IsMadeWhereRenamesHaveNoFlags) {
    ASSERT_EQ(createAs(user, Mode::privileged, false), 0) << "on NFS and Lustre";
    EXPECT_EQ(made().st_uid, user);
}

TEST_F(UserRepository, ThatExistsIsLeftAsItIs) {
    ASSERT_EQ(createAs(user), 0);
    ::chmod((directory / "base/alice").c_str(), 0755);
    ASSERT_EQ(createAs(user), 0);
    EXPECT_EQ(made().st_mode, static_cast<mode_t>(S_IFDIR | 0755));
}

TEST_F(UserRepository, NameThatIsTakenByAnotherOwnerOrByALinkIsRefused) {
    createDirectories(directory / "base/alice");
    EXPECT_EQ(createAs(user), 1);
    EXPECT_EQ(made().st_uid, 0U);
    ASSERT_EQ(::rmdir((directory / "base/alice").c_str()), 0);
    ASSERT_EQ(::symlink("/etc", (directory / "base/alice").c_str()), 0);
    EXPECT_EQ(createAs(user), 1);
    EXPECT_TRUE(S_ISLNK(made().st_mode));
}

TEST_F(UserRepository, IsNotMadeBelowADirectoryThatOthersCanChange) {
    ::chmod((directory / "base").c_str(), 0777);
    EXPECT_EQ(createAs(user), 1);
    EXPECT_FALSE(pathExists(directory / "base/alice"));
}

TEST_F(UserRepository, NeedsAnEntryInThePasswdFileAndPrivileges) {
    EXPECT_EQ(createAs(54321), 1);
    EXPECT_EQ(createAs(user, Mode::rootless), 1);
}

}  // namespace
}  // namespace sarus::starter::user_repository_as_root_test
