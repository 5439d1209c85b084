#include "starter/namespaces/namespaces.hpp"

#include <sched.h>
#include <sys/mount.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/mounts.hpp"
#include "node/user_namespace_error.hpp"
#include "starter/namespaces/user_namespace.hpp"

namespace sarus::starter {

UserNamespaces enterNamespaces(Credentials& credentials, const NamespaceSharing& sharing,
                               const std::optional<node::SubordinateIds>& root) {
    UserNamespaces common;
    if (!credentials.privileged()) {
        common =
            root ? enterNamespaceOfRoot(credentials, *root) : enterSharedUserNamespace(credentials, sharing);
    }
    if (::unshare(CLONE_NEWNS) != 0) {
        constexpr const char* doing = "Failed to create a mount namespace";
        throw credentials.privileged() ? Error::fromErrno(doing, errno, "The starter needs CAP_SYS_ADMIN")
                                       : node::userNamespaceError(doing, errno);
    }
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
        constexpr const char* doing = "Failed to detach the mount namespace from the host's";
        // AppArmor may allow creating a user namespace but nothing inside it.
        throw credentials.privileged() ? Error::fromErrno(doing, errno)
                                       : node::userNamespaceError(doing, errno);
    }
    if (credentials.privileged()) {
        addNosuid("/dev");  // OCI runtimes bind its null device over files that a container must not read
    }
    return common;
}

}  // namespace sarus::starter
