#include "served_image/server.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <utility>

#include "base/begin_process.hpp"
#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/pipe.hpp"
#include "base/text.hpp"
#include "base/time_left.hpp"

namespace sarus::served_image {

namespace {

constexpr std::size_t outputLimit = 4096;

/// A file in memory that cannot grow.
UniqueFd makeOutput() {
    UniqueFd file(checkErrno(::memfd_create("server-output", MFD_CLOEXEC | MFD_ALLOW_SEALING),
                             "Failed to create a memory file"));
    checkErrno(::ftruncate(file.get(), outputLimit), "Failed to create a memory file");
    checkErrno(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK),
               "Failed to create a memory file");
    return file;
}

bool waitForByte(int channel) {
    char byte = 0;
    ssize_t count = 0;
    while ((count = ::read(channel, &byte, 1)) < 0 && errno == EINTR) {
    }
    return count == 1;
}

/// A workload manager signals every process of a job. The files of a container must outlive the reaction to
/// such signals; the server ends by SIGKILL.
void blockSignals() {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int number : {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGABRT, SIGCHLD}) {
        ::sigdelset(&blocked, number);
    }
    resetSignalActions(IgnoredSignals::reset);
    ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
}

/// The new process, whose last descriptor is the channel to `parent`. Throws Error.
void becomeServer(const Server::Setup& setup, int channel, pid_t parent) {
    checkErrno(::fcntl(channel, F_SETFD, FD_CLOEXEC), "Failed to keep a descriptor");
    ::setsid();
    if (setup.enter) {
        setup.enter();
    }
    if (setup.diesWithParent) {  // after the last change of ids, which would clear it
        checkErrno(::prctl(PR_SET_PDEATHSIG, SIGKILL), "Failed to follow the parent");
        if (::getppid() != parent) {
            ::_exit(0);
        }
    }
    checkErrno(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "Failed to give up new privileges");
    const char byte = 0;
    if (::send(channel, &byte, 1, MSG_NOSIGNAL) != 1 || !waitForByte(channel)) {
        ::_exit(0);  // the parent gave up
    }
    blockSignals();
    auto path = cat("PATH=", setup.searchPath);
    std::array<char*, 2> environment{path.data(), nullptr};
    ::execve(setup.program.c_str(), argumentPointers(setup.args).data(), environment.data());
    throwErrno(setup.program);
}

}  // namespace

Answer askServer(int mount, std::chrono::milliseconds patience) {
    auto [in, out] = makePipe();
    const pid_t self = ::getpid();
    const pid_t pid = checkErrno(::fork(), "Failed to create a process");
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() == self && arrangeDescriptors({mount, out.get()}) &&
            ::openat(0, ".", O_RDONLY | O_DIRECTORY) >= 0) {
            [[maybe_unused]] const auto written = ::write(1, "", 1);
        }
        ::_exit(0);
    }
    Child asker(pid);
    out.reset();
    const auto deadline = std::chrono::steady_clock::now() + patience;
    pollfd answer{.fd = in.get(), .events = POLLIN, .revents = 0};
    for (int ready = -1; ready < 0;) {
        ready = ::poll(&answer, 1, millisecondsUntil(deadline));
        if (ready < 0 && errno != EINTR) {
            throwErrno("Failed to wait for an answer");
        }
    }
    if (answer.revents == 0) {
        ::kill(asker.release(), SIGKILL);  // may not reach it before the server answers or ends
        return Answer::late;
    }
    return waitForByte(in.get()) ? Answer::yes : Answer::none;
}

Server::Server(const Setup& setup, UniqueFd fuse)
    : device(std::move(fuse)),
      output(setup.output < 0 ? makeOutput()
                              : UniqueFd(checkErrno(::fcntl(setup.output, F_DUPFD_CLOEXEC, 0),
                                                    "Failed to duplicate a descriptor"))) {
    std::array<int, 2> ends{};
    checkErrno(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()),
               "Failed to create a socket pair");
    channel.reset(ends[0]);
    UniqueFd childEnd(ends[1]);
    const UniqueFd null = openFile("/dev/null", O_RDONLY);
    std::vector<int> descriptors{null.get(), output.get(), output.get()};
    descriptors.insert(descriptors.end(), setup.descriptors.begin(), setup.descriptors.end());
    descriptors.insert(descriptors.end(), {device.get(), childEnd.get()});
    const pid_t parent = ::getpid();
    const pid_t pid = checkErrno(::fork(), "Failed to create a process");
    if (pid == 0) {
        try {
            if (arrangeDescriptors(descriptors)) {
                becomeServer(setup, static_cast<int>(descriptors.size()) - 1, parent);
            }
        } catch (const std::exception& error) {
            ::dprintf(STDERR_FILENO, "cannot be started: %s\n", error.what());
        }
        ::_exit(127);
    }
    child = Child(pid);
    childEnd.reset();
    waitForByte(channel.get());
}

bool Server::mount(const Filesystem& filesystem) {
    const auto options = cat("fd=", device.get(), ",rootmode=40000,default_permissions,", filesystem.options);
    if (::mount(filesystem.name.c_str(), filesystem.target.c_str(), cat("fuse.", filesystem.name).c_str(),
                filesystem.flags, options.c_str()) != 0) {
        return false;
    }
    target = filesystem.target;
    root.reset(::open(target.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    return true;
}

void Server::release() {
    device.reset();  // the connection ends with the server
    const char byte = 0;
    // If the child died, the missing answer will show it.
    [[maybe_unused]] const auto sent = ::send(channel.get(), &byte, 1, MSG_NOSIGNAL);
    channel.reset();
}

Answer Server::waitForAnswer(std::chrono::seconds patience) {
    const auto answer = askServer(root.get(), patience);
    if (answer != Answer::yes) {
        ::umount2(target.c_str(), MNT_DETACH);
        root.reset();
    }
    return answer;
}

std::string Server::endAndGetOutput() {
    // A server whose mount failed is about to print the reason and to exit, on a busy node after a while.
    constexpr std::chrono::seconds patience{10};
    child.waitUntil(std::chrono::steady_clock::now() + patience);
    child = Child();
    std::string text(outputLimit, '\0');
    const auto size = ::lseek(output.get(), 0, SEEK_END);
    const auto count = ::pread(output.get(), text.data(), text.size(),
                               std::max<off_t>(0, size - static_cast<off_t>(outputLimit)));
    text.resize(count > 0 ? std::min(text.find('\0'), static_cast<std::size_t>(count)) : 0);
    std::replace(text.begin(), text.end(), '\n', ' ');
    return printable(trim(text));
}

}  // namespace sarus::served_image
