#pragma once

#include <sys/types.h>

#include <vector>

namespace sarus::container_root {

/// Ids of the container's process, as seen in the runtime's user namespace.
struct ContainerUser {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups;
};

/// While it lives, this process accesses the container's files as this user; root (as in root's Podman
/// containers without a user) changes nothing. Only one may exist at a time. Create it before any thread.
class ContainerViewer {
public:
    explicit ContainerViewer(ContainerUser user);
    ContainerViewer(const ContainerViewer&) = delete;
    ContainerViewer& operator=(const ContainerViewer&) = delete;
    ~ContainerViewer();
};

/// Scope in which this thread has the effective and file-system ids and the groups of the container's user,
/// and no capability in force: whatever a path of the image or the user leads to, the kernel asks the user's
/// rights. That includes sysctls, for which the effective id counts, and other processes below /proc, for
/// which CAP_SYS_PTRACE does. The real and the saved id stay root's: the user can neither signal nor trace
/// this process, and the end of the scope returns to them. Has no effect without a ContainerViewer, or inside
/// another such scope. Affects only this thread and those that it starts. Throws Error; ends the process if
/// the rights cannot be restored.
class ContainerView {
public:
    ContainerView();
    ContainerView(const ContainerView&) = delete;
    ContainerView& operator=(const ContainerView&) = delete;
    ~ContainerView();

private:
    void restore() const noexcept;

    bool isOuter = false;
    uid_t uid = 0;
    gid_t gid = 0;
    int parentDeathSignal = 0;
};

}  // namespace sarus::container_root
