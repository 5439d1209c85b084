#include "hooks/kit/container_view.hpp"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace sarus::hooks {

namespace {

struct Viewer {
    ContainerUser user;
    std::vector<gid_t> ownGroups;
};

std::optional<Viewer>& viewer() {
    static std::optional<Viewer> theViewer;
    return theViewer;
}

// Raw system calls: the C library's functions change all threads.

/// An engine may have given its hooks the groups of the user.
bool setGroups(const std::vector<gid_t>& groups, const std::vector<gid_t>& current) {
    return groups == current || ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0;
}

/// They return the previous id, and do not report success.
uid_t setFileSystemUser(uid_t uid) {
    return static_cast<uid_t>(::syscall(SYS_setfsuid, uid));
}

gid_t setFileSystemGroup(gid_t gid) {
    return static_cast<gid_t>(::syscall(SYS_setfsgid, gid));
}

constexpr uid_t noId = static_cast<uid_t>(-1);  ///< invalid id: changes nothing

/// Spares the question in most inner scopes. A thread that was started inside one has to ask.
thread_local bool holdsView = false;

}  // namespace

ContainerViewer::ContainerViewer(ContainerUser user) {
    std::vector<gid_t> groups(
        static_cast<std::size_t>(checkErrno(::getgroups(0, nullptr), "Failed to read the groups")));
    groups.resize(static_cast<std::size_t>(checkErrno(
        ::getgroups(static_cast<int>(groups.size()), groups.data()), "Failed to read the groups")));
    viewer() = Viewer{std::move(user), std::move(groups)};
}

ContainerViewer::~ContainerViewer() {
    viewer().reset();
}

ContainerView::ContainerView() {
    if (holdsView || !viewer() || viewer()->user.uid == 0) {
        return;
    }
    const auto& user = viewer()->user;
    uid = setFileSystemUser(noId);
    if (uid == user.uid) {
        return;
    }
    if (!setGroups(user.groups, viewer()->ownGroups)) {
        throwErrno("Failed to take the groups of the container's user");
    }
    isOuter = true;
    ::prctl(PR_GET_PDEATHSIG, &parentDeathSignal, 0, 0, 0);
    gid = setFileSystemGroup(user.gid);
    // Last: it disables the capabilities that ignore permissions.
    setFileSystemUser(user.uid);
    if (setFileSystemUser(noId) != user.uid || setFileSystemGroup(noId) != user.gid) {
        restore();
        throw Error(
            cat("Failed to take the file-system ids of the container's user ", user.uid, ':', user.gid));
    }
    ::prctl(PR_SET_PDEATHSIG, parentDeathSignal, 0, 0, 0);  // every change of these ids clears it
    holdsView = true;
}

ContainerView::~ContainerView() {
    if (isOuter) {
        restore();
    }
}

void ContainerView::restore() const noexcept {
    const int error = errno;
    holdsView = false;
    setFileSystemUser(uid);
    setFileSystemGroup(gid);
    if (setFileSystemUser(noId) != uid || setFileSystemGroup(noId) != gid ||
        !setGroups(viewer()->ownGroups, viewer()->user.groups)) {
        printError("hook: failed to return to its own rights");
        ::_exit(1);
    }
    ::prctl(PR_SET_PDEATHSIG, parentDeathSignal, 0, 0, 0);
    errno = error;
}

}  // namespace sarus::hooks
