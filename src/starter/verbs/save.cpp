#include "starter/verbs/save.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/mounts.hpp"
#include "base/path_in_root.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "engine/run_options.hpp"
#include "node/slurm_job.hpp"
#include "starter/namespaces/namespaces.hpp"
#include "starter/namespaces/user_namespace.hpp"
#include "starter/rootfs/etc_files.hpp"
#include "starter/supervise/container_storage.hpp"
#include "starter/supervise/upper_layer.hpp"
#include "starter/verbs/unprivileged.hpp"

namespace sarus::starter {

namespace {

std::optional<ContainerStorage::Entry> findKept(const std::optional<ContainerStorage>& storage,
                                                const engine::SaveRequest& request) {
    engine::checkContainerName(request.name);
    return storage ? storage->find(request.name, node::markSlurmJob(request.job, "")) : std::nullopt;
}

std::optional<ContainerStorage> storageOf(const Session& session) {
    return ContainerStorage::find(session.credentials, session.config, ContainerStorage::Look::full);
}

/// The directory with what the container has written. Files there may be root's with a set-user-ID bit, and
/// devices, and the user can get at the builder's descriptors: the mount lets nobody execute, open or change
/// them.
UniqueFd openLayer(Session& session, const ContainerStorage& storage, const ContainerStorage::Entry& entry) {
    constexpr int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW;
    if (!session.credentials.privileged()) {
        return openFileAt(storage.openLayers(entry).get(), "upper", flags);
    }
    session.paths.reset();
    enterNamespaces(session.credentials);
    const auto layers = storage.openLayers(entry);
    const auto place = openFileAt(layers.get(), "upper", flags);
    bindMount(place.get(), place.get(), {.readonly = true, .nosuid = true, .nodev = true, .noexec = true});
    auto mounted = openFileAt(layers.get(), "upper", flags);
    constexpr unsigned long needed = ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC;
    struct statvfs status {};
    checkErrno(::fstatvfs(mounted.get(), &status), "Failed to examine what the container has written");
    if ((status.f_flag & needed) != needed) {
        throw Error("Failed to restrict the mount of what the container has written");
    }
    return mounted;
}

void leaveToUnprivileged(const Session& session, const engine::SaveRequest& request, bool isFound) {
    if (!isFound && wasKeptUnprivileged(session, request.name, node::markSlurmJob(request.job, ""))) {
        continueWithoutPrivileges(session, request);
    }
}

UniqueFd listOpaque(const Session& session, int layer) {
    std::string text;
    for (const auto inode :
         session.credentials.privileged() ? opaqueDirectories(layer) : std::vector<std::uint64_t>()) {
        text += cat(inode, '\n');
    }
    return makeMemoryFile("opaque", text);
}

}  // namespace

std::string describeKept(const Session& session, const engine::SaveRequest& request) {
    const auto entry = findKept(storageOf(session), request);
    leaveToUnprivileged(session, request, entry.has_value());
    return entry ? cat(entry->container.content, '\n', entry->container.image, '\n') : std::string();
}

void saveContainer(Session& session, const engine::SaveRequest& request) {
    const auto shown = cat("The container '", printable(request.name), "' ");
    const auto storage = storageOf(session);
    const auto entry = findKept(storage, request);
    leaveToUnprivileged(session, request, entry.has_value());
    if (!entry) {
        throw Error(cat("No container with the name '", printable(request.name), "' was kept"),
                    "'sarus ps --all' lists them");
    }
    if (entry->container.content != request.content) {
        throw Error(cat(shown, "was made from another image: from ", printable(entry->container.image)));
    }
    const auto lock = ContainerStorage::lockToRead(*entry);
    if (!lock) {
        throw Error(cat(shown, "is running: it would change while it is saved"),
                    cat("Wait for its end, or end it: sarus kill -KILL ", request.name));
    }
    closeInherited(session.entry.descriptors, {request.imageFd});
    const auto upper = openLayer(session, *storage, *entry);
    const auto opaque = listOpaque(session, upper.get());
    std::vector<std::string> words{"sarus-image-builder",
                                   "build-container",
                                   descriptorPath(request.imageFd),
                                   descriptorPath(upper.get()),
                                   cat("--opaque-fd=", opaque.get()),
                                   cat("--mksquashfs-options=", session.config.mksquashfsOptions)};
    const bool isOfImage = entry->container.remapRoot;
    for (const auto& file : filesOfEngine(isOfImage ? Accounts::ofImage : Accounts::ofNode)) {
        words.push_back(cat("--leave-out=", file));
    }
    for (const int fd : {request.imageFd, upper.get(), opaque.get(), lock->get()}) {
        if (fd >= 0) {
            checkErrno(::fcntl(fd, F_SETFD, 0), "Failed to hand over a descriptor");
        }
    }
    restoreLimits(session.entry);
    if (isOfImage && !session.credentials.privileged()) {
        // Root inside may have given files to other users, and closed some to himself.
        enterNewUserNamespace(session.credentials, subordinateIdsOf(session.config, session.credentials));
    }
    becomeCaller(session.credentials);
    replaceProcess(cat(session.entry.prefix, "/libexec/sarus-image-builder"), words);
}

}  // namespace sarus::starter
