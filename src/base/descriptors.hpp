#pragma once

#include <vector>

namespace sarus {

/// Closes the descriptors from `first` to `last` (-1: the greatest one). Works without close_range(2), which
/// is new in Linux 5.9. Uses only system calls.
void closeRange(int first, int last = -1) noexcept;

/// Makes all descriptors from `first` on close when this process executes a program. As closeRange().
void closeOnExec(int first) noexcept;

/// Lets a descriptor survive that this process executes a program. Throws Error.
void passOn(int fd);

/// In a new process: the descriptors become 0, 1, 2, ..., which programs inherit, and all others are closed.
/// False, with errno, if one is none.
bool arrangeDescriptors(std::vector<int> descriptors);

}  // namespace sarus
