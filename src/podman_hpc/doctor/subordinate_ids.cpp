#include "podman_hpc/doctor/subordinate_ids.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/passwd_file.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "node/subordinate_ids.hpp"
#include "podman_hpc/doctor/doctor.hpp"

namespace sarus::podman_hpc {

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
    return cat("usermod --add-subuids ", range, " --add-subgids ", range, ' ', shellWord(user),
               " # as root; then run podman-hpc system migrate");
}

std::optional<SubordinateIds> findSubordinateIds(const Surroundings& from) {
    if (node::hasSubordinateIdService()) {
        return std::nullopt;
    }
    const auto user = findUserName(readFile("/etc/passwd"), from.uid)
                          .value_or(from.variable("USER").value_or(cat(from.uid)));
    return SubordinateIds{user, count("/etc/subuid", user, from.uid), count("/etc/subgid", user, from.uid),
                          std::max(firstFree("/etc/subuid"), firstFree("/etc/subgid"))};
}

Findings checkSubordinateIds(const Patient& patient) {
    if (patient.from.uid == 0) {
        return {doctor::ok("root needs none")};
    }
    const auto ids = findSubordinateIds(patient.from);
    if (!ids) {
        return {doctor::note("a service of /etc/nsswitch.conf gives them: getsubids(1) shows them")};
    }
    const auto count = std::min(ids->uids, ids->gids);
    if (count == 0) {
        return {doctor::warning(
            cat(ids->missing(),
                ": containers have one id only; --user, --userns=keep-id and installing packages fail"),
            ids->cure())};
    }
    if (count < idsOfOneUser - 1) {
        return {doctor::warning(cat(printable(ids->user), " has ", count, ": images with larger ids fail"),
                                ids->cure())};
    }
    for (const auto* program : {"newuidmap", "newgidmap"}) {
        if (!findProgram(program)) {
            throw Error(cat(program, " is not in PATH"), "apt-get install uidmap # as root");
        }
    }
    return {doctor::ok(cat(ids->uids, " user ids, ", ids->gids, " group ids"))};
}

}  // namespace sarus::podman_hpc
