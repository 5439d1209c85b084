#include "starter/namespaces/user_namespace.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/pipe.hpp"
#include "base/subprocess.hpp"
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

std::vector<std::uint32_t> sizesOf(const std::vector<node::IdRange>& more) {
    std::vector<std::uint32_t> sizes{1};
    for (const auto& range : more) {
        sizes.push_back(range.count);
    }
    return sizes;
}

/// A process outside of the namespace that its parent is about to create: there newuidmap(1) has no
/// privileges.
class OutsideMapper {
public:
    OutsideMapper(const Credentials& credentials, const node::SubordinateIds& ids) {
        auto [reader, writer] = makePipe();
        const pid_t parent = ::getpid();
        child = Child(checkErrno(::fork(), "Failed to create a process that maps ids"));
        if (child.pid() == 0) {
            writer.reset();
            char go = 0;
            ::_exit(::read(reader.get(), &go, 1) == 1 && isMapped(parent, credentials, ids) ? 0 : 1);
        }
        signal = std::move(writer);
    }

    bool map() {
        writeAll(signal.get(), "1", "a pipe");
        return child.wait().ok();
    }

private:
    static bool isMapped(pid_t parent, const Credentials& credentials, const node::SubordinateIds& ids) {
        try {
            node::mapSubordinateIds(parent, credentials.uid(), credentials.gid(), ids);
            return true;
        } catch (const std::exception& error) {
            logWarn("Namespaces", cat("The container has a single user id: ", error.what()));
            return false;
        }
    }

    Child child;
    UniqueFd signal;
};

}  // namespace

void enterNewUserNamespace(Credentials& credentials, const node::SubordinateIds& more) {
    std::optional<OutsideMapper> mapper;
    if (!more.isEmpty()) {
        mapper.emplace(credentials, more);
    }
    if (::unshare(CLONE_NEWUSER) != 0) {
        throw node::userNamespaceError("Failed to create a user namespace", errno);
    }
    if (mapper && mapper->map()) {
        credentials.enteredUserNamespace(sizesOf(more.uids), sizesOf(more.gids));
        return;
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
