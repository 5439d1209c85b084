#include "doctor/subordinate_ids.hpp"

#include <algorithm>

#include "base/file_io.hpp"
#include "base/name_service.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "node/subordinate_ids.hpp"

namespace sarus::doctor {

namespace {

constexpr std::uint64_t idsOfOneUser = 65536;  // what images may use

std::vector<std::string> linesOf(const std::string& file) {
    return pathExists(file) ? split(readFile(file), '\n') : std::vector<std::string>{};
}

std::uint64_t count(const std::string& file, const std::string& user, uid_t uid) {
    std::uint64_t sum = 0;
    for (const auto& range : node::subordinateRanges(pathExists(file) ? readFile(file) : "", user, uid)) {
        sum += range.count;
    }
    return sum;
}

/// The number behind all ranges of the file.
std::uint64_t firstFree(const std::string& file) {
    std::uint64_t free = 100'000;  // where usermod(8) begins
    for (const auto& line : linesOf(file)) {
        const auto fields = split(line, ':');
        if (fields.size() == 3) {
            free = std::max(free, parseNumber(fields[1]).value_or(0) + parseNumber(fields[2]).value_or(0));
        }
    }
    return free;
}

}  // namespace

std::string SubordinateIds::missing() const {
    return cat(printable(user), " has no ids in ", uids == 0 ? "/etc/subuid" : "/etc/subgid");
}

std::string SubordinateIds::cure() const {
    const auto range = cat(firstFree, '-', firstFree + idsOfOneUser - 1);
    return cat("usermod --add-subuids ", range, " --add-subgids ", range, ' ', shellWord(user), " # as root");
}

std::optional<SubordinateIds> countSubordinateIds(uid_t uid, const std::optional<std::string>& name) {
    if (node::hasSubordinateIdService()) {
        return std::nullopt;
    }
    const auto account = findAccount(uid);
    const auto user = account ? account->name : name.value_or(cat(uid));
    return SubordinateIds{user, count("/etc/subuid", user, uid), count("/etc/subgid", user, uid),
                          std::max(firstFree("/etc/subuid"), firstFree("/etc/subgid"))};
}

std::vector<Finding> checkSubordinateIds(uid_t uid, const std::optional<std::string>& name,
                                         const SubordinateIdUse& use) {
    const auto ids = countSubordinateIds(uid, name);
    const auto found = [&](const std::string& message, const std::string& cure) {
        return std::vector{Finding{"", use.grade, message, cure}};
    };
    if (ids && ids->none()) {
        return found(cat(ids->missing(), ": ", use.withoutIds), cat(ids->cure(), use.furtherCure));
    }
    const auto least = ids ? std::min(ids->uids, ids->gids) : idsOfOneUser;
    if (least < idsOfOneUser - 1) {
        return found(cat(printable(ids->user), " has ", least, ": ", use.withFewIds),
                     cat(ids->cure(), use.furtherCure));
    }
    for (const auto* program : {"newuidmap", "newgidmap"}) {
        if (!findProgram(program)) {
            return found(cat(program, " is not in PATH: ", use.withoutIds),
                         "apt-get install uidmap # as root");
        }
    }
    return {ids ? ok(cat(ids->uids, " user ids, ", ids->gids, " group ids"))
                : note("a service of /etc/nsswitch.conf gives them: getsubids(1) shows them")};
}

}  // namespace sarus::doctor
