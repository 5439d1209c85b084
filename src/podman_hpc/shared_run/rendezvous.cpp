#include "podman_hpc/shared_run/rendezvous.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/abstract_address.hpp"
#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/received_message.hpp"
#include "base/text.hpp"
#include "base/time_left.hpp"
#include "podman_hpc/config/podman_files.hpp"

namespace sarus::podman_hpc {

namespace {

sockaddr_un addressOf(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        throw Error(cat("The name of the socket is too long: ", printable(path)));
    }
    std::copy(path.begin(), path.end(), address.sun_path);
    return address;
}

}  // namespace

bool sendMessage(int socket, const std::string& text, const std::vector<int>& fds) {
    return sarus::sendMessage(socket, {text.data(), std::min(text.size(), maxMessage)}, fds);
}

std::optional<Message> receiveMessage(int socket) {
    Message result;
    result.text.resize(maxMessage);
    auto received = sarus::receiveMessage(socket, result.text);
    if (received.size <= 0) {
        return std::nullopt;
    }
    result.text.resize(static_cast<std::size_t>(received.size));
    result.fds = std::move(received.descriptors);
    return result;
}

bool waitForInput(int socket, Clock::time_point deadline) {
    for (;;) {
        pollfd waiting{socket, POLLIN, 0};
        const int ready = ::poll(&waiting, 1, millisecondsUntil(deadline));
        if (ready > 0) {
            return true;
        }
        if (ready == 0 || errno != EINTR) {
            return false;
        }
    }
}

MeetingPlace::MeetingPlace(const std::string& path, uid_t uid) : directoryPath(path) {
    requireOwnDirectory(path, uid);
    directory = openFile(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    struct stat status {};
    checkErrno(::fstat(directory.get(), &status), cat("Failed to examine ", printable(path)));
    if (status.st_uid != uid) {
        throw Error(cat("User ", status.st_uid, " owns ", printable(path)),
                    "Choose another directory for run_root in podman_hpc.yaml or by PODMANHPC_RUN_ROOT");
    }
    if ((status.st_mode & 0077U) != 0) {
        checkErrno(::fchmod(directory.get(), 0700), cat("Failed to close ", printable(path), " to others"));
    }
}

namespace {

Error timeout(const std::string& why) {
    return Error("Timeout waiting for the other tasks of this step", why);
}

}  // namespace

/// By descriptor: the directory cannot be exchanged, and its path may be longer than that of a socket.
std::string MeetingPlace::reachable(const std::string& name) const {
    return cat("/proc/self/fd/", directory.get(), '/', name);
}

UniqueFd MeetingPlace::lock(Clock::time_point deadline) const {
    auto file = openFileAt(directory.get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (lockWithin(file.get(), millisecondsUntil(deadline)) == LockResult::busy) {
        throw timeout(cat("Another process keeps ", printable(directoryPath), "/lock"));
    }
    return file;
}

/// Empty if nobody listens.
UniqueFd MeetingPlace::connectTo(const std::string& name) const {
    auto socket = makeMessageSocket();
    const auto address = addressOf(reachable(name));
    return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0
               ? std::move(socket)
               : UniqueFd();
}

MeetingPlace::Seat MeetingPlace::takeSeat(const std::string& name) const {
    remove(name);
    auto socket = makeMessageSocket();
    const auto address = addressOf(reachable(name));
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(socket.get(), SOMAXCONN) != 0) {
        throwErrno(cat("Failed to listen in ", printable(directoryPath)));
    }
    return {std::move(socket), name};
}

void MeetingPlace::remove(const std::string& name) const {
    auto names = Directory::of(directory.get(), directoryPath);
    while (const char* found = names.next()) {
        if (found == name || std::string_view(found).starts_with(name + '.')) {
            ::unlinkat(directory.get(), found, 0);
        }
    }
}

UniqueFd MeetingPlace::join(const std::string& identity, const std::string& hello, Clock::time_point deadline,
                            const std::function<void(Seat)>& startKeeper) const {
    const auto held = lock(deadline);
    const auto isAccepted = [&](const UniqueFd& socket) {
        if (!waitForInput(socket.get(), deadline)) {
            throw timeout("The process that keeps their container does not answer");
        }
        const auto answer = receiveMessage(socket.get());
        return answer && answer->text == "accept";
    };
    std::set<std::string> taken;
    auto names = Directory::of(directory.get(), directoryPath);
    while (const char* name = names.next()) {
        if (std::string_view(name) != identity && !std::string_view(name).starts_with(identity + '_')) {
            continue;
        }
        if (auto socket = connectTo(name)) {
            if (sendMessage(socket.get(), hello) && isAccepted(socket)) {
                return socket;
            }
            taken.emplace(name);
        }
    }
    auto name = identity;
    for (int seat = 1; taken.contains(name); ++seat) {
        name = cat(identity, '_', seat);
    }
    // The keeper finds its first task from the beginning, even if that is killed now.
    auto seat = takeSeat(name);
    auto socket = connectTo(name);
    if (socket && sendMessage(socket.get(), hello)) {
        startKeeper(std::move(seat));
        if (isAccepted(socket)) {
            return socket;
        }
    }
    throw Error("Failed to start the keeper of the shared container");
}

}  // namespace sarus::podman_hpc
