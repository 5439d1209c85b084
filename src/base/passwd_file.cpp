#include "base/passwd_file.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "base/text.hpp"

namespace sarus {

namespace {

constexpr std::size_t fieldsOfEntry = 7;

bool isEntryOf(const std::vector<std::string>& fields, uid_t uid) {
    return fields.size() == fieldsOfEntry && !fields[0].empty() && parseNumber(fields[2]) == uid;
}

}  // namespace

bool isDirectoryName(std::string_view name) {
    return !name.empty() && name.size() < 256 && name != "." && name != ".." &&
           name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

std::string_view takeLine(std::string_view& text) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
}

std::optional<std::uint64_t> idOf(std::string_view line) {
    for (int field = 0; field < 2; ++field) {
        const auto colon = std::min(line.find(':'), line.size());
        line.remove_prefix(std::min(colon + 1, line.size()));
    }
    return parseNumber(line.substr(0, line.find(':')));
}

std::optional<PasswdEntry> findPasswdEntry(std::string_view text, uid_t uid) {
    while (!text.empty()) {
        const auto line = takeLine(text);
        if (idOf(line) != uid) {
            continue;
        }
        if (const auto fields = split(line, ':'); isEntryOf(fields, uid)) {
            return PasswdEntry{fields[0], fields[5], fields[6], parseNumber(fields[3])};
        }
    }
    return std::nullopt;
}

std::optional<std::string> findUserName(std::string_view text, uid_t uid) {
    while (!text.empty()) {
        const auto line = takeLine(text);
        if (idOf(line) != uid) {
            continue;
        }
        const auto fields = split(line, ':');
        if (fields.size() >= 4 && isDirectoryName(fields[0])) {
            return fields[0];
        }
    }
    return std::nullopt;
}

std::optional<std::string> replaceMissingShells(std::string_view text,
                                                const std::function<bool(const std::string& path)>& exists) {
    std::map<std::string, bool> known{{"", true}, {"/bin/sh", true}};
    std::vector<std::string> lines = split(text, '\n');
    bool isChanged = false;
    for (auto& line : lines) {
        const auto fields = split(line, ':');
        if (fields.size() != fieldsOfEntry) {
            continue;
        }
        const auto& shell = fields.back();
        const auto found = known.find(shell);
        const bool isThere = found != known.end() ? found->second : (known[shell] = exists(shell));
        if (!isThere) {
            line.replace(line.size() - shell.size(), shell.size(), "/bin/sh");
            isChanged = true;
        }
    }
    return isChanged ? std::optional(join(lines, "\n")) : std::nullopt;
}

std::optional<std::string> replaceHome(std::string_view text, uid_t uid, std::string_view home) {
    auto lines = split(text, '\n');
    for (auto& line : lines) {
        auto fields = split(line, ':');
        if (isEntryOf(fields, uid)) {
            const bool isChanged = fields[5] != home;
            fields[5] = home;
            line = join(fields, ":");
            return isChanged ? std::optional(join(lines, "\n")) : std::nullopt;
        }
    }
    return std::nullopt;
}

}  // namespace sarus
