#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/isolated_process.hpp"
#include "base/mounts.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"

namespace sarus::test::mounts_as_root_test {
namespace {

struct Way {
    std::vector<long> missing;
    int error = 0;
    std::string name;
};

/// bindMount() with all system calls, and with each of the newer ones missing in both ways.
class BindMount : public ::testing::TestWithParam<Way> {
protected:
    void run(const std::function<void()>& body) {
        inMountNamespace([&] {
            mountFilesystem("tmpfs", directory.path(), "tmpfs", MS_NOSUID);
            createDirectories(directory / "source/sub dir");
            createDirectories(directory / "target");
            mountFilesystem("tmpfs", directory / "source/sub dir", "tmpfs", MS_NOEXEC | MS_NOATIME);
            replaceFile(directory / "source/file", "file", 0644);
            replaceFile(directory / "source/sub dir/file", "below", 0644);
            if (GetParam().error != 0) {
                failSystemCalls(GetParam().missing, GetParam().error);
            }
            body();
        });
    }

    void bind(const std::string& source, const std::string& target, const BindAttributes& attributes) {
        const auto from = openFile(directory / source, O_PATH);
        const auto to = openFile(directory / target, O_PATH);
        bindMount(from.get(), to.get(), attributes);
    }

    unsigned long flags(const std::string& path) {
        struct statvfs status {};
        EXPECT_EQ(::statvfs((directory / path).c_str(), &status), 0);
        return status.f_flag;
    }

    TemporaryDirectory directory;
};

TEST_P(BindMount, BringsTheSubmountsAlong) {
    run([&] {
        bind("source", "target", {});
        EXPECT_EQ(readFile(directory / "target/file"), "file");
        EXPECT_EQ(readFile(directory / "target/sub dir/file"), "below");
    });
}

TEST_P(BindMount, AttributesHoldForSubmountsAndSourcesKeepTheirs) {
    run([&] {
        bind("source", "target", {.readonly = true});
        EXPECT_TRUE(flags("target") & ST_RDONLY);
        EXPECT_TRUE(flags("target") & ST_NOSUID);
        EXPECT_TRUE(flags("target/sub dir") & ST_RDONLY);
        EXPECT_TRUE(flags("target/sub dir") & ST_NOSUID);
        EXPECT_TRUE(flags("target/sub dir") & ST_NOEXEC) << "a restriction of the source was lost";
        EXPECT_TRUE(flags("target/sub dir") & ST_NOATIME);
        EXPECT_FALSE(flags("source") & ST_RDONLY) << "the source was changed";
        EXPECT_FALSE(flags("source/sub dir") & ST_NOSUID) << "the source was changed";
    });
}

TEST_P(BindMount, AReadonlySourceStaysReadonly) {
    run([&] {
        ASSERT_EQ(::mount(nullptr, (directory / "source/sub dir").c_str(), nullptr,
                          MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr),
                  0);
        bind("source", "target", {});
        EXPECT_TRUE(flags("target/sub dir") & ST_RDONLY);
        EXPECT_FALSE(flags("target") & ST_RDONLY);
    });
}

TEST_P(BindMount, AFileIsMountedOnAFile) {
    run([&] {
        replaceFile(directory / "other", "", 0644);
        bind("source/file", "other", {.readonly = true});
        EXPECT_EQ(readFile(directory / "other"), "file");
        EXPECT_EQ(::open((directory / "other").c_str(), O_WRONLY), -1);
        EXPECT_EQ(errno, EROFS);
    });
}

TEST_P(BindMount, LaterMountsOfTheSourceDoNotAppear) {
    run([&] {
        ASSERT_EQ(::mount(nullptr, directory.path().c_str(), nullptr, MS_SHARED, nullptr), 0);
        bind("source", "target", {});
        createDirectories(directory / "source/late");
        mountFilesystem("tmpfs", directory / "source/late", "tmpfs", 0);
        replaceFile(directory / "source/late/x", "", 0644);
        EXPECT_TRUE(isDirectory(directory / "target/late"));
        EXPECT_FALSE(pathExists(directory / "target/late/x"));
    });
}

TEST_P(BindMount, AFileOnADirectoryIsAnError) {
    run([&] { EXPECT_THROW(bind("source/file", "target", {}), Error); });
}

const std::vector<Way> ways{
    {{}, 0, "newest"},
    {{SYS_open_tree}, ENOSYS, "noOpenTree"},
    {{SYS_open_tree}, EPERM, "openTreeFiltered"},
    {{SYS_mount_setattr}, ENOSYS, "noMountSetattr"},
    {{SYS_mount_setattr}, EPERM, "mountSetattrFiltered"},
    {{SYS_move_mount}, ENOSYS, "noMoveMount"},
    {{SYS_move_mount}, EPERM, "moveMountFiltered"},
};

INSTANTIATE_TEST_SUITE_P(Ways, BindMount, ::testing::ValuesIn(ways),
                         [](const auto& way) { return way.param.name; });

TEST(MountFilesystem, NamesTypeAndTargetOnFailure) {
    inMountNamespace([] {
        try {
            mountFilesystem("x", "/nowhere/at/all", "tmpfs", 0);
            ADD_FAILURE() << "no error";
        } catch (const Error& error) {
            EXPECT_STREQ(error.what(), "Failed to mount tmpfs on /nowhere/at/all: No such file or directory");
        }
    });
}

TEST(CloneReadOnly, EvenRootCannotWriteThroughIt) {
    const TemporaryDirectory directory;
    replaceFile(directory / "program", "text", 0755);
    inMountNamespace([&] {
        const auto clone = cloneReadOnly(openFile(directory / "program", O_PATH).get());
        ASSERT_TRUE(clone);
        const auto path = cat("/proc/self/fd/", clone.get());
        EXPECT_EQ(readFile(path), "text");
        EXPECT_EQ(::open(path.c_str(), O_WRONLY | O_CLOEXEC), -1);
        EXPECT_EQ(errno, EROFS);
    });
}

TEST(CloneReadOnly, IsEmptyWhereTheKernelHasNoSuchMounts) {
    inMountNamespace([&] {
        failSystemCalls({SYS_open_tree}, ENOSYS);
        EXPECT_FALSE(cloneReadOnly(openFile("/", O_PATH).get()));
    });
}

}  // namespace
}  // namespace sarus::test::mounts_as_root_test
