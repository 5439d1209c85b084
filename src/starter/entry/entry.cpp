#include "starter/entry/entry.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "base/begin_process.hpp"
#include "base/capabilities.hpp"
#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/id_map.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

/// The kernel drops the signals that the caller ignores only if they are not blocked.
void resetSignalsAndTimers() {
    sigset_t watched;
    ::sigfillset(&watched);
    for (const int number : signalsIgnoredByCaller()) {
        ::sigdelset(&watched, number);
    }
    ::sigprocmask(SIG_SETMASK, &watched, nullptr);
    resetSignalActions(IgnoredSignals::keep);
    ::alarm(0);
    const itimerval off{};
    for (const auto timer : {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF}) {
        ::setitimer(timer, &off, nullptr);
    }
}

struct NeededLimit {
    __rlimit_resource resource;
    const char* name;
    rlim_t needed;
};

constexpr std::array neededLimits{
    NeededLimit{RLIMIT_FSIZE, "RLIMIT_FSIZE", 64U << 20U},
    NeededLimit{RLIMIT_NOFILE, "RLIMIT_NOFILE", 256},
    NeededLimit{RLIMIT_AS, "RLIMIT_AS", 1U << 30U},
    NeededLimit{RLIMIT_DATA, "RLIMIT_DATA", 256U << 20U},
    NeededLimit{RLIMIT_CPU, "RLIMIT_CPU", 10},
    NeededLimit{RLIMIT_STACK, "RLIMIT_STACK", 128U << 10U},
};

std::vector<CallerLimit> adjustLimits() {
    std::vector<CallerLimit> limits;
    for (const auto& [resource, name, needed] : neededLimits) {
        rlimit limit{};
        checkErrno(::getrlimit(resource, &limit), cat("Failed to read ", name));
        const CallerLimit caller{
            .resource = resource, .name = name, .soft = limit.rlim_cur, .hard = limit.rlim_max};
        // A runtime written in Go raises its soft limit of descriptors itself, so that limit is always
        // restored.
        if (raiseLimit(resource, name, needed, limit) || resource == RLIMIT_NOFILE) {
            limits.push_back(caller);
        }
    }
    rlimit core{};
    checkErrno(::getrlimit(RLIMIT_CORE, &core), "Failed to read RLIMIT_CORE");
    if (core.rlim_cur != 0) {
        limits.push_back(
            {.resource = RLIMIT_CORE, .name = "RLIMIT_CORE", .soft = core.rlim_cur, .hard = core.rlim_max});
        core.rlim_cur = 0;
        checkErrno(::setrlimit(RLIMIT_CORE, &core), "Failed to switch off core files");
    }
    return limits;
}

std::string twoLevelsAbove(const std::string& path) {
    auto end = path.rfind('/');
    end = end == 0 || end == std::string::npos ? std::string::npos : path.rfind('/', end - 1);
    if (end == std::string::npos) {
        throw Error(cat("The program ", printable(path), " is not installed in <prefix>/libexec"));
    }
    return end == 0 ? "/" : path.substr(0, end);
}

std::string whyBitHadNoEffect(bool identity) {
    if (!identity) {
        return "this is a user namespace";
    }
    if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
        return "the process runs with no_new_privs";
    }
    struct statvfs filesystem {};
    if (::statvfs("/proc/self/exe", &filesystem) == 0 && (filesystem.f_flag & ST_NOSUID) != 0) {
        return "its file system is mounted with nosuid";
    }
    return "the kernel did not grant the privileges";
}

/// Nothing has been read or opened with them yet. Without the last step, the process could not write the maps
/// of its user namespace.
void giveUpPrivileges() {
    const auto user = ::getuid();
    const auto group = ::getgid();
    checkErrno(::setresgid(group, group, group), "Failed to drop root's group");
    checkErrno(::setresuid(user, user, user), "Failed to drop root's identity");
    const bool isBack =
        user != 0 && (::setuid(0) == 0 || ::geteuid() != user || getCapabilities().permitted != 0);
    if (isBack) {
        throw Error("Failed to drop root's privileges: they are still there");
    }
    checkErrno(::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "Failed to make the process an ordinary one");
}

void decideMode(Entry& entry, Privileges privileges) {
    const auto map = readFile("/proc/self/uid_map", 65536);
    const bool identity = isIdentityMap(map);
    entry.nodeUid = idOutside(map, ::getuid());
    entry.ownUserNamespace = !identity;
    entry.mode =
        ::geteuid() == 0 && identity && privileges == Privileges::keep ? Mode::privileged : Mode::rootless;
    const UniqueFd program = openFile("/proc/self/exe", O_PATH);
    auto& status = entry.program;
    checkErrno(::fstat(program.get(), &status), "Failed to examine the program file");
    const bool setUserId = (status.st_mode & S_ISUID) != 0;
    if (setUserId && entry.mode == Mode::rootless && privileges == Privileges::keep &&
        status.st_uid != ::getuid()) {
        entry.privilegeNotice =
            cat("The set-user-ID bit of ", printable(entry.executable), " has no effect because ",
                whyBitHadNoEffect(identity), ": the container starts without privileges");
    }
    entry.callersChoice = setUserId && entry.mode == Mode::privileged && ::getuid() != 0;
    // The program's path determines the prefix: a second hard link would let the caller choose it.
    if (entry.callersChoice && status.st_nlink != 1) {
        throw Error(
            cat("The set-user-ID program ", printable(entry.executable), " must not have other hard links"),
            cat("Remove its other names (find / -xdev -samefile ", printable(entry.executable),
                "), or install it again. \"perf record\" of root leaves one below /root/.debug"));
    }
}

}  // namespace

std::vector<int> openDescriptors() {
    Directory directory("/proc/self/fd", Missing::isError);
    std::vector<int> descriptors;
    while (const char* name = directory.next()) {
        const auto number = parseNumber(name);
        if (number && *number <= INT_MAX && static_cast<int>(*number) != directory.fd()) {
            descriptors.push_back(static_cast<int>(*number));
        }
    }
    std::sort(descriptors.begin(), descriptors.end());
    return descriptors;
}

bool isIdentityMap(const std::string& uidMap) {
    const auto words = splitWords(uidMap);
    return words.size() == 3 && words[0] == "0" && words[1] == "0" && words[2] == "4294967295";
}

bool raiseLimit(int resource, const std::string& name, rlim_t needed, rlimit& limit) {
    const auto which = static_cast<__rlimit_resource>(resource);
    const rlimit before = limit;
    // A very large hard limit of descriptors makes tables sized by it costly. An unlimited stack changes the
    // memory layout of programs.
    const bool sparing = resource == RLIMIT_NOFILE || resource == RLIMIT_STACK;
    if (limit.rlim_cur >= needed && (limit.rlim_cur == limit.rlim_max || sparing)) {
        return false;
    }
    if (sparing) {
        limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, std::max<rlim_t>(needed, 1024));
    } else {
        limit.rlim_cur = limit.rlim_max;
    }
    if (limit.rlim_max < needed) {
        limit = {.rlim_cur = needed, .rlim_max = needed};
    }
    if (::setrlimit(which, &limit) != 0) {
        throw Error(cat("The limit ", name, " of ", before.rlim_max, " is too low to start a container"),
                    cat("It must be at least ", needed, " (see ulimit)"));
    }
    return true;
}

std::optional<CallerLimit> stackLimit(std::optional<std::uint64_t> wanted) {
    rlimit limit{};
    checkErrno(::getrlimit(RLIMIT_STACK, &limit), "Failed to read RLIMIT_STACK");
    if (!wanted || *wanted == limit.rlim_cur) {
        return std::nullopt;
    }
    return CallerLimit{.resource = RLIMIT_STACK,
                       .name = "RLIMIT_STACK",
                       .soft = std::min<rlim_t>(*wanted, limit.rlim_max),
                       .hard = limit.rlim_max};
}

std::vector<CallerLimit> payloadLimits(const Entry& entry, std::optional<std::uint64_t> wantedStack) {
    auto limits = entry.limits;
    if (auto stack = stackLimit(wantedStack)) {
        const auto raised = std::find_if(limits.begin(), limits.end(),
                                         [](const auto& limit) { return limit.resource == RLIMIT_STACK; });
        if (raised == limits.end()) {
            limits.push_back(std::move(*stack));
        } else {
            raised->soft = std::min(stack->soft, raised->hard);
        }
    }
    return limits;
}

void restoreLimits(const Entry& entry) {
    for (const auto& limit : entry.limits) {
        const rlimit before{.rlim_cur = limit.soft, .rlim_max = limit.hard};
        checkErrno(::setrlimit(static_cast<__rlimit_resource>(limit.resource), &before),
                   cat("Failed to restore ", limit.name));
    }
}

void closeInherited(const std::vector<int>& inherited, const std::vector<int>& kept) {
    for (const int fd : inherited) {
        if (fd > STDERR_FILENO && std::find(kept.begin(), kept.end(), fd) == kept.end()) {
            ::close(fd);
        }
    }
}

Entry sanitizeEntry(Privileges privileges) {
    Entry entry;
    entry.descriptors = openDescriptors();
    for (const int fd : entry.descriptors) {
        if (fd > STDERR_FILENO) {
            ::fcntl(fd, F_SETFD, FD_CLOEXEC);
        }
    }
    resetSignalsAndTimers();
    entry.umask = ::umask(022);
    checkErrno(::chdir("/"), "Failed to change to the root directory");
    entry.limits = adjustLimits();
    checkErrno(::clearenv(), "Failed to clear the environment");
    entry.executable = ownProgramPath();
    entry.prefix = twoLevelsAbove(entry.executable);
    if (privileges == Privileges::giveUp) {
        giveUpPrivileges();
    }
    decideMode(entry, privileges);
    return entry;
}

}  // namespace sarus::starter
