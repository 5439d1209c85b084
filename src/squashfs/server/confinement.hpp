#pragma once

#include <cstddef>
#include <string>

namespace sarus::squashfs {

/// Lets all threads of this process only read, write and close open descriptors, manage memory and wait: any
/// other system call ends the process, except that opening a file fails. No process or thread can be created
/// or signalled, and no memory become executable. `mayUnmount`: umount2 with MNT_DETACH is allowed, too,
/// which the server needs if it has mounted the image itself. Throws Error.
void confine(bool mayUnmount);

/// Limits for the time after the start: no core dumps, and `addressSpace` bytes more than now. Throws Error.
void limitResources(std::size_t addressSpace);

}  // namespace sarus::squashfs
