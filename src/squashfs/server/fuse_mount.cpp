#include "squashfs/server/fuse_mount.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/error.hpp"
#include "base/received_message.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"

namespace sarus::squashfs {

namespace {

constexpr const char* serverName = "sarus-squashfs";

FuseMount mountByFusermount(const std::string& mountPoint, bool allowOther) {
    const auto program = findProgram("fusermount3");
    if (!program) {
        throw Error(cat("Failed to mount on ", printable(mountPoint), ": no permission"),
                    "Install fusermount3 (Debian package: fuse3)");
    }
    std::array<int, 2> ends{};
    checkErrno(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()),
               "Failed to create a socket pair");
    UniqueFd own(ends[0]);
    UniqueFd other(ends[1]);
    const auto options = cat("ro,nosuid,nodev,default_permissions,auto_unmount,fsname=", serverName,
                             ",subtype=", serverName, allowOther ? ",allow_other" : "");
    auto child = start({.path = *program,
                        .args = {"fusermount3", "-o", options, "--", mountPoint},
                        .environment = std::vector{cat("_FUSE_COMMFD=", other.get())},
                        .keepFds = {other.get()},
                        .dieWithParent = false});
    other.reset();
    std::array<char, 1> byte{};
    auto device = receiveMessage(own.get(), byte).takeDescriptor();
    if (!device) {
        child.wait();
        throw Error(cat("Failed to mount on ", printable(mountPoint), ": fusermount3 failed"));
    }
    child.release();  // waits until this process ends, and unmounts
    return {.device = std::move(device), .fusermount = std::move(own)};
}

}  // namespace

FuseMount mountFuse(const std::string& mountPoint, bool allowOther) {
    UniqueFd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    if (!device && errno != EACCES) {
        throwErrno("Failed to open /dev/fuse");
    }
    if (device) {
        const auto options =
            cat("fd=", device.get(), ",rootmode=40000,default_permissions,user_id=", ::getuid(),
                ",group_id=", ::getgid(), allowOther ? ",allow_other" : "");
        if (::mount(serverName, mountPoint.c_str(), cat("fuse.", serverName).c_str(),
                    MS_RDONLY | MS_NOSUID | MS_NODEV, options.c_str()) == 0) {
            return {.device = std::move(device), .fusermount = {}};
        }
        if (errno != EPERM) {
            throwErrno(cat("Failed to mount on ", printable(mountPoint)));
        }
    }
    return mountByFusermount(mountPoint, allowOther);
}

}  // namespace sarus::squashfs
