/* Included before each file on systems whose headers are older than Linux 6.1 and glibc 2.36 (cmake/OlderSystems.cmake). The numbers are
 * those of all architectures (include/uapi of Linux). */
#pragma once

#include <sys/mount.h> /* must come before linux/mount.h there */
#include <sys/syscall.h>

#include <linux/fuse.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <linux/types.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif
#if FUSE_KERNEL_VERSION == 7 && FUSE_KERNEL_MINOR_VERSION < 37
#define FUSE_TMPFILE 51
#endif

#ifndef MOUNT_ATTR_SIZE_VER0
#define MOUNT_ATTR_SIZE_VER0 32
struct mount_attr {
    __u64 attr_set;
    __u64 attr_clr;
    __u64 propagation;
    __u64 userns_fd;
};
#endif
