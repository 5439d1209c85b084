#pragma once

/// For a command whose user is root in a user namespace. Package managers make device nodes, which the kernel
/// never allows there, and, with a single id, give files to other users and become other users. From now on
/// these system calls of the process and its children do nothing and succeed (seccomp(2)), with the native
/// and the 32-bit numbers of the processor. False with errno; the process must have no_new_privs.
bool emulateRoot(bool hasSingleId);

/// Whether this process's user namespace has one user id (or it cannot be known).
bool hasSingleId();
