#include "cli/containers_of_others.hpp"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/descriptors.hpp"
#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/name_service.hpp"
#include "base/pipe.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "base/time_left.hpp"
#include "oci/json/json_node.hpp"

namespace sarus::cli {

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds patience{5};
constexpr std::chrono::seconds patienceForAll{30};

/// The number at the beginning of the text behind `prefix`, unless it is root's.
std::optional<uid_t> uidIn(std::string_view name, std::string_view prefix) {
    if (!name.starts_with(prefix)) {
        return std::nullopt;
    }
    const auto number = name.substr(prefix.size());
    const auto uid = parseNumber(number.substr(0, number.find('-')));
    return uid && *uid > 0 && *uid < std::numeric_limits<uid_t>::max()
               ? std::optional(static_cast<uid_t>(*uid))
               : std::nullopt;
}

/// Adds the uids in the names of this directory. Anybody can make such a name, but only root and the user
/// make one that counts. A file server of users is not asked.
void addUids(const std::string& directory, std::string_view prefix, std::set<uid_t>& uids) {
    Directory entries(directory, Missing::isEmpty);
    while (const char* name = entries.next()) {
        const auto uid = uidIn(name, prefix);
        struct statx status {};
        constexpr int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
        if (uid && ::statx(entries.fd(), name, flags, STATX_UID, &status) == 0 &&
            (status.stx_uid == 0 || status.stx_uid == *uid)) {
            uids.insert(*uid);
        }
    }
}

std::set<uid_t> usersWithContainers(const engine::SiteConfig& config) {
    std::set<uid_t> uids;
    addUids("/run/user", "", uids);
    addUids("/run/sarus", "", uids);
    addUids(config.tempDir, "sarus-", uids);
    addUids(config.containerStorage.directory.value_or(config.tempDir), "sarus-containers-", uids);
    return uids;
}

/// Becomes the user and executes his `sarus ps`. He can trace it from then on, so it has nothing of root's,
/// in particular no terminal.
[[noreturn]] void listAs(uid_t uid, gid_t gid, const std::string& program, int output) {
    const auto session = cat("XDG_RUNTIME_DIR=/run/user/", uid);
    const std::vector<std::string> words{program, "ps", "--all", "--json"};
    const std::vector<std::string> environment{"PATH=/usr/bin:/bin", session};
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing >= 0 && ::setsid() >= 0 && arrangeDescriptors({nothing, output, nothing}) &&
        ::setgroups(0, nullptr) == 0 && ::setresgid(gid, gid, gid) == 0 && ::setresuid(uid, uid, uid) == 0 &&
        ::chdir("/") == 0) {
        ::execve(program.c_str(), argumentPointers(words).data(), argumentPointers(environment).data());
    }
    ::_exit(127);
}

/// nullopt if there is no complete answer in time.
std::optional<std::string> askAs(uid_t uid, gid_t gid, const std::string& program, std::size_t limit,
                                 std::chrono::milliseconds time) {
    auto output = makePipe();
    Child child(checkErrno(::fork(), "Failed to start a process"), true);
    if (child.pid() == 0) {
        listAs(uid, gid, program, output.writer.get());
    }
    output.writer.reset();
    std::string text;
    const bool isComplete = readToEnd({{output.reader.get(), appendTo(text, limit + 1)}}, time);
    const auto status = isComplete ? child.waitUntil(Clock::now() + patience) : std::nullopt;
    if (!status) {
        ::kill(-child.pid(), SIGKILL);
        child.release();  // a process that waits for a file server cannot be killed
    }
    return status && status->ok() && text.size() <= limit ? std::optional(std::move(text)) : std::nullopt;
}

/// Throws Error.
Json listOf(const std::string& text, const std::string& owner) {
    auto list = oci::parseJson<Json>(text, "the list");
    if (!list.is_array()) {
        throw Error("it is no list");
    }
    for (auto& container : list) {
        if (!container.is_object()) {
            throw Error("it is a list of something else");
        }
        container["owner"] = owner;
    }
    return list;
}

}  // namespace

std::string containersOfOthers(Context& context, std::size_t limit) {
    constexpr std::size_t limitOfUser = 256U << 10U;
    const auto program = cat(context.prefix(), "/bin/sarus");
    const auto end = Clock::now() + patienceForAll;
    auto all = Json::array();
    std::size_t size = 0;
    for (const auto uid : usersWithContainers(context.config())) {
        std::string why = "they did not answer";
        const auto account = findAccount(uid);
        if (!account || !account->group) {
            continue;  // nobody can log in with this number
        }
        const std::chrono::milliseconds left(millisecondsUntil(end));
        try {
            const auto time = std::min<std::chrono::milliseconds>(left, patience);
            const auto text = askAs(uid, *account->group, program, std::min(limitOfUser, limit - size), time);
            if (text) {
                for (auto& container : listOf(*text, account->name)) {
                    all.push_back(std::move(container));
                }
                size += text->size();
                continue;
            }
        } catch (const Error& error) {
            why = error.what();
        }
        logWarn("CLI", cat("The containers of ", printable(account->name),
                           " may be missing: 'sarus ps' as this user gave no list (", printable(why), ")"));
    }
    return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sarus::cli
