#include "starter/rootfs/rootfs.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/mounts.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "hook_contracts/enter_call.hpp"
#include "node/selinux.hpp"
#include "starter/rootfs/bind_mount.hpp"
#include "starter/rootfs/etc_files.hpp"
#include "starter/rootfs/overlay.hpp"

namespace sarus::starter {

namespace {

constexpr auto lowerName = "overlay/rootfs-lower";
constexpr auto upperName = "overlay/rootfs-upper";
constexpr auto workName = "overlay/rootfs-work";
constexpr auto storageName = "overlay/storage";

/// A rootless overlay needs user.* xattrs, which ramfs never has.
std::string ramFilesystem(const RootfsRequest& request) {
    const bool ramfs =
        request.config.ramFilesystemType == engine::RamFilesystem::ramfs && request.credentials.privileged();
    return ramfs ? "ramfs" : "tmpfs";
}

void makeDirectory(int parent, const std::string& name) {
    checkErrno(::mkdirat(parent, name.c_str(), 0755),
               cat("Failed to create directory ", printable(name), " in the bundle"));
}

/// Mounts the container's own ram filesystem and creates the bundle's directories in it.
void prepareBundle(const RootfsRequest& request) {
    const auto& folder = request.config.rootfsFolder;
    if (folder.empty() || folder == "." || folder == ".." || folder == "overlay" ||
        folder.find('/') != std::string::npos) {
        throw Error(cat("Failed to prepare the bundle: '", printable(folder),
                        "' cannot be the name of the root filesystem's directory"),
                    "Set \"rootfsFolder\" to a plain name such as \"rootfs\" in sarus.json");
    }
    const auto type = ramFilesystem(request);
    const auto& limit = request.config.writableLayerSize;
    mountFilesystem(type, request.bundleDir, type, MS_NOSUID | MS_NODEV,
                    cat("mode=755", type != "tmpfs" ? ""
                                    : limit         ? cat(",size=", *limit)
                                                    : sizeOptions(request.memoryShare)));
    const auto bundle = openFile(request.bundleDir, O_PATH | O_DIRECTORY);
    for (const std::string& name : {folder, std::string("overlay"), std::string(lowerName)}) {
        makeDirectory(bundle.get(), name);
    }
    if (request.storage >= 0) {
        makeDirectory(bundle.get(), storageName);
        bindMount(request.storage,
                  openFileAt(bundle.get(), storageName, O_PATH | O_DIRECTORY | O_NOFOLLOW).get(),
                  {.nodev = true});
        return;
    }
    makeDirectory(bundle.get(), upperName);
    makeDirectory(bundle.get(), workName);
    const auto owner = request.credentials.ownerUid();
    const auto group = request.credentials.ownerGid();
    checkErrno(::fchownat(bundle.get(), upperName, owner, group, AT_SYMLINK_NOFOLLOW),
               "Failed to give the upper layer to the user");
}

/// The image with the writable layer above it.
Child mountLayers(const RootfsRequest& request) {
    OverlayDirectories layers{.base = request.bundleDir,
                              .lower = lowerName,
                              .upper = upperName,
                              .work = workName,
                              .target = request.config.rootfsFolder};
    const auto& config = request.config;
    if (request.storage < 0) {
        return mountOverlay(layers, config.prefixDir, config.selinuxMountLabel, request.credentials);
    }
    layers.upper = cat(storageName, "/upper");
    layers.work = cat(storageName, "/work");
    try {
        return mountOverlay(layers, config.prefixDir, config.selinuxMountLabel, request.credentials);
    } catch (Error& error) {
        error.addContext(cat("Failed to use what the container keeps in ", printable(request.storagePath)));
        if (error.hint().empty() || error.errnum() == EINVAL) {
            error.setHint(
                "It must be on a local filesystem such as ext4 or XFS: set SARUS_CONTAINER_DIR to a "
                "directory of yours there, or ask the administrator for \"containerStorage\": "
                "{\"directory\": ...} in "
                "sarus.json");
        }
        throw;
    }
}

/// A directory for mounts of the runtime or the starter. Replaces anything else in the image (a symbolic
/// link, a file).
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
                    node::withMountLabel("mode=755,size=65536k", label));
    return ensureTopDirectory(root, "dev");
}

/// The node's shared memory and message queues, or shared memory of the container's own, whose queues the OCI
/// runtime mounts in the namespace that it makes for them. The rest not by the runtime, which would hide what
/// a user or a hook mounts there.
void mountShared(int dev, const RootfsRequest& request) {
    const auto place = [dev](const char* name) {
        makeDirectory(dev, name);
        return openFileAt(dev, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    };
    if (request.plan.privateIpc) {
        mountFilesystem("tmpfs", descriptorPath(place("shm").get()), "tmpfs",
                        MS_NOSUID | MS_NODEV | MS_NOEXEC,
                        node::withMountLabel(cat("mode=1777", sizeOptions(request.memoryShare)),
                                             request.config.selinuxMountLabel));
        place("mqueue");
        return;
    }
    constexpr BindAttributes restricted{.nodev = true, .noexec = true};
    bindMount(openFile("/dev/shm", O_PATH | O_DIRECTORY).get(), place("shm").get(), restricted);
    if (request.credentials.privileged()) {
        mountFilesystem("mqueue", descriptorPath(place("mqueue").get()), "mqueue",
                        MS_NOSUID | MS_NODEV | MS_NOEXEC);
        return;
    }
    // A user namespace that does not own the ipc namespace, which is the host's, may not mount it.
    const UniqueFd queues(::open("/dev/mqueue", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (queues) {
        bindMount(queues.get(), place("mqueue").get(), restricted);
    }
}

void bindInit(int dev, const std::string& initPath, const std::optional<std::string>& label) {
    try {
        bringProgram(openFile(initPath, O_PATH).get(), dev, hook_contracts::initProgram, label);
    } catch (Error& error) {
        error.addContext(cat("Failed to provide ", hook_contracts::initProgram, " in the container"));
        throw;
    }
}

/// What all squashfs files of a container have in common.
ImageMountRequest imageMountOf(const RootfsRequest& request) {
    return {.tempDir = request.config.tempDir,
            .imageBuilderPath = request.imageBuilderPath,
            .serverPath = request.squashfsServerPath,
            .label = request.config.selinuxMountLabel,
            .bundleDir = request.bundleDir,
            .sharingDirectory = request.imageSharingDirectory};
}

/// The squashfs files that a container gets as directories. Each is mounted once, in the bundle.
class DataMounts {
public:
    explicit DataMounts(const RootfsRequest& theRequest) : request(theRequest) {}

    /// The directory with the content of the file of a mount. Throws Error.
    std::string mount(const engine::PlannedMount& mount, const ContainerTree& tree,
                      std::vector<MountedImage>& images) {
        const auto file = tree.openSquashfs(mount);
        struct stat status {};
        request.credentials.asUser([&] {
            checkErrno(::fstat(file.get(), &status), cat("Failed to inspect ", printable(mount.source)));
        });
        auto& directory = directories[{status.st_dev, status.st_ino}];
        if (directory.empty()) {
            directory = cat(request.bundleDir, "/overlay/data-", directories.size());
            checkErrno(::mkdir(directory.c_str(), 0755), "Failed to create a directory in the bundle");
            images.push_back(mountFile(mount, file.get(), directory));
        }
        return directory;
    }

private:
    MountedImage mountFile(const engine::PlannedMount& mount, int file, const std::string& directory) const {
        auto parts = imageMountOf(request);
        parts.imageFd = file;
        parts.imagePath = mount.source;
        parts.policy = request.config.dataMount;
        parts.target = directory;
        try {
            if (request.credentials.privileged() && parts.policy != engine::ImageMountPolicy::fuse) {
                parts.whyNotByKernel = whyNotByKernel(file);
            }
            return mountImage(parts, request.credentials);
        } catch (Error& error) {
            if (error.hint().find("'sarus rmi'") != std::string::npos) {
                error.setHint("Make the file again: mksquashfs DIRECTORY FILE");
            }
            throw error.addContext(failureOf(mount));
        }
    }

    const RootfsRequest& request;
    std::map<std::pair<dev_t, ino_t>, std::string> directories;
};

/// `number`: in Rootfs::images.
std::string_view servedBySquashfs(std::size_t number) {
    return number == 0 ? "the image (sarus-squashfs)" : "a mounted squashfs file (sarus-squashfs)";
}

/// Images that were made by root for root may start in a directory that only root can search, such as /root.
std::string startDirectory(const engine::ContainerPlan& plan, const ContainerTree& tree) {
    if (tree.createWorkdir(plan.workdir)) {
        return plan.workdir;
    }
    if (plan.workdirChosen) {
        throw Error::fromErrno(cat("Failed to enter the working directory ", printable(plan.workdir)),
                               EACCES);
    }
    logWarn("Rootfs", cat("The user may not enter ", printable(plan.workdir),
                          ", the working directory of the image: the program starts in /"));
    return "/";
}

}  // namespace

void Rootfs::makeReadonly() const {
    constexpr unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV;
    checkErrno(::mount(nullptr, rootPath().c_str(), nullptr, flags, nullptr),
               "Failed to make the root filesystem read-only");
}

std::uint64_t Rootfs::bytesWritten() const noexcept {
    struct statfs status {};
    return ::statfs(bundle.c_str(), &status) == 0 && status.f_blocks >= status.f_bfree
               ? (status.f_blocks - status.f_bfree) * static_cast<std::uint64_t>(status.f_bsize)
               : 0;
}

std::vector<pid_t> Rootfs::sharedChildren() const {
    std::vector<pid_t> children;
    for (const auto& image : images) {
        if (const auto child = image.sharedChild(); child > 0) {
            children.push_back(child);
        }
    }
    return children;
}

std::vector<ForeignServer> Rootfs::foreignServers() const {
    std::vector<ForeignServer> servers;
    for (std::size_t i = 0; i < images.size(); ++i) {
        if (const int process = images[i].foreignServer(); process >= 0) {
            servers.push_back({process, servedBySquashfs(i)});
        }
    }
    return servers;
}

std::string_view Rootfs::forgetHelper(pid_t pid) noexcept {
    for (std::size_t i = 0; i < images.size(); ++i) {
        if (images[i].forgetHelper(pid)) {
            return servedBySquashfs(i);
        }
    }
    if (pid > 0 && overlayHelper.pid() == pid) {
        overlayHelper.release();
        return "the root filesystem (fuse-overlayfs)";
    }
    return {};
}

void bringProgram(int program, int dev, const std::string& path, const std::optional<std::string>& label) {
    constexpr std::size_t largest = 64U << 20U;
    const auto name = fileNameOf(path);
    const UniqueFd target(
        ::openat(dev, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755));
    if (!target && errno == EEXIST) {
        throw Error(cat("Something is mounted on the container's ", path, ": the engine needs that place"));
    }
    checkErrno(target.get(), cat("Failed to create ", path, " in the container"));
    if (!label) {
        bindMount(program, target.get(), {.readonly = true});
        return;
    }
    const auto content = readAll(openFile(descriptorPath(program), O_RDONLY).get(), largest, path);
    writeAll(target.get(), content, path);
}

/// So that apt does not become another user, which it could not.
void writeAptConfiguration(int dev) {
    const std::string path = hook_contracts::aptConfiguration;
    constexpr mode_t mode = 0644;
    writeAll(openFileAt(dev, fileNameOf(path), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode).get(),
             "APT::Sandbox::User \"root\";\n", path);
}

/// The file that tells programs of a container, as of Podman's, where they are. It replaces a link of the
/// image and stays away from mounts of the user or the host. Where it cannot be, the container starts without
/// it.
void writeContainerenv(const container_root::Editor& editor, const std::string& content) {
    constexpr mode_t mode = 0644;
    if (content.empty()) {
        return;
    }
    try {
        editor.makeDirectory("/run");
        editor.replaceFile("/run/.containerenv", content, mode);
    } catch (const Error& error) {
        logInfo("Rootfs", cat("The container has no /run/.containerenv: ", error.what()));
    }
}

Rootfs buildRootfs(const RootfsRequest& request) {
    const auto& plan = request.plan;
    const auto& credentials = request.credentials;
    Rootfs rootfs;
    rootfs.bundle = request.bundleDir;
    rootfs.folder = request.config.rootfsFolder;

    prepareBundle(request);
    auto imageMount = imageMountOf(request);
    imageMount.imageFd = request.imageFd;
    imageMount.imagePath = request.imagePath;
    imageMount.policy = request.config.imageMount;
    imageMount.target = cat(request.bundleDir, '/', lowerName);
    imageMount.whyNotByKernel = request.whyNotByKernel;
    imageMount.onlyByKernel = !request.config.imagePolicy.isEmpty();
    rootfs.images.push_back(mountImage(imageMount, credentials));
    rootfs.overlayHelper = mountLayers(request);

    // Otherwise a mount of /tmp or / would include the container itself, the next one both of them, and so
    // on. Must follow the overlay mount, which clones its layers.
    checkErrno(::mount(nullptr, request.bundleDir.c_str(), nullptr, MS_UNBINDABLE, nullptr),
               "Failed to make the bundle unbindable");

    rootfs.root = openFile(cat(request.bundleDir, '/', rootfs.folder), O_PATH | O_DIRECTORY | O_NOFOLLOW);
    rootfs.dev = mountDev(rootfs.root.get(), ramFilesystem(request), request.config.selinuxMountLabel);
    mountShared(rootfs.dev.get(), request);
    ensureTopDirectory(rootfs.root.get(), "proc");
    ensureTopDirectory(rootfs.root.get(), "sys");
    writeEtcFiles(rootfs.root.get(), request.config, credentials,
                  plan.remapRoot ? std::nullopt : request.account, request.accounts);
    if (plan.remapRoot) {
        writeAptConfiguration(rootfs.dev.get());
    }
    if (plan.initPath) {
        bindInit(rootfs.dev.get(), *plan.initPath, request.config.selinuxMountLabel);
    }

    const auto editor = editorFor(rootfs.root.get(), credentials);
    const ContainerTree tree(credentials, request.config, editor, request.memoryShare);
    std::vector<std::string> places;
    DataMounts data(request);
    for (const auto& mount : plan.mounts) {
        places.push_back(mount.isSquashfs ? tree.bindContent(mount, data.mount(mount, tree, rootfs.images))
                                          : tree.bind(mount));
    }
    for (const auto& warning : engine::findHiddenMounts(plan.mounts, places)) {
        logWarn("Rootfs", warning);
    }
    for (const auto& device : plan.devices) {
        if (auto rule = tree.bindDevice(device)) {
            rootfs.deviceRules.push_back(std::move(*rule));
        }
    }
    rootfs.directory = startDirectory(plan, tree);
    if (const auto home = engine::homeOf(plan)) {
        tree.createUsersDirectory(*home);
    }
    for (const auto& volume : plan.volumes) {
        tree.createUsersDirectory(volume);
    }
    writeContainerenv(editor, request.containerenv);
    requireDevForRuntime(rootfs.root.get(), rootfs.dev.get());
    return rootfs;
}

}  // namespace sarus::starter
