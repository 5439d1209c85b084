#include "hooks/kit/passwd.hpp"

#include <map>
#include <vector>

#include "base/text.hpp"

namespace sarus::hooks {

namespace {

constexpr std::size_t fieldsOfEntry = 7;

bool isEntryOf(const std::vector<std::string>& fields, uid_t uid) {
    return fields.size() == fieldsOfEntry && !fields[0].empty() && parseNumber(fields[2]) == uid;
}

}  // namespace

std::optional<PasswdEntry> findPasswdEntry(std::string_view text, uid_t uid) {
    for (const auto& line : split(text, '\n')) {
        const auto fields = split(line, ':');
        if (isEntryOf(fields, uid)) {
            return PasswdEntry{fields[0], fields[5], fields[6]};
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

}  // namespace sarus::hooks
