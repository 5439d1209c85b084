#include "base/kernel_filesystems.hpp"

#include <linux/magic.h>

#include <algorithm>
#include <array>

namespace sarus {

namespace {

struct Filesystem {
    std::string_view type;
    long magic;
};

// Not all of them are in the kernel's headers for programs.
constexpr std::array kernelFilesystems{
    Filesystem{"proc", PROC_SUPER_MAGIC},
    Filesystem{"sysfs", SYSFS_MAGIC},
    Filesystem{"cgroup", CGROUP_SUPER_MAGIC},
    Filesystem{"cgroup2", CGROUP2_SUPER_MAGIC},
    Filesystem{"devpts", DEVPTS_SUPER_MAGIC},
    Filesystem{"mqueue", 0x19800202},
    Filesystem{"securityfs", SECURITYFS_MAGIC},
    Filesystem{"debugfs", DEBUGFS_MAGIC},
    Filesystem{"tracefs", TRACEFS_MAGIC},
    Filesystem{"pstore", PSTOREFS_MAGIC},
    Filesystem{"bpf", BPF_FS_MAGIC},
    Filesystem{"binfmt_misc", BINFMTFS_MAGIC},
    Filesystem{"configfs", 0x62656570},
    Filesystem{"efivarfs", EFIVARFS_MAGIC},
    Filesystem{"fusectl", 0x65735543},
    Filesystem{"selinuxfs", SELINUX_MAGIC},
    Filesystem{"smackfs", SMACK_MAGIC},
    Filesystem{"apparmorfs", AAFS_MAGIC},
    Filesystem{"resctrl", RDTGROUP_SUPER_MAGIC},
    Filesystem{"nsfs", NSFS_MAGIC},
    Filesystem{"nfsd", 0x6e667364},
    Filesystem{"rpc_pipefs", 0x67596969},
};

}  // namespace

bool isKernelFilesystem(long magic) {
    return std::any_of(kernelFilesystems.begin(), kernelFilesystems.end(),
                       [&](const Filesystem& known) { return known.magic == magic; });
}

bool isKernelFilesystem(std::string_view type) {
    return std::any_of(kernelFilesystems.begin(), kernelFilesystems.end(),
                       [&](const Filesystem& known) { return known.type == type; });
}

}  // namespace sarus
