#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/error.hpp"
#include "starter/loop_device.hpp"
#include "starter/starter_sandbox.hpp"

namespace sarus::starter {
namespace {

using namespace sarus::test;

class LoopDevice : public ::testing::Test {
protected:
    void SetUp() override {
        replaceFile(sandbox / "tree/hello", "world", 0644);
        image = sandbox.makeImage();
        for (const char* name : {"m1", "m2", "m3"}) {
            createDirectories(sandbox / name);
        }
        options.registryDir = sandbox / "registry";
        options.lockTimeout = std::chrono::milliseconds(50);
    }

    void mountOn(const std::string& target, const std::string& path) const {
        const auto fd = openFile(path, O_RDONLY);
        mountThroughLoopDevice(fd.get(), path, sandbox / target, options);
    }
    void mountOn(const std::string& target) const { mountOn(target, image); }

    dev_t deviceOf(const std::string& target) const {
        struct stat status {};
        EXPECT_EQ(::stat((sandbox / target).c_str(), &status), 0);
        return status.st_dev;
    }

    std::string hintPath() const {
        const auto output = runAndCapture(
            {.path = "/usr/bin/find", .args = {"find", options.registryDir, "-type", "f", "!", "-name", "last-sweep"}});
        return std::string(trim(output.out));
    }

    static bool backsAnyLoop(const std::string& path) {
        const auto output = runAndCapture({.path = "/sbin/losetup", .args = {"losetup", "-j", path}});
        return !trim(output.out).empty();
    }

    static Error errorOf(const std::function<void()>& action) {
        try {
            action();
        } catch (const Error& error) {
            return error;
        }
        return Error("no error");
    }

    StarterSandbox sandbox;
    std::string image;
    LoopMountOptions options;
};

TEST_F(LoopDevice, MountsReadonlyNosuidNodev) {
    inMountNamespace([&] {
        mountOn("m1");
        EXPECT_EQ(readFile(sandbox / "m1/hello"), "world");
        const auto mounts = readFile("/proc/self/mounts");
        const auto line = mounts.substr(mounts.find(sandbox / "m1"));
        EXPECT_NE(line.find("squashfs ro,nosuid,nodev"), std::string::npos) << line;
    });
}

TEST_F(LoopDevice, ContainersOfTheSameFileShareOneSuperblock) {
    inMountNamespace([&] {
        mountOn("m1");
        mountOn("m2");
        EXPECT_EQ(deviceOf("m1"), deviceOf("m2"));
        inMountNamespace([&] {
            mountOn("m3");
            EXPECT_EQ(deviceOf("m1"), deviceOf("m3"));
        });
    });
}

TEST_F(LoopDevice, IsDetachedWithTheLastMountAlsoAfterAKill) {
    const pid_t pid = ::fork();
    if (pid == 0) {
        if (::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) {
            mountOn("m1");
            ::kill(::getpid(), SIGKILL);
        }
        ::_exit(1);
    }
    ::waitpid(pid, nullptr, 0);
    for (int i = 0; i < 500 && backsAnyLoop(image); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_FALSE(backsAnyLoop(image));
    inMountNamespace([&] {  // the hint that was left is no longer true, and does no harm
        mountOn("m1");
        EXPECT_EQ(readFile(sandbox / "m1/hello"), "world");
    });
}

TEST_F(LoopDevice, AChangedFileIsNotServedFromTheOldDevice) {
    inMountNamespace([&] {
        mountOn("m1");
        replaceFile(sandbox / "tree/hello", "changed", 0644);
        ASSERT_EQ(::unlink(image.c_str()), 0);
        sandbox.makeImage();
        mountOn("m2");
        EXPECT_EQ(readFile(sandbox / "m1/hello"), "world");
        EXPECT_EQ(readFile(sandbox / "m2/hello"), "changed");
    });
}

TEST_F(LoopDevice, AHintAtTheDeviceOfAnotherFileIsNotBelieved) {
    replaceFile(sandbox / "tree/hello", "other", 0644);
    const auto other = sandbox.makeImage("other.squashfs");
    inMountNamespace([&] {
        mountOn("m1", other);
        const auto otherHint = hintPath();
        const auto number = readFile(otherHint);
        ASSERT_EQ(::unlink(otherHint.c_str()), 0);
        inMountNamespace([&] { mountOn("m2"); });
        replaceFile(hintPath(), number, 0600);
        mountOn("m2");
        EXPECT_EQ(readFile(sandbox / "m2/hello"), "world");
    });
}

TEST_F(LoopDevice, ADeviceThatIsNotReadonlyAndAutoclearIsNotShared) {
    inMountNamespace([&] {
        mountOn("m1");
        const auto hint = hintPath();
        const auto attach = runAndCapture({.path = "/sbin/losetup", .args = {"losetup", "--show", "-f", image}});  // writable
        const auto device = std::string(trim(attach.out));
        replaceFile(hint, cat(device.substr(std::string("/dev/loop").size()), '\n'), 0600);
        mountOn("m2");
        EXPECT_NE(minor(deviceOf("m2")), *parseNumber(device.substr(std::string("/dev/loop").size())));
        runAndCapture({.path = "/sbin/losetup", .args = {"losetup", "-d", device}});
    });
}

TEST_F(LoopDevice, GarbageInAHintIsNoError) {
    inMountNamespace([&] {
        mountOn("m1");
        for (const std::string garbage : {"", "x", "99999999", "-1", "1048575", std::string(4096, '7').c_str()}) {
            replaceFile(hintPath(), garbage, 0600);
            mountOn("m2");
            EXPECT_EQ(readFile(sandbox / "m2/hello"), "world") << garbage;
        }
    });
}

TEST_F(LoopDevice, WhatIsBoundIsSharedWithoutALock) {
    inMountNamespace([&] {
        mountOn("m1");
        const auto stopped = openFile(hintPath(), O_RDWR);
        ASSERT_EQ(::flock(stopped.get(), LOCK_EX), 0);
        mountOn("m2");
        EXPECT_EQ(deviceOf("m1"), deviceOf("m2"));
    });
}

TEST_F(LoopDevice, ALockThatIsNeverReleasedCostsOneMoreDevice) {
    inMountNamespace([&] {
        mountOn("m1");
        const auto first = hintPath();
        replaceFile(first, "", 0600);  // as its owner leaves it who was stopped before he wrote the number
        const auto stopped = openFile(first, O_RDWR);
        ASSERT_EQ(::flock(stopped.get(), LOCK_EX), 0);
        mountOn("m2");
        EXPECT_NE(deviceOf("m1"), deviceOf("m2"));
        const auto shared = deviceOf("m2");
        ASSERT_EQ(::umount((sandbox / "m1").c_str()), 0);
        mountOn("m1");
        EXPECT_EQ(deviceOf("m1"), shared);
    });
}

TEST_F(LoopDevice, WhereAllLocksAreHeldADeviceOfItsOwnIsUsed) {
    inMountNamespace([&] {
        mountOn("m1");
        const auto first = hintPath();
        std::vector<UniqueFd> locks;
        for (const auto* suffix : {"", ".1", ".2", ".3"}) {
            replaceFile(first + suffix, "", 0600);
            locks.push_back(openFile(first + suffix, O_RDWR));
            ASSERT_EQ(::flock(locks.back().get(), LOCK_EX), 0);
        }
        mountOn("m2");
        EXPECT_NE(deviceOf("m1"), deviceOf("m2"));
        EXPECT_EQ(readFile(sandbox / "m2/hello"), "world");
    });
}

TEST_F(LoopDevice, ARegistryOfSomebodyElseIsNotUsed) {
    createDirectories(options.registryDir);
    ASSERT_EQ(::chown(options.registryDir.c_str(), userId, groupId), 0);
    inMountNamespace([&] {
        mountOn("m1");
        EXPECT_EQ(hintPath(), "");
        EXPECT_EQ(readFile(sandbox / "m1/hello"), "world");
    });
}

TEST_F(LoopDevice, TheRegistryBelongsToRootAlone) {
    inMountNamespace([&] {
        mountOn("m1");
        struct stat status {};
        ASSERT_EQ(::stat(options.registryDir.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 07777U, 0700U);
        EXPECT_EQ(status.st_uid, 0U);
    });
}

TEST_F(LoopDevice, ARegistryBelowADirectoryOfSomebodyElseIsNotUsed) {
    createDirectories(sandbox / "home/own");
    options.registryDir = sandbox / "home/own/registry";
    inMountNamespace([&] {
        mountOn("m1");
        EXPECT_FALSE(pathExists(options.registryDir));
    });
}

TEST_F(LoopDevice, HintsOfLongAgoAreSwept) {
    createDirectories(options.registryDir, 0700);
    replaceFile(sandbox / "registry/old", "0\n", 0600);
    replaceFile(sandbox / "registry/recent", "0\n", 0600);
    const timespec longAgo[] = {{1000000000, 0}, {1000000000, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, (sandbox / "registry/old").c_str(), longAgo, 0), 0);
    inMountNamespace([&] {
        mountOn("m1");
        EXPECT_FALSE(pathExists(sandbox / "registry/old"));
        EXPECT_TRUE(pathExists(sandbox / "registry/recent"));
    });
}

TEST_F(LoopDevice, HintsAreSweptOnceADay) {
    createDirectories(options.registryDir, 0700);
    const timespec longAgo[] = {{1000000000, 0}, {1000000000, 0}};
    const auto age = [&](const char* name) {
        const std::string path = sandbox / "registry" + std::string("/") + name;
        replaceFile(path, "0\n", 0600);
        ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), longAgo, 0), 0);
    };
    inMountNamespace([&] {
        mountOn("m1");
        ASSERT_EQ(::umount((sandbox / "m1").c_str()), 0);
        age("old");
        mountOn("m1");
        EXPECT_TRUE(pathExists(sandbox / "registry/old"));
        ASSERT_EQ(::umount((sandbox / "m1").c_str()), 0);
        age("last-sweep");
        mountOn("m1");
        EXPECT_FALSE(pathExists(sandbox / "registry/old"));
    });
}

TEST_F(LoopDevice, WorksOnKernelsWithoutLoopConfigure) {
    inMountNamespace([&] {
        failIoctl(LOOP_CONFIGURE, EINVAL);
        mountOn("m1");
        mountOn("m2");
        EXPECT_EQ(readFile(sandbox / "m1/hello"), "world");
        EXPECT_EQ(deviceOf("m1"), deviceOf("m2"));
    });
    EXPECT_FALSE(backsAnyLoop(image));
}

TEST_F(LoopDevice, SaysThatThereIsNoFreeDevice) {
    inMountNamespace([&] {
        failIoctl(LOOP_CTL_GET_FREE, ENOSPC);
        const auto error = errorOf([&] { mountOn("m1"); });
        EXPECT_STREQ(error.what(), "Failed to find a free loop device: No space left on device");
        EXPECT_NE(error.hint().find("imageMount"), std::string::npos);
    });
}

TEST_F(LoopDevice, ManyStartsAtOnceShareOneDevice) {
    inMountNamespace([&] {
        options.lockTimeout = std::chrono::seconds(20);
        mountOn("m1");
        const auto expected = deviceOf("m1");
        std::vector<pid_t> starts;
        for (int i = 0; i < 32; ++i) {
            const pid_t pid = ::fork();
            if (pid == 0) {
                try {
                    if (::unshare(CLONE_NEWNS) != 0) {
                        ::_exit(3);
                    }
                    mountOn("m2");
                    ::_exit(deviceOf("m2") == expected ? 0 : 1);
                } catch (const Error&) {
                    ::_exit(2);
                }
            }
            starts.push_back(pid);
        }
        for (const pid_t pid : starts) {
            int status = -1;
            ::waitpid(pid, &status, 0);
            EXPECT_EQ(status, 0);
        }
    });
}

TEST_F(LoopDevice, BadImagesAreRefusedWithAClearMessage) {
    const auto whole = readFile(image);
    replaceFile(sandbox / "text", std::string(8192, 'x'), 0644);
    replaceFile(sandbox / "short", whole.substr(0, 50), 0644);
    replaceFile(sandbox / "truncated", whole.substr(0, 200), 0644);
    auto damaged = whole;
    std::fill(damaged.begin() + 60, damaged.begin() + 96, '\xff');  // the positions of all tables
    replaceFile(sandbox / "damaged", damaged, 0644);
    inMountNamespace([&] {
        EXPECT_NE(std::string(errorOf([&] { mountOn("m1", sandbox / "text"); }).what()).find("not a squashfs file"),
                  std::string::npos);
        EXPECT_NE(std::string(errorOf([&] { mountOn("m1", sandbox / "short"); }).what()).find("not a squashfs file"),
                  std::string::npos);
        EXPECT_NE(std::string(errorOf([&] { mountOn("m1", sandbox / "truncated"); }).what()).find("truncated"),
                  std::string::npos);
        const auto error = errorOf([&] { mountOn("m1", sandbox / "damaged"); });
        EXPECT_NE(std::string(error.what()).find("Failed to mount image"), std::string::npos) << error.what();
        EXPECT_NE(error.hint().find("damaged"), std::string::npos);
    });
    EXPECT_FALSE(backsAnyLoop(sandbox / "damaged"));
}

TEST_F(LoopDevice, ACompressionThatTheKernelLacksIsNamed) {
    auto foreign = readFile(image);
    foreign[20] = 2;  // lzma, which only the format knows
    replaceFile(sandbox / "lzma", foreign, 0644);
    inMountNamespace([&] {
        const auto error = errorOf([&] { mountOn("m1", sandbox / "lzma"); });
        EXPECT_NE(error.hint().find("compressed with lzma"), std::string::npos) << error.hint();
        EXPECT_NE(error.hint().find("mksquashfsOptions"), std::string::npos);
    });
}

}  // namespace
}  // namespace sarus::starter
