#include "spank/step_container.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "base/abstract_address.hpp"
#include "base/background.hpp"
#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/members.hpp"
#include "base/pipe.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"

namespace sarus::spank {

namespace {

// A task sends "hello LOCALID" and gets `runs`, or the status of `sarus run`, which has failed. When its
// command has ended, it closes its side. The last one waits for the keeper, which sends a status if its work
// was not done.
constexpr unsigned char runs = 0;

void sendByte(int socket, unsigned char byte) {
    ::send(socket, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

struct Listener {
    UniqueFd socket;
    std::string address;
};

/// The kernel chooses the address.
Listener listen() {
    constexpr const char* problem = "Failed to listen for the tasks of the step";
    Listener listener{makeMessageSocket(), {}};
    sockaddr_un own{};
    own.sun_family = AF_UNIX;
    auto* const name = reinterpret_cast<sockaddr*>(&own);
    checkErrno(::bind(listener.socket.get(), name, sizeof own.sun_family), problem);
    checkErrno(::listen(listener.socket.get(), SOMAXCONN), problem);
    socklen_t size = sizeof own;
    checkErrno(::getsockname(listener.socket.get(), name, &size), problem);
    listener.address.assign(own.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1);
    return listener;
}

class Keeper {
public:
    /// `stepEnd`: becomes readable when the step ends; -1: unknown.
    Keeper(const StepContainer& theContainer, UniqueFd listener, int stepEnd)
        : container(theContainer), tasks(std::move(listener), theContainer.tasks), step(stepEnd) {}

    int run() {
        startContainer();
        while (wait()) {
        }
        return 0;
    }

private:
    void startContainer() {
        auto input = makePipe();
        auto output = makePipe();
        auto definition = makeMemoryFile("environment-definition", container.edf);
        sarus = Child(checkErrno(::fork(), "Failed to start a process"));
        if (sarus.pid() == 0) {
            // Unlike start(), leaves signals ignored: those for the tasks do not end their container.
            arrangeDescriptors({input.reader.get(), output.writer.get(), STDERR_FILENO, definition.get()});
            ::unsetenv("PMI_FD");  // a descriptor of the task that has started this process
            ::setenv("SLURM_PROCID", container.firstRank.c_str(), 1);
            ::setenv("SLURM_LOCALID", "0", 1);
            try {
                replaceProcess(container.sarus, container.words("/dev/fd/3"));
            } catch (const Error&) {
                ::_exit(1);
            }
        }
        lifeline = std::move(input.writer);
        words = std::move(output.reader);
    }

    /// False at the end.
    bool wait() {
        std::vector<pollfd> sources{{words.get(), POLLIN, 0}, {step, POLLIN, 0}};
        tasks.addTo(sources);
        ::poll(sources.data(), sources.size(), -1);
        if (sources[1].revents != 0) {  // some tasks were killed before they came
            return endContainer();
        }
        tasks.handle(&sources[2], [this](Member& task, const std::string& text) { greet(task, text); });
        if (sources[0].revents != 0 && !hear()) {
            return false;
        }
        // No task waits for another one.
        const bool isOver = tasks.areComplete() && tasks.active() == 0;
        tasks.release(isOver && !failure);
        return !isOver || endContainer();
    }

    void greet(Member& task, const std::string& text) {
        const auto said = split(text, ' ');
        if (said.size() != 2 || said[0] != "hello" || !tasks.admit(task, said[1])) {
            Members::refuse(task);
            return;
        }
        answer(task);
    }

    void answer(const Member& task) const {
        if (failure) {
            sendByte(task.socket.get(), *failure);
        } else if (isRunning) {
            sendByte(task.socket.get(), runs);
        }
    }

    /// The container runs, or has ended: then false if it has run.
    bool hear() {
        char byte = 0;
        if (::read(words.get(), &byte, 1) == 1) {
            isRunning = true;
        } else {
            words.reset();
            const int status = sarus.wait().shellStatus();
            if (isRunning) {
                return false;  // the end of the connections tells the tasks
            }
            failure = static_cast<unsigned char>(status == 0 ? 1 : status);
        }
        tasks.forEachActive([this](const Member& task) { answer(task); });
        return true;
    }

    bool endContainer() {
        lifeline.reset();
        if (!failure) {
            sarus.wait();
            if (!container.ended()) {
                for (const auto& task : tasks.open()) {
                    sendByte(task.socket.get(), 1);
                }
            }
        }
        return false;
    }

    const StepContainer& container;
    Members tasks;
    int step;
    Child sarus{};
    UniqueFd lifeline{};  ///< the standard input of the container, which ends with it
    UniqueFd words{};     ///< its standard output
    bool isRunning = false;
    std::optional<unsigned char> failure{};
};

}  // namespace

std::string startKeeper(const StepContainer& container) {
    auto listener = listen();
    const int errors =
        checkErrno(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3), "Failed to keep standard error");
    const UniqueFd kept(errors);
    // The parent of a task is Slurm's process for the step, which may end all others, or not.
    const UniqueFd step(
        static_cast<int>(::syscall(SYS_pidfd_open, ::getppid(), 0)));  // none before Linux 5.3
    startInBackground("sarus-step", [&] {
        std::vector<int> descriptors{STDIN_FILENO, STDOUT_FILENO, errors, listener.socket.get()};
        if (step) {
            descriptors.push_back(step.get());
        }
        arrangeDescriptors(descriptors);
        closeOnExec(STDERR_FILENO + 1);
        [[maybe_unused]] const int moved = listener.socket.release();
        constexpr int first = STDERR_FILENO + 1;
        return Keeper(container, UniqueFd(first), step ? first + 1 : -1).run();
    });
    return listener.address;
}

UniqueFd joinKeeper(const std::string& address, const std::string& localId) {
    auto socket = makeMessageSocket();
    const AbstractAddress place(address);
    const auto hello = cat("hello ", localId);
    unsigned char answer = 0;
    ssize_t count = 0;
    constexpr timeval patience{.tv_sec = 60, .tv_usec = 0};  // for a place in the queue
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    // Another user may have taken the address of a keeper that has ended.
    if (::connect(socket.get(), place.get(), place.size()) == 0 && isOwnPeer(socket.get()) &&
        ::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL) >= 0) {
        while ((count = ::recv(socket.get(), &answer, 1, 0)) < 0 && errno == EINTR) {
        }
    }
    if (count != 1) {
        throw Error("The container of the step has ended");
    }
    if (answer != runs) {
        std::exit(answer);
    }
    checkErrno(::fcntl(socket.get(), F_SETFD, 0), "Failed to pass on a descriptor");
    return socket;
}

}  // namespace sarus::spank
