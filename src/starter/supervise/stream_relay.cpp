#include "starter/supervise/stream_relay.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/pipe.hpp"
#include "base/text.hpp"
#include "starter/entry/entry.hpp"

namespace sarus::starter {

namespace {

constexpr int streams = STDERR_FILENO + 1;

bool isHidden(int stream) {
    struct stat status {};
    return ::fstat(stream, &status) != 0 && errno == EACCES;
}

void setNonBlocking(int fd) {
    checkErrno(::fcntl(fd, F_SETFL, O_NONBLOCK), "Failed to prepare a pipe");
}

struct Copy {
    UniqueFd from;
    UniqueFd to;
    bool isInput = false;  ///< of the container: `to` is the pipe
};

/// In the child. Both ends of the container's pipes are non-blocking here.
class Copier {
public:
    Copier(int controlFd, std::vector<Copy> theCopies) : control(controlFd), copies(std::move(theCopies)) {}

    /// The first errno with which the user's file refused what the container has written; 0 if none.
    int run() {
        while (!isOver()) {
            for (auto& copy : copies) {
                if (isReady(copy)) {
                    move(copy);
                }
            }
        }
        for (auto& copy : copies) {
            while (!copy.isInput && move(copy)) {
            }
        }
        return failure;
    }

private:
    static pollfd watched(const Copy& copy) {
        return copy.isInput ? pollfd{copy.to.get(), POLLOUT, 0} : pollfd{copy.from.get(), POLLIN, 0};
    }

    static bool isReady(const Copy& copy) {
        auto source = watched(copy);
        return source.fd >= 0 && ::poll(&source, 1, 0) > 0;
    }

    /// Waits.
    bool isOver() const {
        std::vector<pollfd> sources{{control, POLLIN, 0}};
        for (const auto& copy : copies) {
            sources.push_back(watched(copy));
        }
        ::poll(sources.data(), sources.size(), -1);
        return sources.front().revents != 0;
    }

    /// False if there is nothing to move at present.
    bool move(Copy& copy) {
        std::array<char, PIPE_BUF> buffer{};  // a pipe that is ready takes as much
        const auto count = ::read(copy.from.get(), buffer.data(), buffer.size());
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
            return errno == EINTR;
        }
        if (count > 0 && write(copy, buffer.data(), static_cast<std::size_t>(count))) {
            return true;
        }
        copy.from.reset();
        copy.to.reset();
        return false;
    }

    bool write(const Copy& copy, const char* data, std::size_t size) {
        while (size > 0) {
            const auto count = ::write(copy.to.get(), data, size);
            if (count < 0 && errno == EINTR) {
                continue;
            }
            if (count < 0) {
                failure = copy.isInput || failure != 0 ? failure : errno;
                return false;
            }
            data += count;
            size -= static_cast<std::size_t>(count);
        }
        return true;
    }

    int control;
    std::vector<Copy> copies;
    int failure = 0;
};

[[noreturn]] void runChild(const Credentials& credentials, int control, std::vector<Copy> copies) {
    int status = EIO;
    try {
        becomeCaller(credentials);
        limitCapabilities(credentials, {});
        ::prctl(PR_SET_NAME, "sarus-streams", 0, 0, 0);
        std::vector<int> kept{control};
        for (const auto& copy : copies) {
            kept.insert(kept.end(), {copy.from.get(), copy.to.get()});
        }
        closeInherited(openDescriptors(), kept);
        for (int stream = 0; stream < streams; ++stream) {
            ::close(stream);  // the pipes' other ends
        }
        status = Copier(control, std::move(copies)).run();
    } catch (const Error&) {
        // The parent says that something is lost.
    }
    ::_exit(status);
}

}  // namespace

StreamRelay::StreamRelay(const Credentials& credentials) {
    std::vector<Copy> copies;
    for (int stream = 0; credentials.privileged() && stream < streams; ++stream) {
        if (!isHidden(stream)) {
            continue;
        }
        auto& saved = own[static_cast<std::size_t>(stream)];
        const auto duplicate = [](int fd) {
            return UniqueFd(checkErrno(::fcntl(fd, F_DUPFD_CLOEXEC, streams), "Failed to keep a stream"));
        };
        saved = duplicate(stream);
        auto pipe = credentials.asUser(makePipe);
        const bool isInput = stream == STDIN_FILENO;
        setNonBlocking(isInput ? pipe.writer.get() : pipe.reader.get());
        checkErrno(::dup2(isInput ? pipe.reader.get() : pipe.writer.get(), stream),
                   "Failed to replace a stream");
        copies.push_back(isInput ? Copy{duplicate(saved.get()), std::move(pipe.writer), true}
                                 : Copy{std::move(pipe.reader), duplicate(saved.get()), false});
    }
    if (copies.empty()) {
        return;
    }
    auto [reader, writer] = makePipe();
    id = checkErrno(::fork(), "Failed to create the process that copies streams");
    if (id == 0) {
        runChild(credentials, reader.get(), std::move(copies));
    }
    control = std::move(writer);
}

StreamRelay::~StreamRelay() {
    giveBack();
}

void StreamRelay::finish() {
    giveBack();
    int status = 0;
    pid_t ended = 0;
    while (id > 0 && (ended = ::waitpid(id, &status, 0)) < 0 && errno == EINTR) {
    }
    if (id > 0 && (ended != id || status != 0)) {
        const bool hasReason = ended == id && WIFEXITED(status);
        throw Error::fromErrno("Failed to write the container's output",
                               hasReason ? WEXITSTATUS(status) : EPIPE);
    }
}

void StreamRelay::giveBack() noexcept {
    for (int stream = 0; stream < streams; ++stream) {
        if (auto& saved = own[static_cast<std::size_t>(stream)]; saved) {
            ::dup2(saved.get(), stream);
            saved.reset();
        }
    }
    control.reset();
}

}  // namespace sarus::starter
