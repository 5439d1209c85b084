#include "node/subordinate_ids.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/passwd_file.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"

namespace sarus::node {

namespace {

constexpr std::string_view systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

std::optional<IdRange> parseRange(std::string_view first, std::string_view count) {
    const auto number = parseNumber(first);
    const auto size = parseNumber(count);
    constexpr std::uint64_t largest = std::numeric_limits<std::uint32_t>::max();
    if (!number || !size || *size == 0 || *number >= largest || *size >= largest - *number) {
        return std::nullopt;
    }
    return IdRange{static_cast<std::uint32_t>(*number), static_cast<std::uint32_t>(*size)};
}

Output call(const std::string& program, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), program);
    return runAndCapture({.path = program,
                          .args = std::move(arguments),
                          .environment = std::vector<std::string>{cat("PATH=", systemPath)},
                          .ignoredSignals = IgnoredSignals::reset});
}

/// Lines such as "0: alice 100000 65536".
std::vector<IdRange> askForRanges(const std::string& program, std::vector<std::string> arguments) {
    const auto output = call(program, std::move(arguments));
    std::vector<IdRange> ranges;
    for (std::string_view rest = output.out; output.status.ok() && !rest.empty();) {
        const auto words = splitWords(takeLine(rest));
        if (const auto range = words.size() == 4 ? parseRange(words[2], words[3]) : std::nullopt) {
            ranges.push_back(*range);
        }
    }
    return ranges;
}

std::string textOf(const char* path) {
    return pathExists(path) ? readFile(path, largestPasswdFile) : std::string();
}

void map(const char* name, pid_t pid, std::uint32_t own, const std::vector<IdRange>& ranges) {
    const auto program = findProgram(name, systemPath);
    if (!program) {
        throw Error(cat(name, " is not installed"));
    }
    std::vector<std::string> arguments{cat(pid), "0", cat(own), "1"};
    std::uint64_t inside = 1;
    for (const auto& range : ranges) {
        arguments.insert(arguments.end(), {cat(inside), cat(range.first), cat(range.count)});
        inside += range.count;
    }
    const auto output = call(*program, std::move(arguments));
    if (!output.status.ok()) {
        throw Error(cat(name, ": ", printable(trim(output.err))));
    }
}

}  // namespace

std::vector<IdRange> subordinateRanges(std::string_view text, std::string_view user, uid_t uid) {
    std::vector<IdRange> ranges;
    while (!text.empty()) {
        const auto fields = split(takeLine(text), ':');
        if (fields.size() == 3 && (fields[0] == user || fields[0] == cat(uid))) {
            if (const auto range = parseRange(fields[1], fields[2])) {
                ranges.push_back(*range);
            }
        }
    }
    return ranges;
}

bool hasSubordinateIdService() {
    const auto lines = split(textOf("/etc/nsswitch.conf"), '\n');
    return std::any_of(lines.begin(), lines.end(),
                       [](const auto& line) { return line.starts_with("subid:"); });
}

SubordinateIds findSubordinateIds(const std::string& user, uid_t uid) {
    if (!findProgram("newuidmap", systemPath) || !findProgram("newgidmap", systemPath)) {
        return {};
    }
    if (hasSubordinateIdService()) {
        const auto program = findProgram("getsubids", systemPath);
        return program ? SubordinateIds{askForRanges(*program, {user}), askForRanges(*program, {"-g", user})}
                       : SubordinateIds{};
    }
    return {subordinateRanges(textOf("/etc/subuid"), user, uid),
            subordinateRanges(textOf("/etc/subgid"), user, uid)};
}

void mapSubordinateIds(pid_t pid, uid_t uid, gid_t gid, const SubordinateIds& ids) {
    map("newgidmap", pid, gid, ids.gids);
    map("newuidmap", pid, uid, ids.uids);
}

}  // namespace sarus::node
