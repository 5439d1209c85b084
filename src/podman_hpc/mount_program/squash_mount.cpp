#include "podman_hpc/mount_program/squash_mount.hpp"

#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "node/fuse.hpp"
#include "node/loop_device.hpp"
#include "podman_hpc/mount_program/server.hpp"

namespace sarus::podman_hpc {

namespace {

constexpr unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV;

constexpr std::string_view theKernel;

/// What can mount the file, best first. Old configurations name one.
std::vector<std::string> waysToMount(const SquashLayer& layer) {
    if (auto named = nonEmptyHostVariable("SQUASHFUSE_BIN")) {
        return {std::move(*named)};
    }
    std::vector<std::string> ways;
    if (layer.isRootsOwn && isRealRoot()) {
        ways.emplace_back(theKernel);
    }
    auto directory = ownProgramPath();
    directory.resize(directory.rfind('/'));
    for (const auto* const name : {"/sarus-squashfs", "/../libexec/sarus-squashfs"}) {
        if (auto path = directory + name; ::access(path.c_str(), X_OK) == 0) {
            ways.push_back(std::move(path));
            break;
        }
    }
    for (const auto* const name : {"squashfuse_ll", "squashfuse"}) {
        if (auto program = findProgram(name, "/usr/bin:/usr/local/bin:/bin")) {
            ways.push_back(std::move(*program));
        }
    }
    return ways;
}

/// A mount of a loop device that is in use has the filesystem and the memory of the others: nothing is
/// attached, read or unpacked once more.
std::optional<SquashMount> mountThroughKernel(const SquashLayer& layer, const std::string& directory,
                                              std::string& why) {
    try {
        if (const auto device = node::findLoopDevice(layer.file.get());
            device && node::mountLoopDevice(*device, directory, {})) {
            return SquashMount{};
        }
        const auto device = node::attachLoopDevice(layer.file.get(), "install squashfuse");
        if (node::mountLoopDevice(device, directory, {})) {
            return SquashMount{.server = nullptr, .isFirstOfKernel = true};
        }
        why = Error::fromErrno("the kernel cannot mount it", errno).what();
    } catch (const Error& error) {
        why = error.what();
    }
    return std::nullopt;
}

/// In the server's process: it must not keep other containers' files alive. Real root's server gets the
/// rights of the file's owner.
void becomeOwner(const SquashLayer& layer, const std::vector<std::string>& hidden) {
    checkErrno(::unshare(CLONE_NEWNS), "Failed to create a mount namespace");
    hideMounts(hidden);
    if (layer.owner != 0 && isRealRoot()) {
        constexpr gid_t nobodys = 65534;  // not root's group, which may read what the owner may not
        const auto user = layer.owner;
        const auto group = layer.group != 0 ? layer.group : nobodys;
        checkErrno(::setgroups(0, nullptr), "Failed to take on the owner's rights");
        checkErrno(::setresgid(group, group, group), "Failed to take on the owner's rights");
        checkErrno(::setresuid(user, user, user), "Failed to take on the owner's rights");
    }
}

/// Empty if the program does not serve the mount; `why` says why.
std::unique_ptr<served_image::Server> serve(const std::string& program, const SquashLayer& layer,
                                            const std::string& directory,
                                            const std::vector<std::string>& hidden, std::string& why) {
    auto fuse = node::openFuseDevice();
    if (!fuse.fd) {
        why = std::move(fuse.whyNot);
        return nullptr;
    }
    auto server = makeServer(program, {"-f", "/proc/self/fd/3", "/dev/fd/4"}, {layer.file.get()},
                             std::move(fuse.fd), [&] { becomeOwner(layer, hidden); });
    if (!server->mount(
            {.name = "squashfuse",
             .target = directory,
             .flags = flags,
             .options = cat("user_id=", ::geteuid(), ",group_id=", ::getegid(), ",allow_other")})) {
        why = Error::fromErrno("the kernel refuses a FUSE mount", errno).what();
        return nullptr;
    }
    why = failureOf(*server, program);
    return why.empty() ? std::move(server) : nullptr;
}

}  // namespace

bool isRealRoot() {
    const std::vector<std::string> everything{"0", "0", "4294967295"};
    return ::geteuid() == 0 && splitWords(readFile("/proc/self/uid_map")) == everything;
}

SquashMount mountSquash(const SquashLayer& layer, const std::string& directory,
                        const std::vector<std::string>& hidden) {
    std::string reasons;
    for (const auto& way : waysToMount(layer)) {
        std::string why;
        if (way == theKernel) {
            if (auto mount = mountThroughKernel(layer, directory, why)) {
                return std::move(*mount);
            }
        } else if (auto server = serve(way, layer, directory, hidden, why)) {
            return {.server = std::move(server)};
        }
        if (reasons.find(why) == std::string::npos) {
            reasons += cat(reasons.empty() ? "" : "; ", why);
        }
    }
    throw Error(cat("Failed to mount ", printable(layer.path), ": ",
                    reasons.empty() ? "neither sarus-squashfs nor squashfuse is installed" : reasons),
                "See fuse-overlayfs-wrap(1)");
}

}  // namespace sarus::podman_hpc
