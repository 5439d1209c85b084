#include "starter/image/shared_image.hpp"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/mounts.hpp"
#include "base/private_directory.hpp"
#include "base/process_tree.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "served_image/shared_mount.hpp"
#include "starter/namespaces/user_namespace.hpp"

namespace sarus::starter {

namespace {

constexpr std::string_view sharingLog = "Rootfs";
/// The first starter holds the lock until it has mounted, on a node where a hundred others start meanwhile.
constexpr std::chrono::seconds lockPatience{3};
constexpr int mostAttempts = 4;

/// The cgroups of this process's job step. Slurm gives each task of a step one of its own.
std::string cgroupsOfStep() {
    constexpr std::size_t largest = 64U << 10U;
    std::string step;
    for (const auto& line : split(readFile("/proc/self/cgroup", largest), '\n')) {
        const auto slash = line.rfind('/');
        const bool isTask = slash != std::string::npos && line.substr(slash + 1).starts_with("task_");
        step += cat(isTask ? line.substr(0, slash) : line, '\n');
    }
    return step;
}

/// Starters share a mount only if all of this is equal. Every change of the image's content changes one of
/// the values. Another user namespace could not use the mount.
std::string listNameFor(const ImageMountRequest& request, const struct stat& image,
                        const Credentials& caller) {
    return cat("image-", sha256Hex(cat(placeOfSharing(), '\n', caller.uid(), ' ', caller.gid(), '\n',
                                       request.serverPath, '\n', request.label.value_or(""), '\n',
                                       fileVersion(image), '\n', cgroupsOfStep())));
}

/// A detached copy of a holder's mount. Throws Error.
UniqueFd copyMountOf(const Holder& holder) {
    const auto process = openFile(cat("/proc/", holder.pid), O_PATH | O_DIRECTORY);
    // In this order: the directory then belongs to the process whose start time is compared, or to one that
    // had ended before.
    if (Process(holder.pid).started() != holder.started) {
        throw Error("it has ended");
    }
    const auto mountNamespace = openFileAt(process.get(), "ns/mnt", O_RDONLY);
    const auto own = openFile("/proc/self/ns/user", O_RDONLY);
    if (!sameNamespace(relatedNamespace(mountNamespace.get(), NS_GET_USERNS).get(), own.get())) {
        throw Error("its mount namespace is in another user namespace");
    }
    const auto mount = openFileAt(process.get(), cat("fd/", holder.first), O_PATH | O_DIRECTORY);
    return served_image::copyMount(mountNamespace.get(), mount.get());
}

}  // namespace

SharedImage::SharedImage(HolderFile file, std::string theDirectory, bool isPrivileged) noexcept
    : list(std::move(file)), directory(std::move(theDirectory)), privileged(isPrivileged) {}

std::unique_ptr<SharedImage> SharedImage::open(const ImageMountRequest& request, const struct stat& image,
                                               const Credentials& credentials) {
    if (request.sharingDirectory.empty() || served_image::hasTimeLimit()) {
        return {};
    }
    try {
        if (credentials.privileged()) {
            makeRootsDirectory(request.sharingDirectory);
        }
        // In both modes the starter's files belong to root, as its user namespace shows it.
        return std::unique_ptr<SharedImage>(
            new SharedImage(HolderFile::open(request.sharingDirectory,
                                             listNameFor(request, image, credentials), 0, lockPatience),
                            request.sharingDirectory, credentials.privileged()));
    } catch (const Error& error) {
        logDebug(sharingLog, cat("The image is not shared with other containers: ", error.what()));
        return {};
    }
}

bool SharedImage::join(const std::string& target) {
    constexpr std::size_t many = HolderFile::mostHolders / 2;
    const auto listed = list.read();
    int attempts = 0;
    for (const auto& holder : listed) {
        if (mount && listed.size() < many) {
            holders.push_back(holder);  // each look at a process costs the next starters time
            continue;
        }
        const Process process(holder.pid);
        const Process itsServer(holder.second);
        if (process.started() != holder.started || !process.isRunning() || !itsServer.isRunning()) {
            continue;
        }
        holders.push_back(holder);
        if (mount || attempts >= mostAttempts || !served_image::canAnswer(itsServer)) {
            continue;
        }
        ++attempts;
        try {
            UniqueFd serverFd(static_cast<int>(::syscall(SYS_pidfd_open, itsServer.pid(), 0)));
            if (!serverFd || !itsServer.isRunning()) {
                throw Error("its server has ended");
            }
            auto copy = copyMountOf(holder);
            attachMount(copy.get(), openFile(target, O_PATH | O_DIRECTORY).get(),
                        {.readonly = true, .nosuid = true, .nodev = true});
            mount = std::move(copy);
            server = itsServer.pid();
            theirServer = std::move(serverFd);
        } catch (const Error& error) {
            logDebug(sharingLog, cat("Process ", holder.pid, " cannot share the image: ", error.what()));
        }
    }
    return static_cast<bool>(mount);
}

void SharedImage::publish(const std::string& target, pid_t servedBy) {
    if (servedBy > 0) {
        server = servedBy;
        mount = openFile(target, O_PATH | O_DIRECTORY);
    }
    if (holders.size() >= HolderFile::mostHolders) {
        throw Error("too many containers share the image");
    }
    const Process self(::getpid());
    holders.push_back({.pid = self.pid(), .started = self.started(), .first = mount.get(), .second = server});
    list.write(holders);
    holders.clear();
    if (privileged) {
        if (servedBy > 0) {
            sweepUnheldFiles(directory);
        }
        list.giveUpWriting();  // the monitor has the user's rights, and root trusts the list
    } else {
        list.unlock();
    }
}

void SharedImage::leave() {
    auto others = list.read();
    std::erase_if(others, [](const Holder& holder) { return holder.pid == ::getpid(); });
    const auto anyLives = [&](auto&& condition) {
        return std::any_of(others.begin(), others.end(), [&](const Holder& holder) {
            return condition(holder) && Process(holder.pid).started() == holder.started;
        });
    };
    if (child.pid() > 0 && !anyLives([&](const Holder& holder) { return holder.second == child.pid(); })) {
        child = Child();
    }
    if (privileged) {
        return;  // the next start corrects the list
    }
    if (anyLives([](const Holder&) { return true; })) {
        list.write(others);
    } else {
        list.remove();
    }
}

SharedImage::~SharedImage() {
    try {
        if (list.lockAgain()) {
            leave();
        }
    } catch (const std::exception& error) {
        logDebug(sharingLog, error.what());
    }
    child.release();  // it ends with the last copy of the mount
}

}  // namespace sarus::starter
