#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/error.hpp"
#include "base/eventually.hpp"
#include "base/mounts.hpp"
#include "starter/image/image_mount.hpp"
#include "starter/starter_sandbox.hpp"

namespace sarus::starter::image_mount_as_root_test {
namespace {

using namespace sarus::test;

class ImageMount : public ::testing::Test {
protected:
    void SetUp() override {
        replaceFile(sandbox / "tree/hello", "world", 0644);
        image = sandbox.makeImage();
        createDirectories(sandbox / "mount");
        createDirectories(sandbox / "tmp");
        ::chmod((sandbox / "tmp").c_str(), 01777);
        ASSERT_EQ(::chown((sandbox / "mount").c_str(), userId, groupId), 0);
        // Stands for sarus-image-builder: "unpacks" the tree and counts its runs.
        replaceFile(sandbox / "builder",
                    cat("#!/bin/sh\n[ \"$1\" = unpack ] || exit 9\n[ -r \"$2\" ] || exit 8\necho run >> ",
                        sandbox / "home/runs", "\nsleep 0.1\n", "cp -r ", sandbox / "tree", " \"$3\"\n"),
                    0755);
    }

    ImageMountRequest request(int fd,
                              engine::ImageMountPolicy policy = engine::ImageMountPolicy::kernel) const {
        return {.imageFd = fd,
                .imagePath = image,
                .policy = policy,
                .tempDir = sandbox / "tmp",
                .imageBuilderPath = sandbox / "builder",
                .serverPath = server,
                .target = sandbox / "mount"};
    }

    long filesystemType() const {
        struct statfs status {};
        EXPECT_EQ(::statfs((sandbox / "mount").c_str(), &status), 0);
        return status.f_type;
    }

    void expectMountedSafely() const {
        EXPECT_EQ(readFile(sandbox / "mount/hello"), "world");
        struct statvfs status {};
        ASSERT_EQ(::statvfs((sandbox / "mount").c_str(), &status), 0);
        EXPECT_EQ(status.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV),
                  static_cast<unsigned>(ST_RDONLY | ST_NOSUID | ST_NODEV));
    }

    /// The message with which mounting fails.
    static std::string mountError(const ImageMountRequest& request, Credentials& credentials) {
        try {
            mountImage(request, credentials);
        } catch (const Error& error) {
            return error.what();
        }
        ADD_FAILURE() << "no error";
        return {};
    }

    static bool isRunning(pid_t pid) {
        const auto path = cat("/proc/", pid, "/stat");
        return pathExists(path) && readFile(path).find(") Z ") == std::string::npos;
    }

    StarterSandbox sandbox;
    std::string image;
    std::string server = sandbox.imageServer();
};

/// A directory which root alone can change, as its parents.
class SitesDirectory {
public:
    SitesDirectory() : path(cat("/opt/sarus-unit-", ::getpid())) { createDirectories(path, 0755); }
    ~SitesDirectory() { removeTree(path); }
    std::string add(const std::string& image) const {
        replaceFile(path + "/image", readFile(image, 64U << 20U), 0644);
        return path + "/image";
    }

private:
    std::string path;
};

TEST_F(ImageMount, RootOwnedMeansChangedByRootAlone) {
    const SitesDirectory directory;
    const auto owned = directory.add(image);
    const auto isRootOwned = [&] { return isRootOwnedImage(openFile(owned, O_RDONLY).get()); };
    EXPECT_TRUE(isRootOwned());
    for (const mode_t mode : {0664U, 0646U}) {
        ::chmod(owned.c_str(), mode);
        EXPECT_FALSE(isRootOwned());
    }
    ::chmod(owned.c_str(), 0644);
    ASSERT_EQ(::chown(owned.c_str(), userId, 0), 0);
    EXPECT_FALSE(isRootOwned());
    EXPECT_FALSE(isRootOwnedImage(openFile("/", O_RDONLY).get()));
}

TEST_F(ImageMount, RootsFileInADirectoryOfOthersIsNotRootOwned) {
    ASSERT_EQ(::chown(image.c_str(), 0, 0), 0);
    ::chmod(image.c_str(), 0644);
    EXPECT_FALSE(isRootOwnedImage(openFile(image, O_RDONLY).get()));
}

TEST_F(ImageMount, AFileWhichThisNamespaceDoesNotShowIsNotRootOwned) {
    const SitesDirectory directory;
    const auto owned = directory.add(image);
    inMountNamespace([&] {
        const auto fd = openFile(owned, O_RDONLY);
        mountFilesystem("tmpfs", owned.substr(0, owned.rfind('/')), "tmpfs",
                        0);  // where the descriptor's path leads elsewhere
        EXPECT_FALSE(isRootOwnedImage(fd.get()));
        directory.add(image);
        EXPECT_FALSE(isRootOwnedImage(fd.get()));
    });
}

TEST_F(ImageMount, ThePolicyDecidesBetweenKernelAndFuse) {
    const auto typeWith = [&](engine::ImageMountPolicy policy, long expected) {
        asStarter(Caller::setUserId, [&](Credentials& credentials) {
            const auto fd = openFile(image, O_RDONLY);
            const auto mounted = mountImage(request(fd.get(), policy), credentials);
            EXPECT_EQ(filesystemType(), expected);
            expectMountedSafely();
        });
    };
    typeWith(engine::ImageMountPolicy::kernel, SQUASHFS_MAGIC);
    typeWith(engine::ImageMountPolicy::fuse, FUSE_SUPER_MAGIC);
    typeWith(engine::ImageMountPolicy::kernelForRootOwned, FUSE_SUPER_MAGIC);
    const SitesDirectory directory;
    image = directory.add(image);
    typeWith(engine::ImageMountPolicy::kernelForRootOwned, SQUASHFS_MAGIC);
}

TEST_F(ImageMount, TheKernelMountsNothingThatLiesOnFuse) {
    replaceFile(sandbox / "tree/inner", readFile(image), 0644);
    const auto outer = sandbox.makeImage("outer.squashfs");
    inMountNamespace([&] {
        createDirectories(sandbox / "fuse");
        const auto mounted =
            runAndCapture({.path = "/usr/bin/squashfuse",
                           .args = {"squashfuse", "-o", "allow_other", outer, sandbox / "fuse"}});
        ASSERT_TRUE(mounted.status.ok()) << mounted.err;
        const auto onFuse = openFile(sandbox / "fuse/inner", O_RDONLY);
        const auto plain = openFile(image, O_RDONLY);
        EXPECT_EQ(whyNotByKernel(onFuse.get()), "it is on a FUSE file system");
        EXPECT_EQ(whyNotByKernel(plain.get()), "");
    });
}

TEST_F(ImageMount, TheKernelMountsNothingOfAnotherMountNamespace) {
    inMountNamespace([&] {
        const auto before = openFile(image, O_RDONLY);
        ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
        const auto after = openFile(image, O_RDONLY);
        EXPECT_EQ(whyNotByKernel(before.get()), "it was opened in another mount namespace");
        EXPECT_EQ(whyNotByKernel(after.get()), "");
    });
}

TEST_F(ImageMount, WhatTheKernelMustNotMountIsServedThroughFuse) {
    asStarter(Caller::setUserId, [&](Credentials& credentials) {
        const auto fd = openFile(image, O_RDONLY);
        auto wanted = request(fd.get());
        wanted.whyNotByKernel = "it is on a FUSE file system";
        const auto mounted = mountImage(wanted, credentials);
        EXPECT_EQ(filesystemType(), FUSE_SUPER_MAGIC);
        expectMountedSafely();
    });
}

TEST_F(ImageMount, AnImageOnTheUsersOwnFuseMountIsServed) {
    replaceFile(sandbox / "tree/inner", readFile(image), 0644);
    const auto outer = sandbox.makeImage("outer.squashfs");
    createDirectories(sandbox / "fuse");
    asStarter(Caller::setUserId, [&](Credentials& credentials) {
        mountFuseForTheUserAlone(server, outer, sandbox / "fuse");
        const auto fd = credentials.asUser([&] { return openFile(sandbox / "fuse/inner", O_RDONLY); });
        struct stat status {};
        ASSERT_EQ(::fstat(fd.get(), &status), -1);
        ASSERT_EQ(errno, EACCES);
        auto wanted = request(fd.get());
        wanted.whyNotByKernel = whyNotByKernel(fd.get());
        EXPECT_EQ(wanted.whyNotByKernel, "it is on a FUSE file system");
        const auto mounted = mountImage(wanted, credentials);
        EXPECT_EQ(filesystemType(), FUSE_SUPER_MAGIC);
        expectMountedSafely();
    });
}

TEST_F(ImageMount, ThePrivilegedStarterRunsTheServerAsTheUser) {
    asStarter(Caller::setUserId, [&](Credentials& credentials) {
        const auto fd = openFile(image, O_RDONLY);
        const auto mounted = mountImage(request(fd.get(), engine::ImageMountPolicy::fuse), credentials);
        const auto status = readFile(cat("/proc/", mounted.helper.pid(), "/status"));
        EXPECT_NE(status.find(cat("Uid:\t", userId, '\t', userId, '\t', userId, '\t', userId)),
                  std::string::npos)
            << status;
        EXPECT_NE(status.find(cat("Gid:\t", groupId, '\t', groupId, '\t', groupId, '\t', groupId)),
                  std::string::npos)
            << status;
        EXPECT_NE(status.find("CapEff:\t0000000000000000"), std::string::npos) << status;
        EXPECT_NE(status.find("CapPrm:\t0000000000000000"), std::string::npos) << status;
        EXPECT_NE(status.find("NoNewPrivs:\t1"), std::string::npos) << status;
        credentials.asUser([&] { EXPECT_EQ(readFile(sandbox / "mount/hello"), "world"); });
    });
}

TEST_F(ImageMount, WithoutPrivilegesFilesBelongToTheCaller) {
    inMountNamespace([&] {
        allowFuse(sandbox);
        asStarter(Caller::rootless, [&](Credentials& credentials) {
            const auto fd = openFile(image, O_RDONLY);
            const auto mounted = mountImage(request(fd.get()), credentials);
            EXPECT_EQ(filesystemType(), FUSE_SUPER_MAGIC);
            expectMountedSafely();
            struct stat status {};
            ASSERT_EQ(::stat((sandbox / "mount/hello").c_str(), &status), 0);
            EXPECT_EQ(status.st_uid, 0U) << "the caller is 0 in this user namespace";
        });
    });
}

TEST_F(ImageMount, TheServerEndsWithTheStarterEvenIfThatIsKilled) {
    for (const auto caller : {Caller::setUserId, Caller::rootless}) {
        inMountNamespace([&] {
            allowFuse(sandbox);
            int pipe[2];
            ASSERT_EQ(::pipe(pipe), 0);
            const pid_t starter = ::fork();
            if (starter == 0) {
                // It is about to be killed; what the test library says about that is of no interest.
                ASSERT_NE(std::freopen("/dev/null", "w", stdout), nullptr);
                asStarter(caller, [&](Credentials& credentials) {
                    const auto fd = openFile(image, O_RDONLY);
                    const auto mounted =
                        mountImage(request(fd.get(), engine::ImageMountPolicy::fuse), credentials);
                    const pid_t pids[] = {mounted.helper.pid(), ::getpid()};
                    EXPECT_EQ(::write(pipe[1], pids, sizeof pids), static_cast<ssize_t>(sizeof pids));
                    ::pause();
                });
                ::_exit(1);
            }
            ::close(pipe[1]);  // end of file if the mount fails
            pid_t pids[2]{};
            ASSERT_EQ(::read(pipe[0], pids, sizeof pids), static_cast<ssize_t>(sizeof pids));
            EXPECT_TRUE(isRunning(pids[0]));
            ::kill(pids[1], SIGKILL);
            EXPECT_TRUE(test::eventually([&] { return !isRunning(pids[0]); }));
            ::waitpid(starter, nullptr, 0);
        });
    }
}

TEST_F(ImageMount, TheServerGetsNoDescriptorsButItsOwn) {
    asStarter(Caller::setUserId, [&](Credentials& credentials) {
        const auto secret = openFile("/etc/shadow", O_RDONLY);
        ASSERT_EQ(::fcntl(secret.get(), F_SETFD, 0), 0);
        const auto fd = openFile(image, O_RDONLY);
        const auto mounted = mountImage(request(fd.get(), engine::ImageMountPolicy::fuse), credentials);
        const auto list = runAndCapture(
            {.path = "/usr/bin/find",
             .args = {"find", cat("/proc/", mounted.helper.pid(), "/fd"), "-lname", "/etc/shadow"}});
        EXPECT_EQ(list.out, "");
    });
}

TEST_F(ImageMount, ADamagedImageIsAnErrorInTheServersWords) {
    auto damaged = readFile(image);
    std::fill(damaged.begin() + 60, damaged.begin() + 96, '\xff');
    replaceFile(image, damaged, 0644);
    asStarter(Caller::setUserId, [&](Credentials& credentials) {
        const auto fd = openFile(image, O_RDONLY);
        const auto error = mountError(request(fd.get(), engine::ImageMountPolicy::fuse), credentials);
        EXPECT_NE(
            error.find(cat("Failed to mount image ", image, ": sarus-squashfs: the image is damaged: ")),
            std::string::npos)
            << error;
        EXPECT_FALSE(pathExists(sandbox / "mount/hello"));
    });
}

TEST_F(ImageMount, AServerThatIsSlowToEndStillSaysWhy) {
    server = sandbox / "slow";
    replaceFile(server, "#!/bin/sh\nexec 4>&-\nsleep 1\necho 'the reason'\n", 0755);
    asStarter(Caller::setUserId, [&](Credentials& credentials) {
        const auto fd = openFile(image, O_RDONLY);
        EXPECT_EQ(mountError(request(fd.get(), engine::ImageMountPolicy::fuse), credentials),
                  cat("Failed to mount image ", image, ": the reason"));
    });
}

TEST_F(ImageMount, AServerThatNeverAnswersIsGivenUp) {
    server = sandbox / "hanging";
    replaceFile(server, "#!/bin/sh\nexec sleep 600\n", 0755);
    asStarter(Caller::setUserId, [&](Credentials& credentials) {
        const auto fd = openFile(image, O_RDONLY);
        auto hanging = request(fd.get(), engine::ImageMountPolicy::fuse);
        hanging.patience = std::chrono::seconds(1);
        EXPECT_EQ(mountError(hanging, credentials),
                  cat("Failed to mount image ", image, ": ", server, " did not answer within 1 s"));
        EXPECT_FALSE(pathExists(sandbox / "mount/hello"));
    });
}

TEST_F(ImageMount, ThePolicyFuseFailsClosedWithoutFuse) {
    asStarter(Caller::setUserId, [&](Credentials& credentials) {
        mountFilesystem("tmpfs", "/dev", "tmpfs", 0);
        const auto fd = openFile(image, O_RDONLY);
        EXPECT_EQ(
            mountError(request(fd.get(), engine::ImageMountPolicy::fuse), credentials),
            cat("Failed to mount image ", image, ": /dev/fuse cannot be used: No such file or directory"));
    });
}

class UnpackedImageTest : public ImageMount {
protected:
    /// /dev/fuse is root's alone in this process's namespace, so the rootless starter cannot use it.
    void run(const std::function<void(const MountedImage&)>& check) {
        inMountNamespace([&] {
            hideFuse();
            asStarter(Caller::rootless, [&](Credentials& credentials) {
                const auto fd = openFile(image, O_RDONLY);
                check(mountImage(request(fd.get()), credentials));
            });
        });
    }
    void hideFuse() const {
        createDirectories(sandbox / "dev");
        const auto file = sandbox / cat("dev/fuse-", ::getpid());  // several may start at once
        replaceFile(file, "", 0600);
        ASSERT_EQ(::mount(file.c_str(), "/dev/fuse", nullptr, MS_BIND, nullptr), 0);
    }
    std::size_t runsOfTheBuilder() const {
        const auto runs = sandbox / "home/runs";
        return pathExists(runs) ? readFile(runs).size() / 4 : 0;
    }
    std::string errorOfRun() {
        std::string message;
        const auto result = sandbox / "home/error";
        inMountNamespace([&] {
            hideFuse();
            asStarter(Caller::rootless, [&](Credentials& credentials) {
                const auto fd = openFile(image, O_RDONLY);
                try {
                    mountImage(request(fd.get()), credentials);
                } catch (const Error& error) {
                    replaceFile(result, error.what(), 0644);
                }
            });
        });
        return pathExists(result) ? readFile(result) : "no error";
    }
    std::string cache() const { return sandbox / cat("tmp/sarus-", userId, "/unpacked"); }
};

TEST_F(UnpackedImageTest, WithoutFuseTheImageIsUnpackedOnceForAllStarts) {
    for (int i = 0; i < 3; ++i) {
        run([&](const MountedImage&) { expectMountedSafely(); });
    }
    EXPECT_EQ(runsOfTheBuilder(), 1U);
}

TEST_F(UnpackedImageTest, TwoStartsAtOnceUnpackOnce) {
    std::vector<pid_t> starts;
    for (int i = 0; i < 4; ++i) {
        const pid_t pid = ::fork();
        if (pid == 0) {
            run([&](const MountedImage&) { expectMountedSafely(); });
            ::_exit(::testing::Test::HasFailure() ? 1 : 0);
        }
        starts.push_back(pid);
    }
    for (const pid_t pid : starts) {
        int status = -1;
        ::waitpid(pid, &status, 0);
        EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(runsOfTheBuilder(), 1U);
}

TEST_F(UnpackedImageTest, AChangedImageIsUnpackedAgain) {
    run([&](const MountedImage&) {});
    ASSERT_EQ(::utimensat(AT_FDCWD, image.c_str(), nullptr, 0), 0);
    run([&](const MountedImage&) {});
    EXPECT_EQ(runsOfTheBuilder(), 2U);
}

TEST_F(UnpackedImageTest, TheCacheIsPrivate) {
    run([&](const MountedImage&) {});
    for (const auto& path : {sandbox / cat("tmp/sarus-", userId), cache()}) {
        struct stat status {};
        ASSERT_EQ(::stat(path.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 07777U, 0700U);
        EXPECT_EQ(status.st_uid, userId);
    }
}

TEST_F(UnpackedImageTest, ADirectoryOfAnotherUserIsLeftAlone) {
    const auto foreign = sandbox / cat("tmp/sarus-", userId);
    createDirectories(foreign);
    ::chmod(foreign.c_str(), 0777);
    for (int start = 0; start < 2; ++start) {
        run([&](const MountedImage&) { expectMountedSafely(); });
    }
    EXPECT_EQ(runsOfTheBuilder(), 1U);
    EXPECT_EQ(::rmdir(foreign.c_str()), 0) << "something was put there";
}

TEST_F(UnpackedImageTest, ALinkOfAnotherUserIsNotFollowed) {
    ASSERT_EQ(::symlink((sandbox / "home").c_str(), (sandbox / cat("tmp/sarus-", userId)).c_str()), 0);
    run([&](const MountedImage&) { expectMountedSafely(); });
    EXPECT_FALSE(isDirectory(sandbox / "home/unpacked"));
}

TEST_F(UnpackedImageTest, AFailedUnpackingLeavesNothingAndShowsTheMessage) {
    replaceFile(sandbox / "builder", "#!/bin/sh\nmkdir \"$3\"; echo 'the image is damaged' >&2; exit 1\n",
                0755);
    EXPECT_EQ(errorOfRun(), cat("Failed to unpack image ", image, ": the image is damaged"));
    const auto left =
        runAndCapture({.path = "/usr/bin/find", .args = {"find", cache(), "-mindepth", "1", "-type", "d"}});
    EXPECT_EQ(left.out, "");
}

TEST_F(UnpackedImageTest, IsLockedAsLongAsItIsUsed) {
    run([&](const MountedImage& mounted) {
        EXPECT_TRUE(mounted.lock);
        const auto list =
            runAndCapture({.path = "/usr/bin/find", .args = {"find", cache(), "-name", "*.lock"}});
        const auto lock = std::string(trim(list.out));
        const auto other =
            runAndCapture({.path = "/usr/bin/flock", .args = {"flock", "-n", "-x", lock, "true"}});
        EXPECT_FALSE(other.status.ok());
    });
}

}  // namespace
}  // namespace sarus::starter::image_mount_as_root_test
