#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <functional>

#include "base/error.hpp"
#include "starter/rootfs/overlay.hpp"
#include "starter/starter_sandbox.hpp"

#ifndef OVERLAYFS_SUPER_MAGIC
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#endif

namespace sarus::starter::overlay_as_root_test {
namespace {

using namespace sarus::test;

constexpr const char* warning = "directories of the image cannot be replaced in this container";

class Overlay : public ::testing::Test {
protected:
    /// Rootless, with the directories on a filesystem of that type. ramfs refuses user.* attributes, as tmpfs
    /// does before Linux 6.6.
    void onFilesystem(const std::string& type, const std::function<void(Credentials&)>& body) const {
        asStarter(Caller::rootless, [&](Credentials& credentials) {
            mountFilesystem(type, base(), type, 0, "mode=755");
            createDirectories(base() + "/lower/dir");
            replaceFile(base() + "/lower/dir/hello", "world", 0644);
            for (const char* name : {"/upper", "/work", "/target"}) {
                createDirectories(base() + name);
            }
            body(credentials);
        });
    }

    std::string base() const { return sandbox / "userBundle"; }
    std::string target() const { return base() + "/target"; }
    OverlayDirectories directories() const {
        return {.base = base(), .lower = "lower", .upper = "upper", .work = "work", .target = "target"};
    }

    long typeOfTarget() const {
        struct statfs status {};
        EXPECT_EQ(::statfs(target().c_str(), &status), 0);
        return static_cast<long>(status.f_type);
    }

    void expectSafeAndWritable() const {
        EXPECT_EQ(readFile(target() + "/dir/hello"), "world");
        replaceFile(target() + "/dir/new", "text", 0644);
        struct statvfs status {};
        ASSERT_EQ(::statvfs(target().c_str(), &status), 0);
        EXPECT_EQ(status.f_flag & (ST_NOSUID | ST_NODEV), static_cast<unsigned>(ST_NOSUID | ST_NODEV));
        EXPECT_FALSE(pathExists(base() + "/lower/dir/new"));
    }

    void expectDirectoriesCanBeReplaced() const {
        removeTree(target() + "/dir");
        EXPECT_EQ(::mkdir((target() + "/dir").c_str(), 0755), 0);
        EXPECT_FALSE(pathExists(target() + "/dir/hello"));
        EXPECT_TRUE(pathExists(base() + "/lower/dir/hello"));
    }

    StarterSandbox sandbox;
};

TEST_F(Overlay, TheKernelServesWhereTheUpperDirectoryHasUserAttributes) {
    inMountNamespace([&] {
        allowFuse(sandbox);
        onFilesystem("tmpfs", [&](Credentials& credentials) {
            ::testing::internal::CaptureStderr();
            const auto server = mountOverlay(directories(), "/none", std::nullopt, credentials);
            EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
            EXPECT_EQ(typeOfTarget(), OVERLAYFS_SUPER_MAGIC);
            EXPECT_EQ(server.pid(), -1);
            expectSafeAndWritable();
            expectDirectoriesCanBeReplaced();
        });
    });
}

TEST_F(Overlay, FuseOverlayfsServesWhereTheUpperDirectoryHasNone) {
    inMountNamespace([&] {
        allowFuse(sandbox);
        onFilesystem("ramfs", [&](Credentials& credentials) {
            ::testing::internal::CaptureStderr();
            const auto server = mountOverlay(directories(), "/none", std::nullopt, credentials);
            EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
            EXPECT_EQ(typeOfTarget(), FUSE_SUPER_MAGIC);
            EXPECT_GT(server.pid(), 0);
            expectSafeAndWritable();
            expectDirectoriesCanBeReplaced();
        });
    });
}

TEST_F(Overlay, WithoutFuseTheKernelServesAndTheLimitationIsTold) {
    inMountNamespace([&] {
        const auto closed = sandbox / "closed";
        replaceFile(closed, "", 0);
        ASSERT_EQ(::mount(closed.c_str(), "/dev/fuse", nullptr, MS_BIND, nullptr), 0);
        onFilesystem("ramfs", [&](Credentials& credentials) {
            ::testing::internal::CaptureStderr();
            const auto server = mountOverlay(directories(), "/none", std::nullopt, credentials);
            const auto said = ::testing::internal::GetCapturedStderr();
            EXPECT_NE(said.find(warning), std::string::npos) << said;
            EXPECT_NE(said.find("[WARN]"), std::string::npos) << said;
            EXPECT_EQ(typeOfTarget(), OVERLAYFS_SUPER_MAGIC);
            EXPECT_EQ(server.pid(), -1);
            expectSafeAndWritable();
        });
    });
}

TEST_F(Overlay, WithPrivilegesTheAttributesAreRootsAndNothingIsTold) {
    asStarter(Caller::setUserId, [&](Credentials& credentials) {
        mountFilesystem("tmpfs", base(), "tmpfs", 0, "mode=755");
        for (const char* name : {"/lower/dir", "/upper", "/work", "/target"}) {
            createDirectories(base() + name);
        }
        replaceFile(base() + "/lower/dir/hello", "world", 0644);
        const auto server = mountOverlay(directories(), "/none", std::nullopt, credentials);
        const auto mounts = readFile("/proc/self/mounts");
        const auto line = mounts.substr(mounts.rfind(target()));
        EXPECT_EQ(line.find("userxattr"), std::string::npos) << line;
        expectSafeAndWritable();
        expectDirectoriesCanBeReplaced();
    });
}

TEST_F(Overlay, AKernelThatRefusesIsExplained) {
    const auto errorWith = [&](int error) {
        std::string text;
        try {
            failSystemCalls({SYS_mount}, error);
            const auto credentials = Credentials::acquire(Mode::rootless);
            mountOverlay(directories(), "/none", std::nullopt, credentials);
        } catch (const Error& refused) {
            text = cat(refused.what(), " / ", refused.hint());
        }
        return text;
    };
    for (const char* name : {"/upper", "/work", "/target", "/lower"}) {
        createDirectories(base() + name);
    }
    inChild([&] {
        EXPECT_EQ(
            errorWith(ENODEV),
            "Failed to mount the overlay of the root filesystem: No such device / The kernel has no overlay "
            "filesystem (modprobe overlay)");
    });
    inChild([&] {
        EXPECT_EQ(
            errorWith(EPERM),
            "Failed to mount the overlay of the root filesystem: Operation not permitted / Overlays in user "
            "namespaces need Linux 5.11 or newer, or fuse-overlayfs and /dev/fuse");
    });
}

}  // namespace
}  // namespace sarus::starter::overlay_as_root_test
