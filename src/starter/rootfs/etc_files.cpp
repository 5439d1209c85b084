#include "starter/rootfs/etc_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace sarus::starter {

namespace {

bool isNameCharacter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
}

/// The caller chooses the names: they must not break out of their field.
std::string safeName(const std::string& name, const std::string& fallback) {
    const bool good = !name.empty() && name.size() <= 256 && name.front() != '-' &&
                      std::all_of(name.begin(), name.end(), isNameCharacter);
    return good ? name : fallback;
}

std::string safeHome(const std::string& home) {
    const bool good = home.starts_with('/') && home.size() < 4096 &&
                      std::none_of(home.begin(), home.end(),
                                   [](char c) { return c == ':' || static_cast<unsigned char>(c) < ' '; });
    return good ? home : "/";
}

/// Whether the third field of a line is `id`.
bool hasId(std::string_view text, std::uint64_t id) {
    while (!text.empty()) {
        const auto end = text.find('\n');
        auto line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        for (int field = 0; field < 2 && !line.empty(); ++field) {
            const auto colon = line.find(':');
            line.remove_prefix(colon == std::string_view::npos ? line.size() : colon + 1);
        }
        if (!line.empty() && parseNumber(line.substr(0, line.find(':'))) == id) {
            return true;
        }
    }
    return false;
}

void appendLine(std::string& text, const std::string& line) {
    if (!text.empty() && text.back() != '\n') {
        text += '\n';
    }
    text += line;
    text += '\n';
}

struct Source {
    const char* name;
    std::string path;
    bool isNodes = false;  ///< of the node, which may lack it; otherwise of the installation
};

/// Reads it with the caller's rights: root's would show the container what its user may not read. nullopt if
/// the node has no such file for its users.
std::optional<std::string> readSource(const Source& source, const Credentials& credentials) {
    try {
        return credentials.asUser([&] { return readFile(source.path); });
    } catch (Error& error) {
        const int cause = error.errnum();
        const bool isMissing = cause == ENOENT || cause == ENOTDIR || cause == ELOOP;
        if (source.isNodes && (isMissing || cause == EACCES)) {
            const auto text = cat(error.what(), ". The container has the image's file, if any");
            isMissing ? logInfo("Runtime", text) : logWarn("Runtime", text);
            return std::nullopt;
        }
        error.addContext(cat("Failed to prepare /etc/", source.name, " for the container"));
        throw;
    }
}

void writeFile(int etc, const char* name, const std::string& content, const Credentials& credentials) {
    const auto shown = cat("/etc/", name, " in the container");
    if (::unlinkat(etc, name, 0) != 0 && errno != ENOENT) {
        throwErrno(cat("Failed to replace ", shown));
    }
    const UniqueFd file(::openat(etc, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!file) {
        throwErrno(cat("Failed to create ", shown));
    }
    writeAll(file.get(), content, shown);
    checkErrno(::fchown(file.get(), credentials.ownerUid(), credentials.ownerGid()),
               cat("Failed to set the owner of ", shown));
}

}  // namespace

std::string withPasswdEntry(std::string passwd, uid_t uid, gid_t gid, const CallerAccount& account) {
    if (!hasId(passwd, uid)) {
        appendLine(passwd, cat(safeName(account.name, cat("user", uid)), ":x:", uid, ':', gid,
                               "::", safeHome(account.home), ":/bin/sh"));
    }
    return passwd;
}

std::string withGroupEntry(std::string group, gid_t gid, const CallerAccount& account) {
    if (!hasId(group, gid)) {
        appendLine(group, cat(safeName(account.group, cat("group", gid)), ":x:", gid, ':'));
    }
    return group;
}

void writeEtcFiles(int root, const engine::SiteConfig& config, const Credentials& credentials,
                   const std::optional<CallerAccount>& account) {
    const auto etc = createInRoot(root, "/etc", EntryKind::directory,
                                  {.owner = credentials.ownerUid(), .group = credentials.ownerGid()});
    const std::array<Source, 5> sources{{{"hosts", "/etc/hosts", true},
                                         {"resolv.conf", "/etc/resolv.conf", true},
                                         {"nsswitch.conf", config.prefixDir + "/etc/container/nsswitch.conf"},
                                         {"passwd", config.prefixDir + "/etc/passwd"},
                                         {"group", config.prefixDir + "/etc/group"}}};
    for (const auto& source : sources) {
        auto content = readSource(source, credentials);
        if (!content) {
            continue;
        }
        if (account && std::string_view(source.name) == "passwd") {
            content = withPasswdEntry(std::move(*content), credentials.uid(), credentials.gid(), *account);
        } else if (account && std::string_view(source.name) == "group") {
            content = withGroupEntry(std::move(*content), credentials.gid(), *account);
        }
        writeFile(etc.get(), source.name, *content, credentials);
    }
}

}  // namespace sarus::starter
