#include "podman_hpc/mount_program/overlay.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/installation_prefix.hpp"
#include "base/mounts.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "node/fuse.hpp"
#include "podman_hpc/mount_program/kept_mount.hpp"
#include "podman_hpc/mount_program/server.hpp"
#include "podman_hpc/mount_program/squash_mount.hpp"

namespace sarus::podman_hpc {

namespace {

/// The options of containers/storage that the kernel's overlay has, too.
const std::map<std::string_view, unsigned long> mountFlags{
    {"ro", MS_RDONLY},       {"rw", 0},   {"nodev", MS_NODEV},   {"dev", 0},
    {"nosuid", MS_NOSUID},   {"suid", 0}, {"noexec", MS_NOEXEC}, {"exec", 0},
    {"noatime", MS_NOATIME},
};

bool isVolatile(const std::string& option) {
    return option == "volatile" || option == "fsync=0";
}

bool isForKernel(const std::string& option) {
    return mountFlags.contains(option) || isVolatile(option) || option.starts_with("context=");
}

unsigned long flagsOf(const OverlayRequest& request) {
    unsigned long flags = 0;
    for (const auto& option : request.further) {
        const auto flag = mountFlags.find(option);
        flags |= flag == mountFlags.end() ? 0 : flag->second;
    }
    return flags;
}

/// A detached copy of the mount on the directory.
UniqueFd takeMount(const std::string& directory) {
    UniqueFd tree(static_cast<int>(
        ::syscall(SYS_open_tree, AT_FDCWD, directory.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
    if (!tree) {
        throw Error::fromErrno("Failed to take a mount out of its namespace", errno,
                               "Squash files need Linux 5.2 or newer");
    }
    return tree;
}

void moveMount(int tree, int target, const std::string& name) {
    checkErrno(
        ::syscall(SYS_move_mount, tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH),
        cat("Failed to mount on ", printable(name)));
}

/// The stores with the mounts of all containers (STORE/overlay/ID/merged and others beside `overlay`): that
/// of the target, and the one in whose directory Podman starts this program.
std::vector<std::string> storeDirectories(const OverlayRequest& request) {
    constexpr std::string_view driver = "/overlay";
    std::vector<std::string> stores;
    for (const auto& directory : {findWorkingDirectory(), directoryOf(directoryOf(request.target))}) {
        if (directory.ends_with(driver) && directory.size() > driver.size()) {
            stores.push_back(directoryOf(directory));
        }
    }
    return stores;
}

/// Tells overlays of the kernel from those of fuse-overlayfs. Neither reads all marks of the other, so a
/// container keeps the one it began with.
class KernelMark {
public:
    explicit KernelMark(const std::string& workDirectory) : directory(workDirectory) {
        // Real root may use attributes that no user can change. The kernel's overlay follows the same rule.
        real = ::setxattr(path(), "trusted.sarus.probe", "", 0, 0) == 0;
        ::removexattr(path(), "trusted.sarus.probe");
    }
    bool inUserNamespace() const { return !real; }
    bool exists() const { return ::getxattr(path(), name(), nullptr, 0) >= 0; }
    bool set() const { return ::setxattr(path(), name(), "kernel", 6, 0) == 0; }
    void remove() const { ::removexattr(path(), name()); }

private:
    const char* path() const { return directory.c_str(); }
    const char* name() const { return real ? "trusted.sarus.overlay" : "user.sarus.overlay"; }
    std::string directory;
    bool real = false;
};

bool isEmpty(const std::string& path) {
    return Directory(path, Missing::isError).next() == nullptr;
}

/// Mounts the kernel's overlay. False if it cannot do what is asked here; `why` says why.
bool mountKernelOverlay(const OverlayRequest& request, const std::string& squash,
                        const std::string& directory, std::string& why) {
    const KernelMark mark(request.work);
    if (!std::all_of(request.further.begin(), request.further.end(), isForKernel) ||
        request.lower.size() != 1) {
        why = "not with these options";
    } else if (!mark.exists() && !isEmpty(request.upper)) {
        why = "the container was started with fuse-overlayfs before";
    } else if (!mark.set()) {
        why = "the filesystem of the container has no extended attributes";
    }
    if (!why.empty()) {
        mark.remove();
        return false;
    }
    // The kernel refuses what was volatile before. Containers/storage wants it again.
    ::rmdir(cat(request.work, "/work/incompat/volatile").c_str());
    // As descriptors: no character of a name is special then.
    const auto lower = openFile(squash, O_PATH | O_DIRECTORY);
    const auto upper = openFile(request.upper, O_PATH | O_DIRECTORY);
    const auto work = openFile(request.work, O_PATH | O_DIRECTORY);
    auto options = cat("lowerdir=", descriptorPath(lower.get()), ",upperdir=", descriptorPath(upper.get()),
                       ",workdir=", descriptorPath(work.get()), mark.inUserNamespace() ? ",userxattr" : "");
    for (const auto& option : request.further) {
        options += isVolatile(option) ? ",volatile" : option.starts_with("context=") ? cat(",", option) : "";
    }
    const auto mountWith = [&](const std::string& text) {
        return ::mount("overlay", directory.c_str(), "overlay", flagsOf(request), text.c_str()) == 0;
    };
    if (mountWith(options + ",redirect_dir=nofollow,metacopy=off") ||
        (errno == EINVAL && mountWith(options))) {
        return true;
    }
    why = Error::fromErrno("the kernel refuses", errno).what();
    mark.remove();
    return false;
}

/// Mounts fuse-overlayfs on the directory, takes the mount away from there, and starts the server.
UniqueFd mountFuseOverlay(OverlayRequest request, const std::string& directory,
                          const std::string& whyNotKernel, std::unique_ptr<served_image::Server>& server) {
    const auto failed = [&](std::string_view why) {
        return Error(cat("Failed to mount the container's overlay: fuse-overlayfs: ", why,
                         "; the kernel's overlay: ", whyNotKernel));
    };
    auto fuse = node::openFuseDevice();
    if (!fuse.fd) {
        throw failed(fuse.whyNot);
    }
    const auto program = fuseOverlayfs();
    request.further.emplace_back("noacl");  // squashfuse answers questions for ACLs with an error
    server = makeServer(program, {"-f", "-o", formatOptions(request), "/dev/fd/3"}, {}, std::move(fuse.fd));
    if (!server->mount(
            {.name = "fuse-overlayfs",
             .target = directory,
             .flags = flagsOf(request) | MS_NOATIME,
             .options = cat("user_id=", ::geteuid(), ",group_id=", ::getegid(), ",allow_other")})) {
        throwErrno(cat("Failed to mount fuse.fuse-overlayfs on ", printable(directory)));
    }
    auto tree = takeMount(directory);
    ::umount2(directory.c_str(), MNT_DETACH);
    if (const auto why = failureOf(*server, program); !why.empty()) {
        throw failed(why);
    }
    return tree;
}

}  // namespace

std::string fuseOverlayfs() {
    const auto asked = nonEmptyHostVariable("FUSE_OVERLAYFS_BIN");
    return asked ? *asked : node::fuseOverlayfs(installationPrefix());
}

void openToAll(const std::string& upperDirectory) {
    struct stat status {};
    constexpr mode_t access = S_IRUSR | S_IXUSR | S_IRGRP | S_IXGRP | S_IROTH | S_IXOTH;
    if (::stat(upperDirectory.c_str(), &status) == 0 && (status.st_mode & access) != access) {
        ::chmod(upperDirectory.c_str(), (status.st_mode | access) & 07777);
    }
}

void mountWithSquash(OverlayRequest request, const SquashLayer& layer) {
    const auto home = openFile("/proc/self/ns/mnt", O_RDONLY);
    // A link here could lead the mount to any directory of the node.
    const auto target = openFile(request.target, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    const auto hidden = storeDirectories(request);
    const auto shared =
        isRealRoot() ? std::nullopt : SharedServer::find(layer, directoryOf(directoryOf(request.target)));
    const auto kept = shared ? shared->join() : UniqueFd();

    checkErrno(::unshare(CLONE_NEWNS), "Failed to create a mount namespace");
    checkErrno(::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr), "Failed to separate the mounts");
    {
        const auto here = openFile(request.target, O_PATH | O_DIRECTORY | O_NOFOLLOW);
        mountFilesystem("tmpfs", descriptorPath(here.get()), "tmpfs", MS_NOSUID | MS_NODEV,
                        "mode=0700,size=64k");
    }
    const auto squash = cat(request.target, "/squash");
    const auto root = cat(request.target, "/root");
    createDirectories(squash, 0700);
    createDirectories(root, 0700);
    SquashMount mounted;
    if (kept) {
        moveMount(kept.get(), openFile(squash, O_PATH | O_DIRECTORY).get(), squash);
    } else {
        mounted = mountSquash(layer, squash, hidden);
    }
    const auto toKeep = shared && mounted.server ? takeMount(squash) : UniqueFd();
    const auto files = openFile(squash, O_PATH | O_DIRECTORY);
    request.lower.resize(layer.position);
    request.lower.push_back(squash);

    std::unique_ptr<served_image::Server> overlayServer;
    UniqueFd tree;
    std::string why;
    if (request.upper.empty() && request.lower.size() == 1) {
        tree = takeMount(squash);
    } else if (!request.upper.empty() && mountKernelOverlay(request, squash, root, why)) {
        tree = takeMount(root);
    } else {
        tree = mountFuseOverlay(request, root, why, overlayServer);
        hideMounts(hidden);  // fuse-overlayfs must not keep the mounts of other containers in this namespace
    }
    checkErrno(::setns(home.get(), CLONE_NEWNS), "Failed to return to Podman's mount namespace");
    moveMount(tree.get(), target.get(), request.target);
    tree.reset();  // a keeper that holds it would make the container's mount busy
    if (toKeep) {
        shared->keep(toKeep, mounted.server->pid());
    }
    for (auto* const server : {&mounted.server, &overlayServer}) {
        if (*server) {
            (*server)->takeChild().release();  // it ends with the mount
        }
    }
    if (mounted.isFirstOfKernel) {
        keepMount(files);
    }
}

}  // namespace sarus::podman_hpc
