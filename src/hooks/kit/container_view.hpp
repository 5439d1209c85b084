#pragma once

#include <sys/types.h>

#include <vector>

#include "hooks/kit/container_user.hpp"

namespace sarus::hooks {

/// While it lives, this process accesses the container's files as this user; root (as in root's Podman
/// containers without a user) changes nothing. Only one may exist at a time. Create it before any thread.
class ContainerViewer {
public:
    explicit ContainerViewer(ContainerUser user);
    ContainerViewer(const ContainerViewer&) = delete;
    ContainerViewer& operator=(const ContainerViewer&) = delete;
    ~ContainerViewer();
};

/// Scope in which this thread looks up and opens files with the filesystem ids and groups of the container's
/// user, and without the capabilities that ignore permissions: paths named by the image or user then reveal
/// no more than the user may see. Has no effect without a ContainerViewer, or inside another such scope.
/// Affects only this thread and those that it starts. Throws Error; ends the process if the rights cannot be
/// restored.
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

}  // namespace sarus::hooks
