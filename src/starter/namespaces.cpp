#include "starter/namespaces.hpp"

#include <sched.h>
#include <sys/mount.h>

#include <cerrno>

#include "base/error.hpp"
#include "starter/user_namespace.hpp"
#include "starter/user_namespace_error.hpp"

namespace sarus::starter {

UserNamespaces enterNamespaces(Credentials& credentials, const NamespaceSharing& sharing) {
    UserNamespaces common;
    if (!credentials.privileged()) {
        common = enterSharedUserNamespace(credentials, sharing);
    }
    if (::unshare(CLONE_NEWNS) != 0) {
        constexpr const char* doing = "Failed to create a mount namespace";
        throw credentials.privileged() ? Error::fromErrno(doing, errno, "The starter needs CAP_SYS_ADMIN")
                                       : userNamespaceError(doing, errno);
    }
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
        constexpr const char* doing = "Failed to detach the mount namespace from the host's";
        // AppArmor may let a program make a user namespace, and then nothing in it.
        throw credentials.privileged() ? Error::fromErrno(doing, errno) : userNamespaceError(doing, errno);
    }
    return common;
}

}  // namespace sarus::starter
