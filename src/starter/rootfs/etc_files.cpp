#include "starter/rootfs/etc_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/passwd_file.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace sarus::starter {

namespace {

std::string safeHome(const std::string& home) {
    const bool good = home.starts_with('/') && home.size() < 4096 &&
                      std::none_of(home.begin(), home.end(),
                                   [](char c) { return c == ':' || static_cast<unsigned char>(c) < ' '; });
    return good ? home : "/";
}

bool hasId(std::string_view text, std::uint64_t id) {
    while (!text.empty()) {
        if (idOf(takeLine(text)) == id) {
            return true;
        }
    }
    return false;
}

/// Whether a line has the fields of its database and nothing else that would change its meaning. Any name is
/// good.
bool isEntry(std::string_view line, std::ptrdiff_t fields) {
    return !line.starts_with(':') && std::count(line.begin(), line.end(), ':') + 1 == fields &&
           line.find('\0') == std::string_view::npos;
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
    bool isNodes = false;    ///< of the node, which may lack it; otherwise of the installation
    bool isNeeded = true;    ///< otherwise a directory of the image stays in its place
    bool isAccount = false;  ///< says who is who
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

/// That of the container; "" if it has none.
std::string readOwn(int etc, const Source& source, const Credentials& credentials) {
    return credentials.asUser([&] {
        const UniqueFd file(::openat(etc, source.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        struct stat status {};
        const bool isFile = file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode);
        return isFile ? readAll(file.get(), largestPasswdFile, cat("/etc/", source.name, " of the container"))
                      : std::string();
    });
}

void writeFile(int etc, const Source& source, const std::string& content, const Credentials& credentials) {
    const auto* const name = source.name;
    const auto shown = cat("/etc/", name, " in the container");
    if (::unlinkat(etc, name, 0) != 0 && errno != ENOENT) {
        if (errno == EISDIR && !source.isNeeded) {
            return;
        }
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

std::vector<std::string> filesOfEngine(Accounts accounts) {
    std::vector<std::string> files{"etc/hosts", "etc/resolv.conf", "etc/localtime", "run/.containerenv"};
    if (accounts == Accounts::ofNode) {
        files.insert(files.end(), {"etc/nsswitch.conf", "etc/passwd", "etc/group"});
    }
    return files;
}

std::string withPasswdEntry(std::string passwd, uid_t uid, gid_t gid, const std::string& home,
                            const NameService& ask) {
    if (hasId(passwd, uid)) {
        return passwd;
    }
    const auto answer = ask("passwd", {cat(uid)});
    for (std::string_view rest = answer; !rest.empty();) {
        const auto line = takeLine(rest);
        if (isEntry(line, 7) && idOf(line) == uid) {
            appendLine(passwd, std::string(line));
            return passwd;
        }
    }
    appendLine(passwd, cat("user", uid, ":x:", uid, ':', gid, "::", safeHome(home), ":/bin/sh"));
    return passwd;
}

std::string withGroupEntries(std::string group, const std::vector<gid_t>& gids, const NameService& ask) {
    std::vector<std::string> missing;
    for (const auto gid : gids) {
        if (!hasId(group, gid)) {
            missing.push_back(cat(gid));
        }
    }
    const auto answer = missing.empty() ? std::string() : ask("group", missing);
    for (std::string_view rest = answer; !rest.empty();) {
        const auto line = takeLine(rest);
        const auto gid = idOf(line).value_or(std::numeric_limits<std::uint64_t>::max());
        if (isEntry(line, 4) && !hasId(group, gid) &&
            std::find(gids.begin(), gids.end(), gid) != gids.end()) {
            appendLine(group, std::string(line));
        }
    }
    if (!gids.empty() && !hasId(group, gids.front())) {
        appendLine(group, cat("group", gids.front(), ":x:", gids.front(), ':'));
    }
    return group;
}

void writeEtcFiles(int root, const engine::SiteConfig& config, const Credentials& credentials,
                   const std::optional<CallerAccount>& account, Accounts accounts) {
    const auto etc = createInRoot(root, "/etc", EntryKind::directory,
                                  {.owner = credentials.ownerUid(), .group = credentials.ownerGid()});
    const std::array<Source, 6> sources{
        {{"hosts", "/etc/hosts", true},
         {"resolv.conf", "/etc/resolv.conf", true},
         {"localtime", "/etc/localtime", true, false},
         {"nsswitch.conf", config.prefixDir + "/etc/container/nsswitch.conf", false, true, true},
         {"passwd", config.prefixDir + "/etc/passwd", false, true, true},
         {"group", config.prefixDir + "/etc/group", false, true, true}}};
    for (const auto& source : sources) {
        const bool isOwn = accounts == Accounts::ofImage && source.isAccount;
        if (isOwn && (!account || std::string_view(source.name) == "nsswitch.conf")) {
            continue;
        }
        auto content = isOwn ? readOwn(etc.get(), source, credentials) : readSource(source, credentials);
        if (!content) {
            continue;
        }
        if (account && std::string_view(source.name) == "passwd") {
            content = withPasswdEntry(std::move(*content), credentials.uid(), credentials.gid(),
                                      account->home, account->ask);
        } else if (account && std::string_view(source.name) == "group") {
            std::vector<gid_t> gids{credentials.gid()};
            gids.insert(gids.end(), credentials.groups().begin(), credentials.groups().end());
            content = withGroupEntries(std::move(*content), gids, account->ask);
        }
        writeFile(etc.get(), source, *content, credentials);
    }
}

}  // namespace sarus::starter
