#pragma once

#include <sys/types.h>

#include <string_view>

namespace sarus::podman_hpc {

/// Gives Podman the reason of a failure if the runtime (a process) hides the hook's standard error, as crun
/// does: Podman shows what the runtime has written to its standard error, unless the runtime's log holds
/// exactly one message. Does nothing if that is impossible.
void tellPodman(pid_t runtime, std::string_view reason) noexcept;

}  // namespace sarus::podman_hpc
