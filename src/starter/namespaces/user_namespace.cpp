#include "starter/namespaces/user_namespace.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "node/user_namespace_error.hpp"

namespace sarus::starter {

namespace {

void writeMap(const char* path, const std::string& text) {
    try {
        const auto file = openFile(path, O_WRONLY);
        writeAll(file.get(), text, path);
    } catch (const Error& error) {
        throw node::userNamespaceError("Failed to map the user's ids into a user namespace", error.errnum());
    }
}

}  // namespace

void enterNewUserNamespace(Credentials& credentials) {
    if (::unshare(CLONE_NEWUSER) != 0) {
        throw node::userNamespaceError("Failed to create a user namespace", errno);
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
