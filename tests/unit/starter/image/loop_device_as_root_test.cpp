#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "base/error.hpp"
#include "base/eventually.hpp"
#include "starter/image/loop_device.hpp"
#include "starter/starter_sandbox.hpp"

namespace sarus::starter::loop_device_as_root_test {
namespace {

using namespace sarus::test;

constexpr unsigned long diskSequence = _IOR(0x12, 128, std::uint64_t);

/// A file system that stops answering. The files in it are those of the sandbox's folder "tree".
class SilentServer {
public:
    explicit SilentServer(const StarterSandbox& sandbox) : directory(sandbox / "silent") {
        createDirectories(directory);
        const auto image = sandbox.makeImage("silent.squashfs");
        server = ::fork();
        if (server == 0) {
            ::execl("/usr/bin/squashfuse", "squashfuse", "-f", "-s", "-o", "attr_timeout=0,allow_other",
                    image.c_str(), directory.c_str(), nullptr);
            ::_exit(127);
        }
        test::eventually([&] { return pathExists(directory + "/hello"); });
    }
    SilentServer(const SilentServer&) = delete;
    SilentServer& operator=(const SilentServer&) = delete;
    ~SilentServer() {
        ::kill(server, SIGKILL);
        ::waitpid(server, nullptr, 0);
        ::umount2(directory.c_str(), MNT_DETACH);
    }

    std::string file(const std::string& name) const { return cat(directory, '/', name); }
    void stop() const { ::kill(server, SIGSTOP); }

private:
    std::string directory;
    pid_t server = -1;
};

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
        const auto output =
            runAndCapture({.path = "/usr/bin/find", .args = {"find", options.registryDir, "-type", "f"}});
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

    void expectNoWaitForAStranger(const std::function<void()>& prepare);

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
        if (::unshare(CLONE_NEWNS) == 0 &&
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) {
            mountOn("m1");
            ::kill(::getpid(), SIGKILL);
        }
        ::_exit(1);
    }
    ::waitpid(pid, nullptr, 0);
    EXPECT_TRUE(test::eventually([&] { return !backsAnyLoop(image); }));
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

/// A stale hint leads to a device which holds a file of somebody whose server does not answer.
void LoopDevice::expectNoWaitForAStranger(const std::function<void()>& prepare) {
    inMountNamespace([&] {
        prepare();
        mountOn("m1");
        const auto number = minor(deviceOf("m1"));
        ASSERT_EQ(::umount((sandbox / "m1").c_str()), 0);
        replaceFile(sandbox / "tree/hello", std::string(1U << 20U, 'x'), 0644);
        const SilentServer stranger(sandbox);
        const auto device = cat("/dev/loop", number);
        const auto attach = [&] {
            return runAndCapture(
                       {.path = "/sbin/losetup", .args = {"losetup", "-r", device, stranger.file("hello")}})
                .status.ok();
        };
        bool attached = attach();
        for (int i = 0; i < 100 && !attached; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            attached = attach();
        }
        if (!attached) {
            GTEST_SKIP() << "somebody else was faster to use " << device;
        }
        stranger.stop();
        const pid_t start = ::fork();
        if (start == 0) {
            mountOn("m2");
            ::_exit(readFile(sandbox / "m2/hello") == "world" ? 0 : 1);
        }
        int status = -1;
        pid_t ended = 0;
        test::eventually([&] { return ended != 0 || (ended = ::waitpid(start, &status, WNOHANG)) != 0; });
        EXPECT_EQ(ended, start) << "it waits for the stranger's server";
        EXPECT_EQ(status, 0);
        const auto node = openFile(device, O_RDONLY);
        ::ioctl(node.get(), LOOP_CLR_FD, 0);
    });
}

TEST_F(LoopDevice, AStrangersFileServerIsNeverAsked) {
    expectNoWaitForAStranger([] {});
}

TEST_F(LoopDevice, AStrangersFileServerIsNotWaitedForWithoutDiskSequences) {
    expectNoWaitForAStranger([] { failIoctl(diskSequence, ENOTTY); });
}

TEST_F(LoopDevice, ContainersShareADeviceWithoutDiskSequences) {
    inMountNamespace([&] {
        failIoctl(diskSequence, ENOTTY);
        mountOn("m1");
        mountOn("m2");
        EXPECT_EQ(deviceOf("m1"), deviceOf("m2"));
    });
}

TEST_F(LoopDevice, ADeviceThatIsNotReadonlyAndAutoclearIsNotShared) {
    inMountNamespace([&] {
        mountOn("m1");
        const auto hint = hintPath();
        const auto attach =
            runAndCapture({.path = "/sbin/losetup", .args = {"losetup", "--show", "-f", image}});  // writable
        const auto device = std::string(trim(attach.out));
        const auto node = openFile(device, O_RDONLY);
        std::uint64_t sequence = 0;
        ASSERT_EQ(::ioctl(node.get(), diskSequence, &sequence), 0);
        replaceFile(hint, cat(device.substr(std::string("/dev/loop").size()), ' ', sequence, '\n'), 0600);
        mountOn("m2");
        EXPECT_NE(minor(deviceOf("m2")), *parseNumber(device.substr(std::string("/dev/loop").size())));
        runAndCapture({.path = "/sbin/losetup", .args = {"losetup", "-d", device}});
    });
}

TEST_F(LoopDevice, GarbageInAHintIsNoError) {
    inMountNamespace([&] {
        mountOn("m1");
        const std::vector<std::string> texts{"",     "x",         "0",    "99999999 1",
                                             "-1 1", "1048575 1", "0 -1", std::string(4096, '7')};
        for (const auto& garbage : texts) {
            replaceFile(hintPath(), garbage, 0600);
            mountOn("m2");
            EXPECT_EQ(readFile(sandbox / "m2/hello"), "world") << garbage;
            ASSERT_EQ(::umount((sandbox / "m2").c_str()), 0);  // nodes may have few loop devices
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

TEST_F(LoopDevice, HintsOfATouchedImageDoNotAccumulate) {
    const auto starts = [&](int count) {
        for (int start = 0; start < count; ++start) {
            ASSERT_EQ(::utimensat(AT_FDCWD, image.c_str(), nullptr, 0), 0);
            mountOn("m1");
            ASSERT_EQ(::umount((sandbox / "m1").c_str()), 0);
        }
    };
    const auto hints = [&] {
        const auto found = hintPath();
        return std::count(found.begin(), found.end(), '\n') + 1;
    };
    const auto expectFew = [&] {
        starts(150);
        EXPECT_LE(hints(), 65);
    };
    inMountNamespace(expectFew);
    inMountNamespace([&] {
        failIoctl(diskSequence, ENOTTY);
        expectFew();
    });
}

TEST_F(LoopDevice, HintsOfImagesInUseAreKept) {
    inMountNamespace([&] {
        mountOn("m1");
        const auto used = hintPath();
        for (int i = 0; i < 100; ++i) {
            replaceFile(sandbox / "registry/" + std::to_string(i), "0 1\n", 0600);
        }
        replaceFile(sandbox / "tree/hello", "other", 0644);
        mountOn("m2", sandbox.makeImage("other.squashfs"));
        EXPECT_TRUE(pathExists(used));
        EXPECT_FALSE(pathExists(sandbox / "registry/50"));
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
        EXPECT_NE(
            std::string(errorOf([&] { mountOn("m1", sandbox / "text"); }).what()).find("not a squashfs file"),
            std::string::npos);
        EXPECT_NE(std::string(errorOf([&] { mountOn("m1", sandbox / "short"); }).what())
                      .find("not a squashfs file"),
                  std::string::npos);
        EXPECT_NE(
            std::string(errorOf([&] { mountOn("m1", sandbox / "truncated"); }).what()).find("truncated"),
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

TEST_F(LoopDevice, TheReasonsOfARefusedMountAreTold) {
    const auto zstd = sandbox.makeImage("zstd.squashfs", {"-comp", "zstd"});
    const auto hintOf = [&](const std::string& path, int error) {
        std::string hint;
        failSystemCalls({SYS_mount}, error);
        const auto refused = errorOf([&] { mountOn("m1", path); });
        EXPECT_EQ(std::string(refused.what()).find(cat("Failed to mount image ", path, ": ")), 0U)
            << refused.what();
        return refused.hint();
    };
    constexpr const char* damaged = "The image file is damaged: remove it with 'sarus rmi' and pull it again";
    inMountNamespace([&] {
        EXPECT_EQ(hintOf(image, ENODEV),
                  "The kernel has no squashfs (modprobe squashfs); or set \"imageMount\" to \"fuse\" in "
                  "sarus.json");
    });
    inMountNamespace([&] {
        EXPECT_EQ(hintOf(zstd, EINVAL),
                  "The image is damaged, or the kernel cannot read squashfs compressed with zstd: then set "
                  "\"mksquashfsOptions\" to "
                  "\"-comp gzip\" in sarus.json and pull the image again");
    });
    inMountNamespace([&] { EXPECT_EQ(hintOf(image, EINVAL), damaged) << "gzip is what every kernel knows"; });
    inMountNamespace([&] { EXPECT_EQ(hintOf(zstd, EIO), damaged); });
    EXPECT_FALSE(backsAnyLoop(image) || backsAnyLoop(zstd)) << "the device is detached";
}

/// From now on mount(2) fails in this thread with EINVAL if its options name this one: as on kernels which do
/// not know it. Returns what the calls asked for, complete when `stop` was called.
class RefusedMountOption {
public:
    explicit RefusedMountOption(const std::string& option) {
        std::vector<sock_filter> program{
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mount, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
        // The answering thread must not be under the filter.
        answering = std::thread([this, option] { answer(option); });
        EXPECT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        listener = static_cast<int>(
            ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter));
        EXPECT_GE(listener.load(), 0);
    }
    RefusedMountOption(const RefusedMountOption&) = delete;
    RefusedMountOption& operator=(const RefusedMountOption&) = delete;
    ~RefusedMountOption() {
        ended = true;
        answering.join();
    }

    std::vector<std::string> asked;  ///< the options of each call

private:
    void answer(const std::string& option) {
        while (!ended) {
            pollfd ready{listener, POLLIN, 0};
            if (listener < 0 || ::poll(&ready, 1, 1) != 1) {
                std::this_thread::yield();
                continue;
            }
            seccomp_notif call{};
            if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
                continue;
            }
            // NOLINTNEXTLINE(performance-no-int-to-ptr): an argument of the call, in this process
            asked.emplace_back(reinterpret_cast<const char*>(call.data.args[4]));
            const bool refused = asked.back().find(option) != std::string::npos;
            // 1: SECCOMP_USER_NOTIF_FLAG_CONTINUE
            seccomp_notif_resp response{
                .id = call.id, .val = 0, .error = refused ? -EINVAL : 0, .flags = refused ? 0U : 1U};
            ::ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
        }
    }

    std::atomic<bool> ended = false;
    std::atomic<int> listener = -1;
    std::thread answering;
};

TEST_F(LoopDevice, KernelsThatCannotChooseDecompressorsMountWithTheirOwn) {
    inMountNamespace([&] {
        std::vector<std::string> asked;
        {
            RefusedMountOption refused("threads=");
            mountOn("m1");
            mountOn("m2");
            asked = refused.asked;
        }
        EXPECT_EQ(asked, (std::vector<std::string>{"threads=percpu", "", "threads=percpu", ""}));
        EXPECT_EQ(readFile(sandbox / "m1/hello"), "world");
        EXPECT_EQ(deviceOf("m1"), deviceOf("m2"));
    });
}

}  // namespace
}  // namespace sarus::starter::loop_device_as_root_test
