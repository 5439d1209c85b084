#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "starter/rootfs/rootfs.hpp"
#include "starter/starter_sandbox.hpp"

namespace sarus::starter::rootfs_as_root_test {
namespace {

using namespace sarus::test;

/// The rules of the root filesystem that hold however the starter came to its rights. Rootless it runs with
/// sarus-squashfs here.
class RootfsTest : public ::testing::TestWithParam<Caller> {
protected:
    void SetUp() override {
        createDirectories(sandbox / "tree/etc");
        createDirectories(sandbox / "tree/usr");
        replaceFile(sandbox / "tree/usr/hello", "world", 0644);
        replaceFile(sandbox / "tree/etc/passwd", "from the image", 0644);
        plan.workdir = "/";
        config.rootfsFolder = "rootfs";
        config.prefixDir = sandbox / "prefix";
        config.tempDir = sandbox / "tmp";
        createDirectories(config.tempDir);
        ::chmod(config.tempDir.c_str(), 01777);
    }

    /// Builds the root filesystem and runs `check` with it.
    void build(const std::function<void(const Rootfs&, Credentials&)>& check) {
        const auto image = sandbox.makeImage();
        inMountNamespace([&] {
            prepareNode();
            asStarter(GetParam(), [&](Credentials& credentials) {
                const auto fd = openFile(image, O_RDONLY);
                const auto rootfs = buildRootfs(
                    {.plan = plan,
                     .config = config,
                     .credentials = credentials,
                     .imageFd = fd.get(),
                     .imagePath = image,
                     .bundleDir = sandbox / (GetParam() == Caller::rootless ? "userBundle" : "bundle"),
                     .imageBuilderPath = sandbox / "builder",
                     .squashfsServerPath = server,
                     .account = account});
                root = rootfs.bundleDir() + "/" + rootfs.rootFolder();
                check(rootfs, credentials);
            });
        });
    }

    void expectError(const std::string& message) {
        const auto image = sandbox.makeImage();
        inMountNamespace([&] {
            allowFuse(sandbox);
            asStarter(GetParam(), [&](Credentials& credentials) {
                const auto fd = openFile(image, O_RDONLY);
                try {
                    buildRootfs(
                        {.plan = plan,
                         .config = config,
                         .credentials = credentials,
                         .imageFd = fd.get(),
                         .imagePath = image,
                         .bundleDir = sandbox / (GetParam() == Caller::rootless ? "userBundle" : "bundle"),
                         .imageBuilderPath = "/nonexistent",
                         .squashfsServerPath = server});
                    ADD_FAILURE() << "no error; expected: " << message;
                } catch (const Error& error) {
                    EXPECT_EQ(std::string(error.what()), message);
                }
            });
        });
    }

    std::string bundleName() const {
        return otherBundle ? *otherBundle : GetParam() == Caller::rootless ? "userBundle" : "bundle";
    }

    /// What the node offers, in the calling process's mount namespace.
    std::function<void()> prepareNode = [this] { allowFuse(sandbox); };
    std::optional<std::string> otherBundle;

    std::string in(const std::string& path) const { return root + path; }

    struct stat statusOf(const std::string& path) const {
        struct stat status {};
        EXPECT_EQ(::lstat(in(path).c_str(), &status), 0) << path;
        return status;
    }

    void expectOwnedByCaller(const std::string& path, const Credentials& credentials) const {
        EXPECT_EQ(statusOf(path).st_uid, credentials.ownerUid()) << path;
        EXPECT_EQ(statusOf(path).st_gid, credentials.ownerGid()) << path;
    }

    void addMount(const std::string& source, const std::string& destination, bool readonly = false,
                  engine::MountOrigin origin = engine::MountOrigin::user) {
        plan.mounts.push_back({.source = source,
                               .destination = destination,
                               .readonly = readonly,
                               .origin = origin,
                               .request = ""});
    }

    StarterSandbox sandbox;
    std::string server = sandbox.imageServer();  // written with root's rights
    engine::ContainerPlan plan;
    engine::SiteConfig config;
    std::optional<CallerAccount> account;
    std::string root;
};

/// What holds only for callers whom the file system can refuse something.
class UnprivilegedCallerTest : public RootfsTest {};
/// What needs two identities: the user's and root's.
class SetUserIdCallerTest : public RootfsTest {};
class PrivilegedStarterTest : public RootfsTest {};

TEST_P(RootfsTest, ShowsTheImageAndCanBeChangedByTheUserWithoutChangingTheImage) {
    build([&](const Rootfs&, Credentials& credentials) {
        EXPECT_EQ(readFile(in("/usr/hello")), "world");
        credentials.asUser([&] {
            EXPECT_NO_THROW(
                writeAll(openFile(in("/usr/hello"), O_WRONLY | O_TRUNC).get(), "changed", "hello"));
            EXPECT_NO_THROW(openFile(in("/usr/new"), O_WRONLY | O_CREAT | O_EXCL, 0644));
            EXPECT_EQ(::mkdir(in("/top").c_str(), 0755), 0);
            removeTree(in("/usr"));
            EXPECT_EQ(::mkdir(in("/usr").c_str(), 0755), 0) << "a directory of the image cannot be replaced";
        });
        EXPECT_EQ(
            readFile(sandbox / (GetParam() == Caller::rootless ? "userBundle/overlay/rootfs-lower/usr/hello"
                                                               : "bundle/overlay/rootfs-lower/usr/hello")),
            "world");
    });
}

TEST_P(RootfsTest, TheRootIsNosuidAndNodev) {
    build([&](const Rootfs& rootfs, Credentials&) {
        struct statvfs status {};
        ASSERT_EQ(::statvfs(in("/").c_str(), &status), 0);
        EXPECT_TRUE(status.f_flag & ST_NOSUID);
        EXPECT_TRUE(status.f_flag & ST_NODEV);
        ASSERT_EQ(::statvfs(rootfs.bundleDir().c_str(), &status), 0);
        EXPECT_TRUE(status.f_flag & ST_NOSUID);
        EXPECT_TRUE(status.f_flag & ST_NODEV);
    });
}

TEST_P(RootfsTest, DevIsAFilesystemOfItsOwn) {
    build([&](const Rootfs&, Credentials&) {
        struct statvfs status {};
        ASSERT_EQ(::statvfs(in("/dev").c_str(), &status), 0);
        EXPECT_TRUE(status.f_flag & ST_NOSUID);
        EXPECT_EQ(status.f_blocks * status.f_frsize, 65536U * 1024U);
        EXPECT_NE(statusOf("/dev").st_dev, statusOf("/").st_dev);
        EXPECT_EQ(statusOf("/dev").st_mode & 07777U, 0755U);
    });
}

TEST_P(RootfsTest, EtcFilesComeFromHostAndInstallationAndBelongToTheUser) {
    build([&](const Rootfs&, Credentials& credentials) {
        EXPECT_EQ(readFile(in("/etc/hosts")), readFile("/etc/hosts"));
        EXPECT_EQ(readFile(in("/etc/resolv.conf")), readFile("/etc/resolv.conf"));
        EXPECT_EQ(readFile(in("/etc/nsswitch.conf")), "passwd: files\n");
        EXPECT_EQ(readFile(in("/etc/passwd")), "root:x:0:0::/root:/bin/sh\n");
        EXPECT_EQ(readFile(in("/etc/group")), "root:x:0:\n");
        for (const char* name : {"hosts", "resolv.conf", "nsswitch.conf", "passwd", "group"}) {
            expectOwnedByCaller(cat("/etc/", name), credentials);
            EXPECT_EQ(statusOf(cat("/etc/", name)).st_mode, S_IFREG | 0644U);
        }
    });
}

TEST_P(UnprivilegedCallerTest, ACallerWithoutEntryGetsOneIfAnAccountIsGiven) {
    account = CallerAccount{.ask =
                                [](const std::string& database, const auto&) {
                                    return database == "passwd" ? "alice:*:54321:54322::/home/alice:/bin/sh"
                                                                : "users:*:54322:";
                                },
                            .home = "/"};
    build([&](const Rootfs&, Credentials&) {
        EXPECT_EQ(readFile(in("/etc/passwd")),
                  "root:x:0:0::/root:/bin/sh\nalice:*:54321:54322::/home/alice:/bin/sh\n");
        EXPECT_EQ(readFile(in("/etc/group")), "root:x:0:\nusers:*:54322:\n");
    });
}

TEST_P(RootfsTest, AMissingSourceOfEtcIsFatal) {
    ASSERT_EQ(::unlink((sandbox / "prefix/etc/group").c_str()), 0);
    expectError(cat("Failed to prepare /etc/group for the container: Failed to open ",
                    sandbox / "prefix/etc/group", ": No such file or directory"));
}

TEST_P(RootfsTest, EtcPasswdAsALinkIsReplacedNotFollowed) {
    replaceFile(sandbox / "home/victim", "untouched", 0666);
    ASSERT_EQ(::unlink((sandbox / "tree/etc/passwd").c_str()), 0);
    ASSERT_EQ(::symlink((sandbox / "home/victim").c_str(), (sandbox / "tree/etc/passwd").c_str()), 0);
    build([&](const Rootfs&, Credentials&) {
        EXPECT_TRUE(S_ISREG(statusOf("/etc/passwd").st_mode));
        EXPECT_EQ(readFile(sandbox / "home/victim"), "untouched");
    });
}

TEST_P(RootfsTest, EtcAsALinkStaysInside) {
    removeTree(sandbox / "tree/etc");
    createDirectories(sandbox / "home/etc");
    ASSERT_EQ(::symlink((sandbox / "home/etc").c_str(), (sandbox / "tree/etc").c_str()), 0);
    build([&](const Rootfs&, Credentials&) {
        EXPECT_EQ(readFile(in(sandbox / "home/etc/group")), "root:x:0:\n");
        EXPECT_FALSE(pathExists(sandbox / "home/etc/group"));
    });
}

TEST_P(RootfsTest, LinksAtDevProcAndSysGiveWay) {
    for (const char* name : {"dev", "proc", "sys"}) {
        ASSERT_EQ(::symlink((sandbox / "home").c_str(), (sandbox / cat("tree/", name)).c_str()), 0);
    }
    build([&](const Rootfs&, Credentials&) {
        for (const char* name : {"/dev", "/proc", "/sys"}) {
            EXPECT_TRUE(S_ISDIR(statusOf(name).st_mode)) << name;
        }
    });
}

TEST_P(RootfsTest, AnImageWithoutAnyDirectoryWorks) {
    removeTree(sandbox / "tree");
    createDirectories(sandbox / "tree");
    replaceFile(sandbox / "tree/file", "", 0644);
    build([&](const Rootfs&, Credentials&) { EXPECT_TRUE(pathExists(in("/etc/passwd"))); });
}

TEST_P(RootfsTest, InitIsBoundReadonlyOnDevInit) {
    replaceFile(sandbox / "prefix/init", "the init", 0755);
    plan.initPath = sandbox / "prefix/init";
    build([&](const Rootfs&, Credentials&) {
        EXPECT_EQ(readFile(in("/dev/init")), "the init");
        struct statvfs status {};
        ASSERT_EQ(::statvfs(in("/dev/init").c_str(), &status), 0);
        EXPECT_TRUE(status.f_flag & ST_RDONLY);
        EXPECT_TRUE(status.f_flag & ST_NOSUID);
    });
}

/// Where the files of a container need a label, programs are copied: over the file of the node that a user
/// has mounted there, with root's rights.
TEST_P(RootfsTest, NoProgramIsBroughtOverWhatTheUserHasMounted) {
    replaceFile(sandbox / "prefix/init", "the program", 0755);
    replaceFile(sandbox / "home/file", "mine", 0644);
    addMount(sandbox / "home/file", "/dev/.sarus-x");
    build([&](const Rootfs& rootfs, Credentials&) {
        const auto program = openFile(sandbox / "prefix/init", O_PATH);
        for (const auto& label : {std::optional<std::string>(), std::optional<std::string>("label")}) {
            EXPECT_THROW(bringProgram(program.get(), rootfs.devFd(), "/dev/.sarus-x", label), Error);
            EXPECT_EQ(readFile(in("/dev/.sarus-x")), "mine");
        }
        bringProgram(program.get(), rootfs.devFd(), "/dev/.sarus-y", "label");
        EXPECT_EQ(readFile(in("/dev/.sarus-y")), "the program");
    });
    EXPECT_EQ(readFile(sandbox / "home/file"), "mine");
}

TEST_P(RootfsTest, UserMountsAppearWithTheirDestinationsCreatedForTheUser) {
    replaceFile(sandbox / "home/file", "mine", 0644);
    addMount(sandbox / "home", "/mnt/deep/home");
    addMount(sandbox / "home/file", "/usr/file", true);
    build([&](const Rootfs&, Credentials& credentials) {
        EXPECT_EQ(readFile(in("/mnt/deep/home/file")), "mine");
        EXPECT_EQ(readFile(in("/usr/file")), "mine");
        expectOwnedByCaller("/mnt/deep", credentials);
        expectOwnedByCaller("/mnt", credentials);
        struct statvfs status {};
        ASSERT_EQ(::statvfs(in("/usr/file").c_str(), &status), 0);
        EXPECT_TRUE(status.f_flag & ST_RDONLY);
        ASSERT_EQ(::statvfs(in("/mnt/deep/home").c_str(), &status), 0);
        EXPECT_TRUE(status.f_flag & ST_NOSUID);
        EXPECT_FALSE(status.f_flag & ST_RDONLY);
    });
}

TEST_P(UnprivilegedCallerTest, DestinationsMayLieInDirectoriesThatTheUserCannotEnter) {
    createDirectories(sandbox / "tree/closed");
    ::chmod((sandbox / "tree/closed").c_str(), 0000);
    replaceFile(sandbox / "home/file", "mine", 0644);
    addMount(sandbox / "home", "/closed/home");
    build([&](const Rootfs&, Credentials&) {
        ASSERT_EQ(::chmod(in("/closed").c_str(), 0755), 0);
        EXPECT_EQ(readFile(in("/closed/home/file")), "mine");
    });
}

TEST_P(RootfsTest, LinksOfTheImageCannotLeadAMountOutside) {
    ASSERT_EQ(::symlink((sandbox / "prefix").c_str(), (sandbox / "tree/trap").c_str()), 0);
    ASSERT_EQ(::symlink("../../../../../../../..", (sandbox / "tree/up").c_str()), 0);
    replaceFile(sandbox / "home/file", "mine", 0644);
    addMount(sandbox / "home", "/trap/etc");
    addMount(sandbox / "home", "/up/up/usr/over");
    build([&](const Rootfs&, Credentials&) {
        EXPECT_EQ(readFile(in((sandbox / "prefix") + "/etc/file")), "mine");
        EXPECT_EQ(readFile(in("/usr/over/file")), "mine");
        EXPECT_FALSE(pathExists(sandbox / "prefix/etc/file"));
    });
}

TEST_P(UnprivilegedCallerTest, NothingIsCreatedInMountedHostDirectoriesWithMoreThanTheUsersRights) {
    createDirectories(sandbox / "roots");
    createDirectories(sandbox / "home/users");
    ASSERT_EQ(::chown((sandbox / "home/users").c_str(), userId, groupId), 0);
    addMount(sandbox / "home", "/h");
    addMount(sandbox / "home/users", "/h/made/by/user");
    build([&](const Rootfs&, Credentials&) {});
    struct stat status {};
    ASSERT_EQ(::stat((sandbox / "home/made/by").c_str(), &status), 0);
    EXPECT_EQ(status.st_uid, userId);

    plan.mounts.clear();
    addMount(sandbox / "roots", "/r");
    addMount(sandbox / "home", "/r/new");
    const auto bundle = sandbox / (GetParam() == Caller::rootless ? "userBundle" : "bundle");
    expectError(cat("Failed to bind mount ", sandbox / "home", " on container's /r/new: Mount destination (",
                    bundle, "/rootfs/r) is not on a device allowed for mounts"));
    EXPECT_FALSE(pathExists(sandbox / "roots/new"));
}

TEST_P(RootfsTest, AMissingSourceHasTheDocumentedMessage) {
    addMount("/invalid-s87dfs9", "/dst");
    expectError(
        "Failed to bind mount /invalid-s87dfs9 on container's /dst: Failed to find real path for mount "
        "source: "
        "No such file or directory");
}

TEST_P(UnprivilegedCallerTest, SourcesAreReachedWithTheUsersRights) {
    createDirectories(sandbox / "private/inside");
    ::chmod((sandbox / "private").c_str(), 0700);
    addMount(sandbox / "private/inside", "/dst");
    expectError(cat("Failed to bind mount ", sandbox / "private/inside",
                    " on container's /dst: Failed to find real path for mount source: Permission denied"));
}

TEST_P(SetUserIdCallerTest, SiteMountsAreReachedAsRootOrElseAsTheUser) {
    createDirectories(sandbox / "private/inside");
    ::chmod((sandbox / "private").c_str(), 0700);
    replaceFile(sandbox / "private/inside/file", "site", 0644);
    createDirectories(sandbox / "fuseHome");
    addMount(sandbox / "private/inside", "/site", false, engine::MountOrigin::site);
    addMount(sandbox / "fuseHome", "/fuse/site", false, engine::MountOrigin::site);
    addMount(sandbox / "fuseHome", "/fuse/user");
    inMountNamespace([&] {
        mountFuseForTheUserAlone(server, sandbox.makeImage("fuse.squashfs"), sandbox / "fuseHome");
        build([&](const Rootfs&, Credentials& credentials) {
            EXPECT_EQ(readFile(in("/site/file")), "site");
            EXPECT_EQ(::open(in("/fuse/site/usr/hello").c_str(), O_RDONLY), -1)
                << "root was not locked out: nothing was tested";
            credentials.asUser([&] {
                EXPECT_EQ(readFile(in("/fuse/site/usr/hello")), "world");
                EXPECT_EQ(readFile(in("/fuse/user/usr/hello")), "world");
            });
        });
    });
}

TEST_P(RootfsTest, KindsOfSourceAndDestinationMustMatch) {
    addMount("/etc/hosts", "/usr");
    expectError(
        "Failed to bind mount /etc/hosts on container's /usr: the source is a file, but the destination is a "
        "directory");
    plan.mounts.clear();
    addMount(sandbox / "home", "/usr/hello");
    expectError(cat("Failed to bind mount ", sandbox / "home",
                    " on container's /usr/hello: the source is a directory, but the destination, or a part "
                    "of its path, is a file"));
}

TEST_P(RootfsTest, UsersCannotMountOnWhatTheRuntimeMounts) {
    addMount(sandbox / "home", "/proc/self");
    expectError(cat("Failed to bind mount ", sandbox / "home",
                    " on container's /proc/self: destination cannot be a subdirectory of '/proc'"));
    plan.mounts.clear();
    ASSERT_EQ(::symlink("/sys/kernel", (sandbox / "tree/innocent").c_str()), 0);
    addMount(sandbox / "home", "/innocent");
    expectError(cat("Failed to bind mount ", sandbox / "home",
                    " on container's /innocent: destination cannot be a subdirectory of '/sys'"));
    plan.mounts.clear();
    addMount(sandbox / "home", "/usr/..");
    expectError(cat("Failed to bind mount ", sandbox / "home",
                    " on container's /usr/..: the root directory cannot be a mount destination"));
}

TEST_P(RootfsTest, DestinationRulesHoldForTheResolvedPath) {
    config.userMounts.notAllowedPrefixesOfPath = {"/etc"};
    config.userMounts.notAllowedPaths = {"/opt"};
    ASSERT_EQ(::symlink("etc", (sandbox / "tree/e").c_str()), 0);
    createDirectories(sandbox / "tree/etcetera");
    addMount(sandbox / "home", "/e/x");
    expectError(cat("Failed to bind mount ", sandbox / "home",
                    " on container's /e/x: destination cannot be a subdirectory of '/etc'"));
    plan.mounts.clear();
    addMount(sandbox / "home", "/usr/../opt");
    expectError(cat("Failed to bind mount ", sandbox / "home",
                    " on container's /usr/../opt: '/opt' is not allowed as mount destination"));
    plan.mounts.clear();
    addMount(sandbox / "home", "/e/x", false, engine::MountOrigin::site);
    addMount(sandbox / "home", "/etcetera");
    addMount(sandbox / "home", "/opt/below");
    build([&](const Rootfs&, Credentials&) {});
}

TEST_P(RootfsTest, NobodyMountsOnWhatIsTheEnginesWhereverLinksOfTheImageLead) {
    replaceFile(sandbox / "home/file", "mine", 0644);
    for (const auto& [link, target] :
         {std::pair("null", "/dev/null"), std::pair("pts", "dev/pts"), std::pair("dev", "/dev"),
          std::pair("proc", "/proc/self"), std::pair("sys", "usr/../sys")}) {
        ASSERT_EQ(::symlink(target, cat(sandbox / "tree/to-", link).c_str()), 0);
    }
    for (const auto origin : {engine::MountOrigin::user, engine::MountOrigin::site,
                              engine::MountOrigin::workloadManager, engine::MountOrigin::cdi}) {
        const auto refused = [&](const std::string& source, const std::string& destination,
                                 const std::string& why) {
            plan.mounts.clear();
            addMount(sandbox / source, destination, false, origin);
            plan.mounts.back().request = std::string("R");
            expectError(cat("Failed to bind mount ", sandbox / source, " on container's ", destination,
                            origin == engine::MountOrigin::cdi ? " for R: " : ": ", why));
        };
        refused("home/file", "/to-null", "'/dev/null' is not allowed as mount destination");
        refused("home/file", "/usr/../dev/zero", "'/dev/zero' is not allowed as mount destination");
        refused("home", "/to-pts", "'/dev/pts' is not allowed as mount destination");
        refused("home", "/to-dev", "'/dev' is not allowed as mount destination");
        refused("home", "/to-proc/x", "destination cannot be a subdirectory of '/proc'");
        refused("home", "/to-sys", "destination cannot be a subdirectory of '/sys'");
    }
    plan.mounts.clear();
    plan.devices = {{.source = "/dev/zero", .destination = "/to-null", .access = "r", .request = "R"}};
    expectError("Invalid device request 'R': '/dev/null' is not allowed as mount destination");
    plan.devices.clear();
    plan.workdir = "/to-null/x";
    expectError("Failed to create the working directory /to-null/x: /dev/null belongs to the OCI runtime");
    plan.workdir = "/";
    addMount(sandbox / "home/file", "/dev/null/../other");
    expectError(cat("Failed to bind mount ", sandbox / "home/file",
                    " on container's /dev/null/../other: '/dev/null' is not allowed as mount destination"));
}

TEST_P(RootfsTest, AHundredMountsWork) {
    for (int i = 0; i < 100; ++i) {
        addMount(sandbox / "home", cat("/many/", i));
    }
    replaceFile(sandbox / "home/file", "mine", 0644);
    build([&](const Rootfs&, Credentials&) { EXPECT_EQ(readFile(in("/many/99/file")), "mine"); });
}

TEST_P(RootfsTest, DevicesAreBoundAndGiveTheirRule) {
    plan.devices.push_back({.source = "/dev/null",
                            .destination = "/dev/deep/null",
                            .access = "rw",
                            .request = "/dev/null:/dev/deep/null:rw"});
    plan.devices.push_back({.source = "/dev/loop0",
                            .destination = "/opt/loop",
                            .access = "r",
                            .origin = engine::MountOrigin::site,
                            .request = "/dev/loop0"});
    build([&](const Rootfs& rootfs, Credentials&) {
        ASSERT_EQ(rootfs.devices().size(), 2U);
        EXPECT_EQ(rootfs.devices()[0].type, 'c');
        EXPECT_EQ(rootfs.devices()[0].major, 1U);
        EXPECT_EQ(rootfs.devices()[0].minor, 3U);
        EXPECT_EQ(rootfs.devices()[0].access, "rw");
        EXPECT_EQ(rootfs.devices()[1].type, 'b');
        EXPECT_EQ(rootfs.devices()[1].major, 7U);
        EXPECT_EQ(statusOf("/dev/deep/null").st_rdev, ::makedev(1, 3));
        EXPECT_TRUE(S_ISBLK(statusOf("/opt/loop").st_mode));
    });
}

TEST_P(RootfsTest, WhatIsNoDeviceHasTheDocumentedMessage) {
    plan.devices = {{.source = "/dev/non-existing-device",
                     .destination = "/x",
                     .access = "rwm",
                     .request = "/dev/non-existing-device:/x"}};
    expectError(
        "Invalid device request '/dev/non-existing-device:/x': Failed to check if file "
        "\"/dev/non-existing-device\" is a device "
        "file. "
        "Stat failed: No such file or directory");
    plan.devices = {{.source = "/home", .destination = "/x", .access = "rwm", .request = "/home:/x"}};
    expectError("Invalid device request '/home:/x': Source path \"/home\" is not a device file");
}

TEST_P(RootfsTest, AMissingWorkingDirectoryIsCreatedForTheUser) {
    plan.workdir = "/not/there/yet";
    build([&](const Rootfs&, Credentials& credentials) {
        EXPECT_TRUE(S_ISDIR(statusOf("/not/there/yet").st_mode));
        expectOwnedByCaller("/not/there/yet", credentials);
    });
    plan.workdir = "/usr/hello/below";
    expectError(
        "Failed to create the working directory /usr/hello/below: Failed to create /usr/hello/below in the "
        "root filesystem: "
        "Not a directory");
}

TEST_P(RootfsTest, AnImageThatIsNoneIsRefused) {
    asStarter(GetParam(), [&](Credentials& credentials) {
        const auto build = [&](int fd) {
            return buildRootfs(
                {.plan = plan,
                 .config = config,
                 .credentials = credentials,
                 .imageFd = fd,
                 .imagePath = "IMAGE",
                 .bundleDir = sandbox / (GetParam() == Caller::rootless ? "userBundle" : "bundle"),
                 .imageBuilderPath = "/nonexistent",
                 .squashfsServerPath = server});
        };
        const auto messageFor = [&](int fd) -> std::string {
            try {
                build(fd);
            } catch (const Error& error) {
                return error.what();
            }
            return "no error";
        };
        EXPECT_EQ(messageFor(openFile("/dev/null", O_RDONLY).get()),
                  "Failed to use image IMAGE: not a regular file");
        EXPECT_EQ(messageFor(openFile("/proc/self/fd", O_RDONLY).get()),
                  "Failed to use image IMAGE: not a regular file");
        const auto empty = sandbox / "tmp/empty";
        EXPECT_EQ(messageFor(openFile(empty, O_RDONLY | O_CREAT, 0600).get()),
                  "Failed to use image IMAGE: the file is empty");
        replaceFile(sandbox / "tmp/text", "text", 0600);
        EXPECT_EQ(messageFor(openFile(sandbox / "tmp/text", O_RDONLY).get()),
                  "Failed to use image IMAGE: not a squashfs file");
        EXPECT_EQ(messageFor(openFile(sandbox / "tmp/text", O_RDWR).get()),
                  "Failed to use image IMAGE: its descriptor is not open for reading alone");
    });
}

TEST_P(RootfsTest, WorksWithoutFuse) {
    // Stands for sarus-image-builder, which the rootless starter needs now.
    replaceFile(sandbox / "builder", cat("#!/bin/sh\ncp -r ", sandbox / "tree", " \"$3\"\n"), 0755);
    prepareNode = [this] {
        replaceFile(sandbox / "noFuse", "", 0600);
        ASSERT_EQ(::mount((sandbox / "noFuse").c_str(), "/dev/fuse", nullptr, MS_BIND, nullptr), 0);
    };
    build([&](const Rootfs&, Credentials& credentials) {
        credentials.asUser([&] {
            EXPECT_EQ(readFile(in("/usr/hello")), "world");
            removeTree(in("/usr"));
            EXPECT_EQ(::mkdir(in("/usr").c_str(), 0755), 0);
        });
    });
    EXPECT_EQ(readFile(sandbox / "tree/usr/hello"), "world");
}

TEST_P(RootfsTest, TheBundlesPathMayContainWhatOverlayOptionsUse) {
    otherBundle = "odd:bundle,lowerdir=x \\y";
    createDirectories(sandbox / *otherBundle);
    ASSERT_EQ(::chown((sandbox / *otherBundle).c_str(), GetParam() == Caller::rootless ? userId : 0, 0), 0);
    addMount("/etc/hosts", "/mnt/hosts");
    build(
        [&](const Rootfs&, Credentials&) { EXPECT_EQ(readFile(in("/mnt/hosts")), readFile("/etc/hosts")); });
}

TEST_P(PrivilegedStarterTest, RamfsIsUsedWhereTheSiteAsksForIt) {
    config.ramFilesystemType = engine::RamFilesystem::ramfs;
    build([&](const Rootfs& rootfs, Credentials&) {
        struct statfs status {};
        ASSERT_EQ(::statfs(rootfs.bundleDir().c_str(), &status), 0);
        EXPECT_EQ(status.f_type, RAMFS_MAGIC);
        EXPECT_EQ(readFile(in("/usr/hello")), "world");
    });
}

TEST_P(RootfsTest, TheRootsFolderMustBeAPlainName) {
    for (const char* name : {"", "..", "a/b", "overlay"}) {
        config.rootfsFolder = name;
        expectError(cat("Failed to prepare the bundle: '", name,
                        "' cannot be the name of the root filesystem's directory"));
    }
}

TEST_P(RootfsTest, WorksOnKernelsWithoutTheNewMountCalls) {
    replaceFile(sandbox / "home/file", "mine", 0644);
    addMount(sandbox / "home", "/mnt/home");
    plan.devices.push_back({.source = "/dev/null",
                            .destination = "/dev/other",
                            .access = "rw",
                            .request = "/dev/null:/dev/other"});
    inChild([&] {
        failSystemCalls({SYS_openat2, SYS_open_tree, SYS_move_mount, SYS_mount_setattr, SYS_close_range},
                        ENOSYS);
        build([&](const Rootfs&, Credentials&) { EXPECT_EQ(readFile(in("/mnt/home/file")), "mine"); });
    });
}

std::string nameOf(const ::testing::TestParamInfo<Caller>& caller) {
    return caller.param == Caller::setUserId  ? "setUserId"
           : caller.param == Caller::rootless ? "rootless"
                                              : "root";
}

INSTANTIATE_TEST_SUITE_P(Callers, RootfsTest,
                         ::testing::Values(Caller::setUserId, Caller::rootless, Caller::root), nameOf);
INSTANTIATE_TEST_SUITE_P(Callers, UnprivilegedCallerTest,
                         ::testing::Values(Caller::setUserId, Caller::rootless), nameOf);
INSTANTIATE_TEST_SUITE_P(Callers, SetUserIdCallerTest, ::testing::Values(Caller::setUserId), nameOf);
INSTANTIATE_TEST_SUITE_P(Callers, PrivilegedStarterTest, ::testing::Values(Caller::setUserId, Caller::root),
                         nameOf);

}  // namespace
}  // namespace sarus::starter::rootfs_as_root_test
