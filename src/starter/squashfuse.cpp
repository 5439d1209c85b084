#include "starter/squashfuse.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "starter/helper_process.hpp"
#include "starter/selinux.hpp"
#include "starter/squashfs_superblock.hpp"

namespace sarus::starter {

namespace {

/// squashfuse_ll first, which is faster; before version 0.2 it has no options for the owner and ends at once if it gets them.
std::vector<std::string> installedPrograms() {
    std::vector<std::string> programs;
    for (const std::string_view name : {"squashfuse_ll", "squashfuse"}) {
        for (const std::string_view directory : {"/usr/bin/", "/usr/local/bin/", "/bin/"}) {
            auto path = cat(directory, name);
            if (::access(path.c_str(), X_OK) == 0) {
                programs.push_back(std::move(path));
                break;
            }
        }
    }
    return programs;
}

std::string mountOptions(int fuse, const std::optional<std::string>& label, const Credentials& credentials) {
    auto options = cat("fd=", fuse, ",rootmode=40000,default_permissions,user_id=", credentials.ownerUid(),
                       ",group_id=", credentials.ownerGid());
    // The overlay looks at its lower layer as root, whom FUSE would lock out. Nobody else gets into this mount namespace.
    return credentials.privileged() ? withMountLabel(options + ",allow_other", label) : options;
}

HelperProcess::Setup serverSetup(const std::string& program, const ImageMountRequest& request, int fuse,
                                 const Credentials& credentials) {
    HelperProcess::Setup setup{
        .program = program, .args = {program, "-f"}, .descriptors = {request.imageFd, fuse}, .hidden = request.bundleDir};
    if (!credentials.privileged()) {
        setup.args.insert(setup.args.end(), {"-o", cat("uid=", credentials.ownerUid(), ",gid=", credentials.ownerGid())});
    }
    setup.args.insert(setup.args.end(), {"/proc/self/fd/3", "/dev/fd/4"});
    return setup;
}

/// One attempt with one program. False if the mount is not served; `output` says what the program said.
bool serve(const std::string& program, const ImageMountRequest& request, UniqueFd fuse, const std::string& options,
           const Credentials& credentials, Child& server, std::string& output) {
    const auto& target = request.target;
    HelperProcess helper(serverSetup(program, request, fuse.get(), credentials), credentials);
    // The helper has a mount namespace of its own by now, in which this mount does not appear.
    constexpr unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV;
    if (::mount("squashfuse", target.c_str(), "fuse.squashfuse", flags, options.c_str()) != 0) {
        throwErrno(cat("Failed to mount squashfuse on ", printable(target)));
    }
    helper.release();
    fuse.reset();  // so that the end of the server is the end of the connection
    // The kernel answers when the server does, or when it has gone.
    const UniqueFd root(::open(target.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (root) {
        server = helper.takeChild();
        return true;
    }
    ::umount2(target.c_str(), MNT_DETACH);
    output = helper.endAndGetOutput();
    return false;
}

}  // namespace

FuseMount mountThroughSquashfuse(const ImageMountRequest& request, const Credentials& credentials) {
    const auto superblock = readSquashfsSuperblock(request.imageFd, request.imagePath);
    FuseMount result;
    const auto programs = installedPrograms();
    if (programs.empty()) {
        result.whyNot = "squashfuse is not installed (Debian package: squashfuse)";
        return result;
    }
    std::string output;
    for (const auto& program : programs) {
        UniqueFd fuse(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
        if (!fuse) {
            result.whyNot = cat("/dev/fuse cannot be used: ", std::strerror(errno));
            return result;
        }
        const auto options = mountOptions(fuse.get(), request.label, credentials);
        try {
            result.mounted = serve(program, request, std::move(fuse), options, credentials, result.server, output);
        } catch (const Error& error) {
            if (error.errnum() != EPERM && error.errnum() != ENODEV) {
                throw;
            }
            result.whyNot = error.what();  // before Linux 4.18, or forbidden by the site
            return result;
        }
        if (result.mounted) {
            return result;
        }
        logDebug("Squashfuse", cat(program, ": ", output));
    }
    throw Error(cat("Failed to mount image ", printable(request.imagePath), " with ", programs.back(), ": ",
                    output.empty() ? "it ended without a message" : output),
                cat("the image file is damaged, or squashfuse was built without ", superblock.compression));
}

}  // namespace sarus::starter
