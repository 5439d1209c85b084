#pragma once

#include <string>

#include "engine/starter_request.hpp"
#include "starter/entry/installation.hpp"

namespace sarus::starter {

/// The content and the name of the image of a container that was kept, a line each; "" if there is none.
/// Throws Error.
std::string describeKept(const Session& session, const engine::SaveRequest& request);

/// Gives up all privileges and becomes the image builder, which writes the image and the container's changes
/// to standard input. The builder sees what the container has written through a mount that is read-only,
/// nosuid and nodev. Throws Error.
[[noreturn]] void saveContainer(Session& session, const engine::SaveRequest& request);

}  // namespace sarus::starter
