#pragma once

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "base/file_io.hpp"
#include "base/isolated_process.hpp"
#include "base/mounts.hpp"
#include "base/subprocess.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "starter/entry/credentials.hpp"

namespace sarus::test {

constexpr uid_t userId = 54321;
constexpr gid_t groupId = 54322;

/// What a test runs as the starter: in a private mount namespace, called by the user 54321.
enum class Caller { setUserId, rootless, root };

/// Runs `body` in a child which is in the starter's state right after it has made its namespaces.
inline void asStarter(Caller caller, const std::function<void(starter::Credentials&)>& body) {
    inMountNamespace([&] {
        ::umask(022);
        ASSERT_EQ(::chdir("/"), 0);
        if (caller == Caller::root) {
            auto credentials = starter::Credentials::acquire(starter::Mode::privileged);
            body(credentials);
            return;
        }
        ASSERT_EQ(::setgroups(0, nullptr), 0);
        if (caller == Caller::setUserId) {
            ASSERT_EQ(::setresgid(groupId, 0, 0), 0);
            ASSERT_EQ(::setresuid(userId, 0, 0), 0);
            auto credentials = starter::Credentials::acquire(starter::Mode::privileged);
            body(credentials);
            return;
        }
        ASSERT_EQ(::setresgid(groupId, groupId, groupId), 0);
        ASSERT_EQ(::setresuid(userId, userId, userId), 0);
        ASSERT_EQ(::prctl(PR_SET_DUMPABLE, 1), 0);
        auto credentials = starter::Credentials::acquire(starter::Mode::rootless);
        ASSERT_EQ(::unshare(CLONE_NEWUSER | CLONE_NEWNS), 0);
        const auto write = [](const char* path, const std::string& text) {
            writeAll(openFile(path, O_WRONLY).get(), text, path);
        };
        write("/proc/self/setgroups", "deny");
        write("/proc/self/uid_map", cat("0 ", userId, " 1"));
        write("/proc/self/gid_map", cat("0 ", groupId, " 1"));
        credentials.enteredUserNamespace();
        body(credentials);
    });
}

/// A directory that everybody may enter, with an installation prefix, a bundle directory and room for images.
class StarterSandbox {
public:
    StarterSandbox() {
        ::chmod(directory.path().c_str(), 0755);
        createDirectories(directory / "prefix/etc/container");
        replaceFile(directory / "prefix/etc/container/nsswitch.conf", "passwd: files\n", 0644);
        replaceFile(directory / "prefix/etc/passwd", "root:x:0:0::/root:/bin/sh\n", 0644);
        replaceFile(directory / "prefix/etc/group", "root:x:0:\n", 0644);
        createDirectories(directory / "bundle");
        createDirectories(directory / "userBundle");
        createDirectories(directory / "home");
        createDirectories(directory / "tree");
        for (const char* name : {"home", "userBundle"}) {
            EXPECT_EQ(::chown((directory / name).c_str(), userId, groupId), 0);
        }
    }

    std::string operator/(const std::string& name) const { return directory / name; }

    /// Makes a squashfs of the directory "tree", all files owned by the user as after a pull, and returns its
    /// path.
    /// A copy of sarus-squashfs that every user can execute.
    std::string imageServer() const {
        const auto copy = *this / "sarus-squashfs";
        if (!pathExists(copy)) {
            const auto tests = ownProgramPath();
            const auto build = tests.substr(0, tests.rfind('/', tests.rfind('/') - 1));
            replaceFile(copy, readFile(build + "/sarus-squashfs", std::size_t{256} << 20U), 0755);
        }
        return copy;
    }
    std::string makeImage(const std::string& name = "image.squashfs",
                          const std::vector<std::string>& more = {}) const {
        const auto image = directory / name;
        std::vector<std::string> args{"mksquashfs", directory / "tree", image,        "-noappend",
                                      "-quiet",     "-no-progress",     "-force-uid", cat(userId),
                                      "-force-gid", cat(groupId)};
        args.insert(args.end(), more.begin(), more.end());
        const auto output = runAndCapture({.path = "/usr/bin/mksquashfs", .args = args});
        EXPECT_TRUE(output.status.ok()) << output.out << output.err;
        EXPECT_EQ(::chown(image.c_str(), userId, groupId), 0);
        return image;
    }

private:
    TemporaryDirectory directory;
};

/// Puts a world-accessible /dev/fuse in place of this machine's, in the calling child's mount namespace.
inline void allowFuse(const StarterSandbox& sandbox) {
    createDirectories(sandbox / "fuse");
    mountFilesystem("tmpfs", sandbox / "fuse", "tmpfs", 0, "mode=755");
    const auto node = sandbox / "fuse/fuse";
    ASSERT_EQ(::mknod(node.c_str(), S_IFCHR | 0666, ::makedev(10, 229)), 0);
    ASSERT_EQ(::chmod(node.c_str(), 0666), 0);
    ASSERT_EQ(::mount(node.c_str(), "/dev/fuse", nullptr, MS_BIND, nullptr), 0);
}

/// Mounts a squashfs file through sarus-squashfs (`server`) as the user's own FUSE filesystem, without
/// allow_root: even root gets EACCES there.
inline void mountFuseForTheUserAlone(const std::string& server, const std::string& image,
                                     const std::string& target) {
    const auto file = openFile(image, O_RDONLY);
    const UniqueFd fuse(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    const auto options = cat("fd=", fuse.get(), ",rootmode=40000,user_id=", userId, ",group_id=", groupId);
    ASSERT_EQ(::mount("test", target.c_str(), "fuse", MS_NOSUID, options.c_str()), 0);
    start({.path = server,
           .args = {"sarus-squashfs", cat("/dev/fd/", file.get()), cat("/dev/fd/", fuse.get())},
           .keepFds = {file.get(), fuse.get()}})
        .release();  // dies with this process
}

}  // namespace sarus::test
