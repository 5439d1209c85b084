#include "podman_hpc/shared_run/container_entry.hpp"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/process_tree.hpp"
#include "base/text.hpp"
#include "podman_hpc/shared_run/container_process.hpp"

namespace sarus::podman_hpc {

namespace {

struct Kind {
    const char* name;
    int flag;
    char letter;
};
// The mount namespace last: it hides /proc.
constexpr Kind namespaceKinds[] = {{"pid", CLONE_NEWPID, 'p'},
                                   {"ipc", CLONE_NEWIPC, 'i'},
                                   {"net", CLONE_NEWNET, 'n'},
                                   {"uts", CLONE_NEWUTS, 'u'},
                                   {"mnt", CLONE_NEWNS, 'm'}};

bool isSame(int fd, int other) {
    struct stat one {};
    struct stat two {};
    return ::fstat(fd, &one) == 0 && ::fstat(other, &two) == 0 && one.st_ino == two.st_ino &&
           one.st_dev == two.st_dev;
}

/// The argument behind `-b`.
std::string bundleOf(const Process& conmon) {
    const auto words = split(conmon.read("cmdline"), '\0');
    const auto option = std::find(words.begin(), words.end(), "-b");
    return option == words.end() || option + 1 == words.end() ? "" : *(option + 1);
}

bool isChild(const Process& process, const Process& parent) {
    const auto children = parent.children();
    return std::any_of(children.begin(), children.end(), [&](const Process& child) {
        return child.pid() == process.pid() && child.started() == process.started();
    });
}

}  // namespace

void ContainerEntry::add(char kind, UniqueFd fd) {
    letters += kind;
    fds.push_back(std::move(fd));
}

/// -1 if there is none.
int ContainerEntry::find(char kind) const {
    const auto found = letters.find(kind);
    return found < fds.size() ? fds[found].get() : -1;
}

/// False if the container's user namespace is not below ours.
bool ContainerEntry::addUserNamespaces(const std::string& directory) {
    constexpr std::size_t maxDepth = 8;
    const auto own = openFile("/proc/self/ns/user", O_RDONLY);
    for (auto fd = openFile(directory + "user", O_RDONLY); !isSame(fd.get(), own.get());) {
        UniqueFd parent(::ioctl(fd.get(), NS_GET_PARENT));
        if (!parent || fds.size() == maxDepth) {
            return false;
        }
        letters.insert(letters.begin(), 'U');
        fds.insert(fds.begin(), std::move(fd));
        fd = std::move(parent);
    }
    return true;
}

std::optional<ContainerEntry> ContainerEntry::of(pid_t pid, pid_t conmon) {
    try {
        const Process process(pid);
        const Process parent(conmon);
        const auto directory = cat("/proc/", pid, "/ns/");
        ContainerEntry entry;
        if (!entry.addUserNamespaces(directory)) {
            return std::nullopt;
        }
        for (const auto& kind : namespaceKinds) {
            auto theirs = openFile(directory + kind.name, O_RDONLY);
            if (!isSame(theirs.get(), openFile(cat("/proc/self/ns/", kind.name), O_RDONLY).get())) {
                entry.add(kind.letter, std::move(theirs));
            }
        }
        entry.add('c', openFile(bundleOf(parent) + "/config.json", O_RDONLY | O_NOFOLLOW));
        if (UniqueFd first(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); first) {
            entry.add('d', std::move(first));
        }
        // The process was alive all the time, so all of this is the container's.
        const bool isReal = process.isRunning() && isChild(process, parent) && entry.find('m') >= 0;
        return isReal && parseContainerProcess(entry.config()) ? std::optional(std::move(entry))
                                                               : std::nullopt;
    } catch (const Error&) {
        return std::nullopt;
    }
}

std::vector<int> ContainerEntry::descriptors() const {
    std::vector<int> numbers;
    for (const auto& fd : fds) {
        numbers.push_back(fd.get());
    }
    return numbers;
}

/// The descriptor's position is shared with all other tasks.
std::string ContainerEntry::config() const {
    std::string text;
    std::string part(1U << 16U, '\0');
    ssize_t size = 0;
    constexpr std::size_t limit = 16U << 20U;
    while (text.size() < limit &&
           (size = ::pread(find('c'), part.data(), part.size(), static_cast<off_t>(text.size()))) > 0) {
        text.append(part, 0, static_cast<std::size_t>(size));
    }
    return text;
}

bool ContainerEntry::hasEnded() const {
    constexpr int moment = 100;  // milliseconds; the kernel kills the other processes first
    pollfd first{find('d'), POLLIN, 0};
    return first.fd >= 0 && ::poll(&first, 1, moment) > 0;
}

/// A namespace belongs to the user namespace in which it was made: keep-id's network to the outer one, the
/// rest to the inner one. So each level enters what it may.
int ContainerEntry::enter() const {
    unsigned entered = 0;
    int failure = 0;
    const auto enterOthers = [&] {
        failure = 0;
        for (const auto& kind : namespaceKinds) {
            const int fd = find(kind.letter);
            if (fd < 0 || (entered & static_cast<unsigned>(kind.flag)) != 0) {
                continue;
            }
            if (::setns(fd, kind.flag) == 0) {
                entered |= static_cast<unsigned>(kind.flag);
            } else {
                failure = errno;
            }
        }
    };
    enterOthers();
    for (std::size_t i = 0; i < fds.size() && letters[i] == 'U'; ++i) {
        if (::setns(fds[i].get(), CLONE_NEWUSER) != 0) {
            return errno;
        }
        enterOthers();
    }
    return failure;
}

}  // namespace sarus::podman_hpc
