#include "starter/rootfs/rootfs.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "starter/small_files.hpp"
#include "starter/system_calls.hpp"

namespace sarus::starter::rootfs_test {
namespace {

using ::testing::AnyOf;
using ::testing::ContainerEq;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The calls alone; what becomes of them is in rootfs_as_root_test.cpp.
class RootfsCalls : public ::testing::Test {
protected:
    RootfsCalls() {
        plan.workdir = "/work";
        plan.mounts = {{.source = "/data", .destination = "/mnt/data", .readonly = true, .request = "R"}};
        plan.devices = {{.source = "/dev/null",
                         .destination = "/dev/x",
                         .access = "rw",
                         .origin = engine::MountOrigin::site,
                         .request = "R"}};
        config.rootfsFolder = "rootfs";
        prepare();
    }

    std::string prepare() {
        directory = std::make_unique<test::TemporaryDirectory>();
        for (const auto* name : {"host/data", "host/run", "prefix/etc/container", "bundle"}) {
            createDirectories(*directory / name);
        }
        for (const auto* name :
             {"prefix/etc/container/nsswitch.conf", "prefix/etc/passwd", "prefix/etc/group", "init"}) {
            test::makeFile(*directory / name);
        }
        test::makeSquashfsFile(*directory / "image");
        config.prefixDir = *directory / "prefix";
        plan.initPath = *directory / "init";
        return directory->path();
    }

    void build() const {
        const auto image = openFile(*directory / "image", O_RDONLY);
        buildRootfs({.plan = plan,
                     .config = config,
                     .credentials = Credentials::acquire(Mode::privileged),
                     .imageFd = image.get(),
                     .imagePath = "IMAGE",
                     .bundleDir = *directory / "bundle",
                     .imageBuilderPath = "/nonexistent",
                     .squashfsServerPath = {}});
    }

    std::unique_ptr<test::TemporaryDirectory> directory;
    engine::ContainerPlan plan;
    engine::SiteConfig config;
};

TEST_F(RootfsCalls, ComeInTheOrderOfThePlan) {
    test::SystemCalls calls(directory->path());
    build();
    std::vector<std::string> expected{
        // the bundle
        "mount tmpfs on bundle (nosuid,nodev;mode=755)", "mkdir bundle/rootfs", "mkdir bundle/overlay",
        "mkdir bundle/overlay/rootfs-lower", "mkdir bundle/overlay/rootfs-upper",
        "mkdir bundle/overlay/rootfs-work", "chown bundle/overlay/rootfs-upper 1000:100",
        // the image
        "mkdir host/run", "mkdir host/run/sarus", "mkdir host/run/sarus/loop", "open /dev/loop-control",
        "LOOP_CTL_GET_FREE", "open /dev/loop0", "LOOP_CONFIGURE loop0",
        "mount squashfs on bundle/overlay/rootfs-lower (ro,nosuid,nodev;threads=percpu)",
        "BLKGETDISKSEQ loop0",
        // the overlay
        "mount overlay on rootfs (nosuid,nodev;lowerdir=overlay/rootfs-lower,upperdir=overlay/rootfs-upper,"
        "workdir=overlay/rootfs-work,redirect_dir=nofollow,metacopy=off)",
        "mount - on bundle (unbindable)",
        // the engine's own places
        "unlink bundle/rootfs/dev", "mkdir bundle/rootfs/dev",
        "mount tmpfs on bundle/rootfs/dev (nosuid;mode=755,size=65536k)", "mkdir bundle/rootfs/dev/shm",
        "open_tree /dev/shm", "mount_setattr /dev/shm (nosuid,nodev,noexec)",
        "move_mount /dev/shm on bundle/rootfs/dev/shm", "mkdir bundle/rootfs/dev/mqueue",
        "mount mqueue on bundle/rootfs/dev/mqueue (nosuid,nodev,noexec)", "unlink bundle/rootfs/proc",
        "mkdir bundle/rootfs/proc", "unlink bundle/rootfs/sys", "mkdir bundle/rootfs/sys",
        // files
        "mkdir bundle/rootfs/etc", "chown bundle/rootfs/etc 1000:100", "unlink bundle/rootfs/etc/hosts",
        "chown bundle/rootfs/etc/hosts 1000:100", "unlink bundle/rootfs/etc/resolv.conf",
        "chown bundle/rootfs/etc/resolv.conf 1000:100", "unlink bundle/rootfs/etc/localtime",
        "chown bundle/rootfs/etc/localtime 1000:100", "unlink bundle/rootfs/etc/nsswitch.conf",
        "chown bundle/rootfs/etc/nsswitch.conf 1000:100", "unlink bundle/rootfs/etc/passwd",
        "chown bundle/rootfs/etc/passwd 1000:100", "unlink bundle/rootfs/etc/group",
        "chown bundle/rootfs/etc/group 1000:100",
        // init
        "open_tree init", "mount_setattr init (ro,nosuid)", "move_mount init on bundle/rootfs/dev/init",
        // mounts, devices and the working directory
        "mkdir bundle/rootfs/mnt", "mkdir bundle/rootfs/mnt/data", "open_tree host/data",
        "mount_setattr host/data (ro,nosuid,nodev)", "move_mount host/data on bundle/rootfs/mnt/data",
        "open_tree /dev/null", "mount_setattr /dev/null (nosuid)",
        "move_mount /dev/null on bundle/rootfs/dev/x", "mkdir bundle/rootfs/work"};
    std::erase_if(expected, [](const std::string& call) {
        return call.find("/etc/localtime") != std::string::npos && !pathExists("/etc/localtime");
    });
    EXPECT_THAT(calls.made(), ContainerEq(expected));
}

TEST_F(RootfsCalls, AnErrorFollowsFromEachThatIsRefusedAndNothingFollowsFromTheError) {
    test::failEachCall([this] { return prepare(); }, [this] { build(); },
                       [](const std::string& call, const Error* error, const test::SystemCalls& calls) {
                           if (call.starts_with("mkdir host/run") || call.starts_with("BLKGETDISKSEQ")) {
                               EXPECT_EQ(error, nullptr) << "it costs the node one more loop device";
                               return;
                           }
                           ASSERT_NE(error, nullptr);
                           EXPECT_THAT(error->what(),
                                       AnyOf(StartsWith("Failed to "),
                                             StartsWith("Invalid device request 'R': Failed to ")));
                           EXPECT_THAT(error->what(), HasSubstr("Input/output error"));
                           EXPECT_EQ(calls.made().back(), call);
                       });
}

TEST_F(RootfsCalls, TheErrorNamesWhatItIsAbout) {
    const std::vector<std::pair<std::string, std::string>> named{
        {"mount tmpfs on bundle (", "Failed to mount tmpfs on "},
        {"mkdir bundle/overlay", "Failed to create directory overlay in the bundle"},
        {"mount squashfs", "Failed to mount image IMAGE"},
        {"mount overlay", "Failed to mount the overlay of the root filesystem"},
        {"mkdir bundle/rootfs/proc", "Failed to create /proc in the container"},
        {"chown bundle/rootfs/etc/group", "Failed to set the owner of /etc/group in the container"},
        {"move_mount init", "Failed to provide /dev/init in the container"},
        {"open_tree host/data", "Failed to bind mount /data on container's /mnt/data"},
        {"move_mount /dev/null", "Invalid device request 'R'"},
        {"mkdir bundle/rootfs/work", "Failed to create the working directory /work"}};
    for (const auto& [call, message] : named) {
        prepare();
        test::SystemCalls calls(directory->path());
        calls.refuse(call, EIO);
        try {
            build();
            ADD_FAILURE() << call;
        } catch (const Error& error) {
            EXPECT_THAT(error.what(), StartsWith(message));
        }
    }
}

}  // namespace
}  // namespace sarus::starter::rootfs_test
