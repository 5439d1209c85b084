#include "starter/entry/audit.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <exception>

#include "base/hex.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace sarus::starter {

namespace {

constexpr std::string_view syslogSocket = "/dev/log";
constexpr int attempts = 4;
constexpr int attemptMilliseconds = 50;
constexpr std::size_t longestText = 256;
constexpr std::size_t longestList = 600;  // a record stays below 6 KiB; the usual limit of syslog is 8 KiB

std::string escaped(std::string_view text, std::string_view separators) {
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += {'\\', c};
        } else if (byte < 0x20 || byte > 0x7E || separators.find(c) != std::string_view::npos) {
            out += cat("\\x", hexOf(byte));
        } else {
            out += c;
        }
        if (out.size() > longestText) {
            return cat(out, "...");
        }
    }
    return out;
}

/// The time as syslog expects it (RFC 3164, 4.1.2).
std::string timeStamp() {
    const auto now = std::time(nullptr);
    struct tm parts {};
    std::array<char, 32> text{};
    if (::localtime_r(&now, &parts) == nullptr ||
        std::strftime(text.data(), text.size(), "%b %e %H:%M:%S", &parts) == 0) {
        return {};
    }
    return text.data();
}

/// A datagram with root's ids, also from a process that has just begun and still has the caller's real ones.
bool sendAsRoot(int socket, std::string_view line) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
    iovec content{.iov_base = const_cast<char*>(line.data()), .iov_len = line.size()};
    msghdr message{};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    auto* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_CREDENTIALS;
    header->cmsg_len = CMSG_LEN(sizeof(ucred));
    const ucred root{.pid = ::getpid(), .uid = 0, .gid = 0};
    std::memcpy(CMSG_DATA(header), &root, sizeof root);
    return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

/// Waits a moment for a syslog with much to do: its queue is short, and all ranks of a job start at once.
bool sendToSyslog(std::string_view line) {
    const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    syslogSocket.copy(address.sun_path, sizeof address.sun_path - 1);
    if (!socket ||
        ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return false;
    }
    for (int attempt = 0; attempt < attempts; ++attempt) {
        if (sendAsRoot(socket.get(), line)) {
            return true;
        }
        if (errno != EAGAIN) {
            return false;
        }
        pollfd writable{.fd = socket.get(), .events = POLLOUT, .revents = 0};
        ::poll(&writable, 1, attemptMilliseconds);
    }
    return false;
}

}  // namespace

AuditFields& AuditFields::number(std::string_view key, std::uint64_t value) {
    fields += cat(' ', key, '=', value);
    return *this;
}

AuditFields& AuditFields::text(std::string_view key, std::string_view value) {
    fields += cat(' ', key, "=\"", escaped(value, ""), '"');
    return *this;
}

AuditFields& AuditFields::list(std::string_view key, const std::vector<std::vector<std::string>>& items) {
    std::string value;
    for (const auto& item : items) {
        if (value.size() > longestList) {
            value += ",...";
            break;
        }
        value += value.empty() ? "" : ",";
        for (std::size_t part = 0; part < item.size(); ++part) {
            value += cat(part == 0 ? "" : ":", escaped(item[part], ",:"));
        }
    }
    fields += cat(' ', key, "=\"", value, '"');
    return *this;
}

AuditLog::AuditLog(engine::AuditFacility theFacility, uid_t caller) : facility(theFacility) {
    subject.number("starter", static_cast<std::uint64_t>(::getpid())).number("uid", caller);
}

void AuditLog::started() noexcept {
    constexpr int informational = 6;
    write(informational, "start", "");
}

void AuditLog::ended(std::optional<int> status) noexcept {
    constexpr int informational = 6;
    write(informational, "end",
          cat(status ? cat(" status=", *status) : std::string(" status=unknown"),
              lost > 0 ? cat(" lost=", lost) : std::string()));
}

void AuditLog::refused(const Error& error) noexcept {
    constexpr int warning = 4;
    if (!handedOver) {
        AuditFields why;
        why.number("status", static_cast<std::uint64_t>(error.exitStatus()));
        if (!error.id().empty()) {
            why.text("error", error.id());
        }
        write(warning, "refused", why.text("reason", error.what()).all());
    }
}

void AuditLog::write(int severity, std::string_view event, const std::string& more) noexcept {
    if (!isOn()) {
        return;
    }
    try {
        const int priority = static_cast<int>(facility) * 8 + severity;
        const auto line = cat('<', priority, '>', timeStamp(), " sarus-starter[", ::getpid(),
                              "]: event=", event, more, subject.all());
        lost += sendToSyslog(line) ? 0 : 1;
    } catch (const std::exception&) {
        ++lost;  // no memory: a record is no reason to fail
    }
}

}  // namespace sarus::starter
