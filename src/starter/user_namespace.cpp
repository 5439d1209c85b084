#include "starter/user_namespace.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <string>

#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

struct Switch {
    const char* path;
    const char* name;
    const char* forbidding;  ///< the value that forbids user namespaces
    const char* allowing;
};

constexpr std::array switches{
    Switch{"/proc/sys/user/max_user_namespaces", "user.max_user_namespaces", "0", "15000"},
    Switch{"/proc/sys/kernel/unprivileged_userns_clone", "kernel.unprivileged_userns_clone", "0", "1"},
    Switch{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "kernel.apparmor_restrict_unprivileged_userns", "1", "0"},
};

}  // namespace

Error userNamespaceError(std::string_view doing, int errnum) {
    for (const auto& [path, name, forbidding, allowing] : switches) {
        if (!pathExists(path)) {
            continue;
        }
        if (trim(readFile(path, 4096)) == forbidding) {
            return Error::fromErrno(cat(doing, ": user namespaces are disabled by the kernel setting ", name, '=', forbidding),
                                    errnum,
                                    cat("The administrator can allow them with `sysctl ", name, '=', allowing,
                                        "`, or install sarus-starter set-user-ID root"));
        }
    }
    return Error::fromErrno(doing, errnum,
                            "Containers without privileges need user namespaces; the administrator can allow them, or install "
                            "sarus-starter set-user-ID root");
}

namespace {

void writeMap(const char* path, const std::string& text) {
    try {
        const auto file = openFile(path, O_WRONLY);
        writeAll(file.get(), text, path);
    } catch (const Error& error) {
        throw userNamespaceError("Failed to map the user's ids into a user namespace", error.errnum());
    }
}

}  // namespace

void enterNewUserNamespace(Credentials& credentials) {
    if (::unshare(CLONE_NEWUSER) != 0) {
        throw userNamespaceError("Failed to create a user namespace", errno);
    }
    writeMap("/proc/self/setgroups", "deny");
    writeMap("/proc/self/uid_map", cat("0 ", credentials.uid(), " 1\n"));
    writeMap("/proc/self/gid_map", cat("0 ", credentials.gid(), " 1\n"));
    credentials.enteredUserNamespace();
}

bool sameNamespace(int left, int right) {
    struct stat a {};
    struct stat b {};
    checkErrno(::fstat(left, &a), "Failed to examine a namespace");
    checkErrno(::fstat(right, &b), "Failed to examine a namespace");
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

UniqueFd relatedNamespace(int namespaceFd, unsigned long request) {
    return UniqueFd(checkErrno(::ioctl(namespaceFd, request), "Failed to find the owner of a namespace"));
}

}  // namespace sarus::starter
