#include "starter/namespaces/shared_namespaces.hpp"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clone.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/pipe.hpp"
#include "base/process_tree.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "starter/namespaces/holder_file.hpp"
#include "starter/namespaces/user_namespace.hpp"

namespace sarus::starter {

namespace {

constexpr std::string_view subsystem = "Namespaces";
constexpr std::size_t mostHolders = 256;
constexpr std::size_t largestMap = 4096;

/// Starters share namespaces only if all of this is equal. The kernel fixes the limits of a user namespace
/// when a process creates it.
std::string sharingKey(const Credentials& credentials, bool createsUser) {
    auto key = cat(placeOfSharing(), '-', credentials.gid(), createsUser ? "-helper" : "-direct");
    for (const auto resource : {RLIMIT_NPROC, RLIMIT_MSGQUEUE, RLIMIT_SIGPENDING, RLIMIT_MEMLOCK}) {
        rlimit limit{};
        checkErrno(::getrlimit(resource, &limit), "Failed to read a limit");
        key += limit.rlim_cur == RLIM_INFINITY ? std::string("-u") : cat('-', limit.rlim_cur);
    }
    return key;
}

bool isFoundInProc(const UniqueFd& fd) {
    struct stat byName {};
    struct stat byFd {};
    return ::stat(pathForOthers(fd.get()).c_str(), &byName) == 0 && ::fstat(fd.get(), &byFd) == 0 &&
           byName.st_dev == byFd.st_dev && byName.st_ino == byFd.st_ino;
}

UniqueFd openHeldNamespace(int process, int number) {
    const auto name = cat("fd/", number);
    std::array<char, 32> target{};
    constexpr std::string_view kind = "user:[";
    const auto size = ::readlinkat(process, name.c_str(), target.data(), target.size());
    if (size < 0 || !std::string_view(target.data(), static_cast<std::size_t>(size)).starts_with(kind)) {
        throw Error("it no longer holds the containers' user namespace");
    }
    return openFileAt(process, name, O_RDONLY | O_NONBLOCK);
}

void checkUserNamespace(int namespaceFd, int parent, uid_t owner) {
    uid_t found = 0;
    checkErrno(::ioctl(namespaceFd, NS_GET_OWNER_UID, &found),
               "Failed to find the owner of a user namespace");
    if (found != owner || !sameNamespace(relatedNamespace(namespaceFd, NS_GET_PARENT).get(), parent)) {
        throw Error("its user namespace is of another user or in another place");
    }
}

void checkMap(int process, const char* name, std::uint64_t id) {
    const auto map = readAll(openFileAt(process, name, O_RDONLY).get(), largestMap, name);
    if (splitWords(map) != std::vector<std::string>{"0", cat(id), "1"}) {
        throw Error("its user namespace has other ids");
    }
}

/// Throws Error without changing anything if the holder has ended or its namespaces differ from those that
/// this starter would create.
UserNamespaces join(const Holder& holder, const Credentials& credentials, bool createsUser) {
    const auto process = openFile(cat("/proc/", holder.pid), O_PATH | O_DIRECTORY);
    // In this order: the directory then belongs to the process whose start time is compared, or to one that
    // had ended before.
    if (Process(holder.pid).started() != holder.started) {
        throw Error("it has ended");
    }
    const auto own = openFile("/proc/self/ns/user", O_RDONLY);
    const auto outer = openFileAt(process.get(), "ns/user", O_RDONLY);
    checkUserNamespace(outer.get(), own.get(), credentials.uid());
    checkMap(process.get(), "uid_map", credentials.uid());
    checkMap(process.get(), "gid_map", credentials.gid());
    UserNamespaces joined;
    joined.container = openHeldNamespace(process.get(), holder.first);
    checkUserNamespace(joined.container.get(), outer.get(), credentials.uid());
    if (createsUser) {
        joined.payload = openHeldNamespace(process.get(), holder.second);
        checkUserNamespace(joined.payload.get(), joined.container.get(), credentials.uid());
    }
    if (!isFoundInProc(joined.container)) {
        throw Error("/proc is not that of this process");
    }
    checkErrno(::setns(outer.get(), CLONE_NEWUSER), "Failed to enter its user namespace");
    return joined;
}

std::optional<UserNamespaces> joinAny(std::vector<Holder>& holders, const Credentials& credentials,
                                      bool createsUser) {
    while (!holders.empty()) {
        try {
            return join(holders.front(), credentials, createsUser);
        } catch (const Error& error) {
            logDebug(subsystem, cat("Process ", holders.front().pid,
                                    " is no holder of the user namespaces: ", error.what()));
            holders.erase(holders.begin());
        }
    }
    return std::nullopt;
}

/// Creates a user namespace in a process of its own, which runInClone() does without copying memory.
class InnerNamespace {
public:
    InnerNamespace(std::string uids, std::string gids) : uidMap(std::move(uids)), gidMap(std::move(gids)) {}

    InnerNamespace* below = nullptr;  ///< the one to create inside it
    int fd = -1;                      ///< the result
    int error = 0;

    void make() {
        if (!runInClone(CLONE_NEWUSER, [this] { run(); })) {
            error = errno;
        }
    }

private:
    void run() {
        // setgroups(2) is already denied, as in the parent. The process may write maps of one id, its own.
        writeMap("/proc/self/uid_map", uidMap);
        writeMap("/proc/self/gid_map", gidMap);
        if (error == 0) {
            fd = ::open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
            error = fd < 0 ? errno : 0;
        }
        if (error == 0 && below != nullptr) {
            below->make();
            error = below->error;
        }
    }

    void writeMap(const char* path, const std::string& text) {
        if (error != 0) {
            return;
        }
        const int file = ::open(path, O_WRONLY | O_CLOEXEC);
        if (file < 0 || ::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
            error = errno;
        }
        ::close(file);
    }

    std::string uidMap;
    std::string gidMap;
};

UserNamespaces makeContainerNamespaces(const Credentials& credentials, bool createsUser) {
    const auto callersUid = cat(credentials.uid(), " 0 1\n");
    const auto callersGid = cat(credentials.gid(), " 0 1\n");
    InnerNamespace payload(callersUid, callersGid);
    InnerNamespace container(createsUser ? "0 0 1\n" : callersUid, createsUser ? "0 0 1\n" : callersGid);
    container.below = createsUser ? &payload : nullptr;
    container.make();
    UserNamespaces made;
    made.container.reset(container.fd);
    made.payload.reset(payload.fd);
    if (container.error != 0) {
        throw Error::fromErrno("Failed to make the containers' user namespaces", container.error);
    }
    if (!isFoundInProc(made.container)) {
        throw Error("/proc is not that of this process");
    }
    return made;
}

void publish(const HolderFile& file, std::vector<Holder> holders, const UserNamespaces& namespaces) {
    if (holders.size() >= mostHolders) {
        std::erase_if(holders,
                      [](const auto& holder) { return Process(holder.pid).started() != holder.started; });
    }
    if (holders.size() < mostHolders) {
        const Process self(::getpid());
        holders.push_back({.pid = self.pid(),
                           .started = self.started(),
                           .first = namespaces.container.get(),
                           .second = namespaces.payload ? namespaces.payload.get() : 0});
    }
    file.write(holders);
}

/// The file of the starters that this one can share with; nullopt if it cannot share.
std::optional<HolderFile> openHolders(const Credentials& credentials, const NamespaceSharing& sharing) {
    if (sharing.directory.empty()) {
        return std::nullopt;
    }
    try {
        // If the program file is not readable for its user, the kernel hides the process's files in /proc
        // from the user's other processes.
        checkErrno(::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0),
                   "Failed to make the process visible to the user's other processes");
        constexpr std::chrono::seconds patience{5};  // all ranks of a node may start at once
        return HolderFile::open(sharing.directory, sharingKey(credentials, sharing.createsUser),
                                credentials.ownerUid(), patience);
    } catch (const Error& error) {
        const auto reason =
            error.errnum() == ENOLCK
                ? cat("The filesystem of \"", printable(sharing.directory), "\" has no file locks")
                : error.what();
        logWarn(subsystem, cat(reason,
                               ": the processes of this user's containers cannot read each other's "
                               "memory, which MPI may need"));
        return std::nullopt;
    }
}

}  // namespace

std::string pathForOthers(int fd) {
    return cat("/proc/", ::getpid(), "/fd/", fd);
}

UserNamespaces enterNamespaceOfRoot(Credentials& credentials, const node::SubordinateIds& more) {
    enterNewUserNamespace(credentials, more);
    auto [reader, writer] = makePipe();
    const pid_t parent = ::getpid();
    Child child(checkErrno(::fork(), "Failed to create a process in a user namespace"));
    if (child.pid() == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        const int error = ::getppid() == parent && ::unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
        [[maybe_unused]] const auto written = ::write(writer.get(), &error, sizeof error);
        ::pause();
        ::_exit(0);
    }
    writer.reset();
    int error = ESRCH;
    [[maybe_unused]] const auto count = ::read(reader.get(), &error, sizeof error);
    if (error != 0) {
        throw Error::fromErrno("Failed to make the container's user namespace", error);
    }
    const auto process = cat("/proc/", child.pid());
    const auto writeMap = [&](const char* name, const std::vector<std::uint32_t>& ranges) {
        const auto path = cat(process, '/', name);
        std::string map;
        std::uint32_t first = 0;
        for (const auto size : ranges) {
            map += cat(first, ' ', first, ' ', size, '\n');
            first += size;
        }
        writeAll(openFile(path, O_WRONLY).get(), map, path);
    };
    writeMap("uid_map", credentials.uids());
    writeMap("gid_map", credentials.gids());
    return {.container = openFile(cat(process, "/ns/user"), O_RDONLY), .payload = {}};
}

UserNamespaces enterSharedUserNamespace(Credentials& credentials, const NamespaceSharing& sharing) {
    const auto file = openHolders(credentials, sharing);
    auto holders = file ? file->read() : std::vector<Holder>();
    auto joined = joinAny(holders, credentials, sharing.createsUser);
    if (joined) {
        credentials.enteredUserNamespace();
    } else {
        enterNewUserNamespace(credentials);
    }
    UserNamespaces common;
    if (!file) {
        return common;
    }
    try {
        common = joined ? std::move(*joined) : makeContainerNamespaces(credentials, sharing.createsUser);
        logDebug(subsystem,
                 joined
                     ? "The container shares the user namespaces of this user's other containers"
                     : "The container has new user namespaces that this user's other containers can share");
        publish(*file, std::move(holders), common);
        if (!joined) {
            sweepHolderFiles(sharing.directory);
        }
    } catch (const Error& error) {
        logDebug(subsystem,
                 cat("No other container can enter the user namespaces of this one: ", error.what()));
    }
    return common;
}

}  // namespace sarus::starter
