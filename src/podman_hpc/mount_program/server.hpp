#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "served_image/server.hpp"

namespace sarus::podman_hpc {

/// A FUSE server that outlives this program: see served_image::Server. Its process starts in "/", runs
/// `enter` and waits. Its output goes to the file $LOG, or is kept for failureOf(). Throws Error.
std::unique_ptr<served_image::Server> makeServer(
    const std::string& program, std::vector<std::string> arguments, std::vector<int> descriptors,
    UniqueFd fuse, const std::function<void()>& enter = [] {});

/// Lets the mounted server run. "" once it answers; else why it does not, and it has ended or ends with the
/// object. Throws Error.
std::string failureOf(served_image::Server& server, const std::string& program);

/// How long to wait for the answer of a server.
std::chrono::seconds patienceWithServers();

/// Detaches all mounts on and below these directories from this mount namespace.
void hideMounts(const std::vector<std::string>& directories);

}  // namespace sarus::podman_hpc
