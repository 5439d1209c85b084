#include "starter/rootfs/etc_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/error.hpp"
#include "base/file_io.hpp"
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
    const std::array<std::pair<const char*, std::string>, 5> sources{
        {{"hosts", "/etc/hosts"},
         {"resolv.conf", "/etc/resolv.conf"},
         {"nsswitch.conf", config.prefixDir + "/etc/container/nsswitch.conf"},
         {"passwd", config.prefixDir + "/etc/passwd"},
         {"group", config.prefixDir + "/etc/group"}}};
    for (const auto& [name, source] : sources) {
        std::string content;
        try {
            content = readFile(source);
        } catch (Error& error) {
            error.addContext(cat("Failed to prepare /etc/", name, " for the container"));
            throw;
        }
        if (account && std::string_view(name) == "passwd") {
            content = withPasswdEntry(std::move(content), credentials.uid(), credentials.gid(), *account);
        } else if (account && std::string_view(name) == "group") {
            content = withGroupEntry(std::move(content), credentials.gid(), *account);
        }
        writeFile(etc.get(), name, content, credentials);
    }
}

}  // namespace sarus::starter
