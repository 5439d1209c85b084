#pragma once

namespace sarus::podman_hpc {

/// Closes all descriptors from `first` on but `kept`. Works without close_range(2), which is new in
/// Linux 5.9.
void closeDescriptors(int first, int kept);

/// Makes all descriptors from `first` on close when this process executes a program.
void closeOnExec(int first);

}  // namespace sarus::podman_hpc
