#include "hooks/ssh/port_owner.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <utility>
#include <vector>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace sarus::hooks::ssh {

namespace {

constexpr std::size_t maxTable = 256U << 20U;

std::string portInHex(std::uint16_t port) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string text = ":";
    for (unsigned shift = 16; shift > 0; shift -= 4) {
        text.push_back(digits[port >> (shift - 4) & 15U]);
    }
    return text;
}

std::vector<Listener> listeners(std::string_view table, std::uint16_t port) {
    constexpr std::string_view listening = "0A";
    const auto end = portInHex(port);
    std::vector<Listener> found;
    for (const auto& line : split(table, '\n')) {
        const auto fields = splitWords(line);  // sl local rem st tx:rx tr:when retrnsmt uid timeout inode
        if (fields.size() > 9 && fields[3] == listening && fields[1].ends_with(end)) {
            const auto uid = parseNumber(fields[7]);
            const auto inode = parseNumber(fields[9]);
            if (uid && inode) {
                found.push_back({static_cast<uid_t>(*uid), *inode});
            }
        }
    }
    return found;
}

}  // namespace

std::optional<Listener> findListener(std::string_view table, std::uint16_t port, uid_t own) {
    std::optional<Listener> result;
    for (const auto& listener : listeners(table, port)) {
        if (!result || listener.uid != own) {
            result = listener;
        }
    }
    return result;
}

std::optional<Listener> listenerOf(std::uint16_t port, uid_t own) {
    std::string table;
    for (const auto* const path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
        if (pathExists(path)) {
            table += readFile(path, maxTable);
        }
    }
    return findListener(table, port, own);
}

std::optional<pid_t> processOfSocket(std::uint64_t inode) {
    const auto wanted = cat("socket:[", inode, ']');
    Directory processes("/proc", Missing::isError);
    while (const char* name = processes.next()) {
        const auto pid = parseNumber(name);
        if (!pid || *pid > INT_MAX) {
            continue;
        }
        const auto path = cat("/proc/", *pid, "/fd");
        UniqueFd opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!opened && (errno == EACCES || errno == EPERM || errno == ENOENT || errno == ESRCH)) {
            continue;  // of another user, closed to all but root at this moment, or gone
        }
        checkErrno(opened.get(), cat("Failed to list ", path));
        Directory descriptors(std::move(opened), path, Missing::isEmpty);  // it may end now
        while (const char* descriptor = descriptors.next()) {
            std::array<char, 64> target{};
            const auto size = ::readlinkat(descriptors.fd(), descriptor, target.data(), target.size());
            if (size > 0 && std::string_view(target.data(), static_cast<std::size_t>(size)) == wanted) {
                return static_cast<pid_t>(*pid);
            }
        }
    }
    return std::nullopt;
}

}  // namespace sarus::hooks::ssh
