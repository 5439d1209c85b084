#include "container_root/container_view.hpp"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/capabilities.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace sarus::container_root {

namespace {

struct Viewer {
    ContainerUser user;
    std::vector<gid_t> ownGroups;
    CapabilitySets ownCapabilities;
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

constexpr uid_t unchanged = static_cast<uid_t>(-1);

// The kernel sets the file-system id together with the effective one.

bool setEffectiveUser(uid_t uid) {
    return ::syscall(SYS_setresuid, unchanged, uid, unchanged) == 0;
}

bool setEffectiveGroup(gid_t gid) {
    return ::syscall(SYS_setresgid, unchanged, gid, unchanged) == 0;
}

/// Spares the question in most inner scopes. A thread that was started inside one has to ask.
thread_local bool holdsView = false;

}  // namespace

ContainerViewer::ContainerViewer(ContainerUser user) {
    std::vector<gid_t> groups(
        static_cast<std::size_t>(checkErrno(::getgroups(0, nullptr), "Failed to read the groups")));
    groups.resize(static_cast<std::size_t>(checkErrno(
        ::getgroups(static_cast<int>(groups.size()), groups.data()), "Failed to read the groups")));
    viewer() = Viewer{std::move(user), std::move(groups), getCapabilities()};
}

ContainerViewer::~ContainerViewer() {
    viewer().reset();
}

ContainerView::ContainerView() {
    if (holdsView || !viewer() || viewer()->user.uid == 0 || ::geteuid() == viewer()->user.uid) {
        return;
    }
    const auto& [user, ownGroups, ownCapabilities] = *viewer();
    uid = ::geteuid();
    gid = ::getegid();
    if (!setGroups(user.groups, ownGroups)) {
        throwErrno("Failed to take the groups of the container's user");
    }
    isOuter = true;
    ::prctl(PR_GET_PDEATHSIG, &parentDeathSignal, 0, 0, 0);
    try {
        if (!setEffectiveGroup(user.gid) || !setEffectiveUser(user.uid)) {
            throwErrno(cat("Failed to take the ids of the container's user ", user.uid, ':', user.gid));
        }
        setCapabilities({.effective = 0, .permitted = ownCapabilities.permitted});
    } catch (const Error&) {
        restore();
        throw;
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
    try {
        if (!setEffectiveUser(uid)) {
            throwErrno("setresuid");
        }
        setCapabilities(viewer()->ownCapabilities);
        if (!setEffectiveGroup(gid) || !setGroups(viewer()->ownGroups, viewer()->user.groups)) {
            throwErrno("setresgid");
        }
    } catch (const Error&) {
        printError("hook: failed to return to its own rights");
        ::_exit(1);
    }
    ::prctl(PR_SET_PDEATHSIG, parentDeathSignal, 0, 0, 0);
    errno = error;
}

}  // namespace sarus::container_root
