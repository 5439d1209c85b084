#include "podman_hpc/doctor/subordinate_ids.hpp"

#include "base/file_io.hpp"
#include "base/passwd_file.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc {

namespace {

std::vector<std::string> linesOf(const std::string& file) {
    return pathExists(file) ? split(readFile(file), '\n') : std::vector<std::string>{};
}

/// The sum of the lines "USER:FIRST:COUNT" of the user, who may be named by number.
std::uint64_t count(const std::string& file, const std::string& user, uid_t uid) {
    std::uint64_t sum = 0;
    for (const auto& line : linesOf(file)) {
        const auto fields = split(line, ':');
        if (fields.size() == 3 && (fields[0] == user || fields[0] == cat(uid))) {
            sum += parseNumber(fields[2]).value_or(0);
        }
    }
    return sum;
}

}  // namespace

std::string SubordinateIds::missing() const {
    return cat(printable(user), " has no ids in ", uids == 0 ? "/etc/subuid" : "/etc/subgid");
}

std::string SubordinateIds::cure() const {
    return cat("usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ", printable(user),
               " (as root, with a range that no other user has), then podman-hpc system migrate");
}

std::optional<SubordinateIds> findSubordinateIds(const Surroundings& from) {
    for (const auto& line : linesOf("/etc/nsswitch.conf")) {
        if (line.starts_with("subid:")) {
            return std::nullopt;
        }
    }
    const auto user = findUserName(readFile("/etc/passwd"), from.uid)
                          .value_or(from.variable("USER").value_or(cat(from.uid)));
    return SubordinateIds{user, count("/etc/subuid", user, from.uid), count("/etc/subgid", user, from.uid)};
}

}  // namespace sarus::podman_hpc
