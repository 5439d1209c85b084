#include "podman_hpc/mount_program/squash_mount.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "node/fuse.hpp"
#include "node/loop_device.hpp"

namespace sarus::podman_hpc {

namespace {

constexpr unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV;

constexpr std::string_view theKernel;

/// What can mount the file, best first. Old configurations name one.
std::vector<std::string> waysToMount(const SquashLayer& layer) {
    if (const char* named = std::getenv("SQUASHFUSE_BIN"); named != nullptr && *named != '\0') {
        return {named};
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

/// Empty if the program does not serve the mount; `why` says why.
std::unique_ptr<Server> serve(const std::string& program, const SquashLayer& layer,
                              const std::string& directory, const std::vector<std::string>& hidden,
                              std::string& why) {
    auto fuse = node::openFuseDevice();
    if (!fuse.fd) {
        why = std::move(fuse.whyNot);
        return nullptr;
    }
    constexpr gid_t nobodys = 65534;  // not root's group, which may read what the owner may not
    auto server =
        std::make_unique<Server>(Server::Setup{.program = program,
                                               .args = {program, "-f", "/proc/self/fd/3", "/dev/fd/4"},
                                               .descriptors = {layer.file.get(), fuse.fd.get()},
                                               .ownMountNamespace = true,
                                               .hidden = hidden,
                                               .user = layer.owner != 0 && isRealRoot() ? layer.owner : 0,
                                               .group = layer.group != 0 ? layer.group : nobodys});
    const auto options = cat("fd=", fuse.fd.get(), ",rootmode=40000,user_id=", ::geteuid(),
                             ",group_id=", ::getegid(), ",allow_other,default_permissions");
    if (::mount("squashfuse", directory.c_str(), "fuse.squashfuse", flags, options.c_str()) != 0) {
        why = Error::fromErrno("the kernel refuses a FUSE mount", errno).what();
        return nullptr;
    }
    fuse.fd.reset();  // the connection ends with the server
    const auto mountPoint = openFile(directory, O_PATH | O_DIRECTORY);
    if (server->waitForRoot(mountPoint.get())) {
        return server;
    }
    ::umount2(directory.c_str(), MNT_DETACH);
    why = server->endAndGetOutput();
    return nullptr;
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
