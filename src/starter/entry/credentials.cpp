#include "starter/entry/credentials.hpp"

#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/capabilities.hpp"
#include "base/error.hpp"
#include "base/line_writer.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

std::uint64_t maskOf(const std::vector<int>& capabilities) {
    std::uint64_t mask = 0;
    for (const int capability : capabilities) {
        mask |= std::uint64_t{1} << static_cast<unsigned>(capability);
    }
    return mask;
}

std::vector<gid_t> kernelGroups() {
    const int count = checkErrno(::getgroups(0, nullptr), "Failed to read the supplementary groups");
    std::vector<gid_t> groups(static_cast<std::size_t>(count));
    groups.resize(static_cast<std::size_t>(
        checkErrno(::getgroups(count, groups.data()), "Failed to read the supplementary groups")));
    return groups;
}

/// Ends a process whose ids are undefined.
[[noreturn]] void giveUp(std::string_view message) {
    setLineWriter({});
    printError(message);
    ::_exit(1);
}

}  // namespace

Credentials Credentials::acquire(Mode mode) {
    Credentials credentials;
    credentials.mode = mode;
    credentials.callerUid = ::getuid();
    credentials.callerGid = ::getgid();
    credentials.callerGroups = kernelGroups();
    if (mode == Mode::privileged) {
        checkErrno(::setresgid(0, 0, 0), "Failed to become group root");
        checkErrno(::setresuid(0, 0, 0), "Failed to become root");
    }
    return credentials;
}

void Credentials::assume() const {
    if (callerUid == 0 && privileged()) {
        checkErrno(::setresgid(callerGid, callerGid, callerGid), "Failed to take on the user's group");
        return;
    }
    if (privileged()) {
        checkErrno(::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), "Failed to keep the permitted capabilities");
        checkErrno(::setresgid(callerGid, callerGid, callerGid), "Failed to take on the user's group");
        checkErrno(::setresuid(callerUid, callerUid, callerUid), "Failed to take on the user's identity");
    }
    auto capabilities = getCapabilities();
    if (capabilities.effective != 0) {
        capabilities.effective = 0;
        setCapabilities(capabilities);
    }
}

void Credentials::restore() const {
    auto capabilities = getCapabilities();
    if (capabilities.effective != capabilities.permitted) {
        capabilities.effective = capabilities.permitted;
        setCapabilities(capabilities);
    }
    if (privileged()) {
        checkErrno(::setresuid(0, 0, 0), "Failed to become root again");
        checkErrno(::setresgid(0, 0, 0), "Failed to become group root again");
    }
}

Credentials::Assumed::Assumed(const Credentials& theOwner) : owner(theOwner) {
    if (owner.depth == 0) {
        try {
            owner.assume();
        } catch (...) {
            // Some ids may have changed already: no code may run in that state.
            giveUp("Failed to take on the user's identity");
        }
    }
    ++owner.depth;
}

Credentials::Assumed::~Assumed() {
    if (--owner.depth == 0) {
        try {
            owner.restore();
        } catch (...) {
            giveUp("Failed to take back the starter's identity");
        }
    }
}

void printAsCaller(const Credentials& credentials) {
    if (!credentials.privileged() || credentials.uid() == 0) {
        return;
    }
    setLineWriter([credentials](const std::function<void()>& write) {
        if (::getuid() == credentials.uid()) {  // inside asUser()
            write();
        } else {
            credentials.asUser(write);
        }
    });
}

void limitCapabilities(const Credentials& credentials, const std::vector<int>& kept) {
    setLineWriter({});
    if (credentials.privileged()) {
        setCapabilities({.effective = maskOf(kept), .permitted = maskOf(kept)});
    }
}

WithoutCapabilities::WithoutCapabilities() {
    const auto before = getCapabilities();
    effective = before.effective;
    permitted = before.permitted;
    setCapabilities({.effective = 0, .permitted = permitted});
}

WithoutCapabilities::~WithoutCapabilities() {
    try {
        setCapabilities({.effective = effective, .permitted = permitted});
    } catch (...) {
        giveUp("Failed to take back the capabilities");
    }
}

void becomeCaller(const Credentials& credentials) {
    if (!credentials.privileged()) {
        return;
    }
    const auto user = credentials.uid();
    const auto group = credentials.gid();
    checkErrno(::setresgid(group, group, group), "Failed to take on the user's group");
    checkErrno(::setresuid(user, user, user), "Failed to take on the user's identity");
}

void dropToMonitor(const Credentials& credentials, pid_t watched) {
    if (!credentials.privileged()) {
        return;
    }
    const auto user = credentials.uid();
    const auto group = credentials.gid();
    if (user != 0) {
        checkErrno(::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), "Failed to keep CAP_KILL");
        checkErrno(::setresgid(group, group, group), "Failed to drop root's group");
        checkErrno(::setresuid(user, user, user), "Failed to drop root's identity");
        std::vector<int> kept{CAP_KILL};
        if (watched > 0 && ::access(cat("/proc/", watched, "/stat").c_str(), R_OK) != 0) {
            kept.push_back(
                CAP_SYS_PTRACE);  // the node hides root's processes from the user (proc(5), "hidepid")
        }
        limitCapabilities(credentials, kept);
        const auto left = getCapabilities();
        uid_t real = 0;
        uid_t effective = 0;
        uid_t saved = 0;
        checkErrno(::getresuid(&real, &effective, &saved), "Failed to read the identity back");
        if (left.permitted != maskOf(kept) || real != user || effective != user || saved != user) {
            throw Error("Failed to drop root's privileges: they are still there");
        }
    }
    checkErrno(::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "Failed to make the process not dumpable");
}

}  // namespace sarus::starter
