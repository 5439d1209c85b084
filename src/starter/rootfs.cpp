#include "starter/rootfs.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/mounts.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "starter/bind_mount.hpp"
#include "starter/etc_files.hpp"
#include "starter/overlay.hpp"
#include "starter/selinux.hpp"

namespace sarus::starter {

namespace {

constexpr auto lowerName = "overlay/rootfs-lower";
constexpr auto upperName = "overlay/rootfs-upper";
constexpr auto workName = "overlay/rootfs-work";

/// A rootless overlay needs user.* xattrs, which ramfs never has.
std::string ramFilesystem(const RootfsRequest& request) {
    const bool ramfs = request.config.ramFilesystemType == engine::RamFilesystem::ramfs && request.credentials.privileged();
    return ramfs ? "ramfs" : "tmpfs";
}

void makeDirectory(int parent, const std::string& name) {
    checkErrno(::mkdirat(parent, name.c_str(), 0755), cat("Failed to create directory ", printable(name), " in the bundle"));
}

/// The container's own ram filesystem with the directories of the bundle.
void prepareBundle(const RootfsRequest& request) {
    const auto& folder = request.config.rootfsFolder;
    if (folder.empty() || folder == "." || folder == ".." || folder == "overlay" || folder.find('/') != std::string::npos) {
        throw Error(
            cat("Failed to prepare the bundle: '", printable(folder), "' cannot be the name of the root filesystem's directory"),
            "set \"rootfsFolder\" to a plain name such as \"rootfs\" in sarus.json");
    }
    const auto type = ramFilesystem(request);
    mountFilesystem(type, request.bundleDir, type, MS_NOSUID | MS_NODEV, "mode=755");
    const auto bundle = openFile(request.bundleDir, O_PATH | O_DIRECTORY);
    for (const std::string& name :
         {folder, std::string("overlay"), std::string(lowerName), std::string(upperName), std::string(workName)}) {
        makeDirectory(bundle.get(), name);
    }
    const auto owner = request.credentials.ownerUid();
    const auto group = request.credentials.ownerGid();
    checkErrno(::fchownat(bundle.get(), upperName, owner, group, AT_SYMLINK_NOFOLLOW),
               "Failed to give the upper layer to the user");
}

/// A directory which the runtime or we mount on. Whatever else an image has there (a symbolic link, a file) gives way.
UniqueFd ensureTopDirectory(int root, const char* name) {
    constexpr int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    UniqueFd fd(::openat(root, name, flags));
    if (!fd) {
        if (::unlinkat(root, name, 0) != 0 && errno != ENOENT) {
            throwErrno(cat("Failed to replace /", name, " in the container"));
        }
        checkErrno(::mkdirat(root, name, 0755), cat("Failed to create /", name, " in the container"));
        fd.reset(checkErrno(::openat(root, name, flags), cat("Failed to open /", name, " in the container")));
    }
    return fd;
}

/// The runtime adds the device nodes later.
UniqueFd mountDev(int root, const std::string& type, const std::optional<std::string>& label) {
    const auto mountPoint = ensureTopDirectory(root, "dev");
    mountFilesystem(type, descriptorPath(mountPoint.get()), type, MS_NOSUID | MS_STRICTATIME,
                    withMountLabel("mode=755,size=65536k", label));
    return ensureTopDirectory(root, "dev");
}

void bindInit(int dev, const std::string& initPath, const std::optional<std::string>& label) {
    try {
        bringProgram(openFile(initPath, O_PATH).get(), dev, "init", label);
    } catch (Error& error) {
        error.addContext("Failed to provide /dev/init in the container");
        throw;
    }
}

}  // namespace

void Rootfs::forgetHelper(pid_t pid) noexcept {
    for (Child* helper : {&image.helper, &overlayHelper}) {
        if (pid > 0 && helper->pid() == pid) {
            helper->release();
        }
    }
}

void bringProgram(int program, int root, const std::string& path, const std::optional<std::string>& label) {
    constexpr std::size_t largest = 64U << 20U;
    const auto target = createInRoot(root, path, EntryKind::file, {.fileMode = 0755});
    if (!label) {
        bindMount(program, target.get(), {.readonly = true});
        return;
    }
    const auto content = readAll(openFile(descriptorPath(program), O_RDONLY).get(), largest, path);
    writeAll(openFile(descriptorPath(target.get()), O_WRONLY | O_TRUNC).get(), content, path);
}

Rootfs buildRootfs(const RootfsRequest& request) {
    const auto& plan = request.plan;
    const auto& credentials = request.credentials;
    Rootfs rootfs;
    rootfs.bundle = request.bundleDir;
    rootfs.folder = request.config.rootfsFolder;

    prepareBundle(request);
    rootfs.image = mountImage({.imageFd = request.imageFd,
                               .imagePath = request.imagePath,
                               .policy = request.config.imageMount,
                               .tempDir = request.config.tempDir,
                               .imageBuilderPath = request.imageBuilderPath,
                               .label = request.config.selinuxMountLabel,
                               .target = cat(request.bundleDir, '/', lowerName),
                               .bundleDir = request.bundleDir},
                              credentials);
    rootfs.overlayHelper = mountOverlay(
        {.base = request.bundleDir, .lower = lowerName, .upper = upperName, .work = workName, .target = rootfs.folder},
        request.config.selinuxMountLabel, credentials);

    // A mount of /tmp or / would otherwise carry the container itself along, and the second one both of them, and so on. The
    // overlay clones its layers, so not before it is there.
    checkErrno(::mount(nullptr, request.bundleDir.c_str(), nullptr, MS_UNBINDABLE, nullptr),
               "Failed to make the bundle unbindable");

    rootfs.root = openFile(cat(request.bundleDir, '/', rootfs.folder), O_PATH | O_DIRECTORY | O_NOFOLLOW);
    const auto dev = mountDev(rootfs.root.get(), ramFilesystem(request), request.config.selinuxMountLabel);
    ensureTopDirectory(rootfs.root.get(), "proc");
    ensureTopDirectory(rootfs.root.get(), "sys");
    writeEtcFiles(rootfs.root.get(), request.config, credentials, request.account);
    if (plan.initPath) {
        bindInit(dev.get(), *plan.initPath, request.config.selinuxMountLabel);
    }

    const ContainerTree tree(credentials, request.config, rootfs.root.get(), dev.get());
    for (const auto& mount : plan.mounts) {
        tree.bind(mount);
    }
    for (const auto& device : plan.devices) {
        if (auto rule = tree.bindDevice(device)) {
            rootfs.deviceRules.push_back(std::move(*rule));
        }
    }
    if (!plan.workdir.empty()) {
        tree.createWorkdir(plan.workdir);
    }
    tree.requireDevForRuntime();
    return rootfs;
}

}  // namespace sarus::starter
