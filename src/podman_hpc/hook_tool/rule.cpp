#include "podman_hpc/hook_tool/rule.hpp"

#include <algorithm>
#include <cctype>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc {

namespace {

using Variables = std::function<std::optional<std::string>(const std::string& name)>;

std::string valueOf(const std::string& name, const Variables& variable) {
    if (auto value = variable(name); value && !value->empty()) {
        return *value;
    }
    throw Error(cat("the variable ", name, " is not set"));
}

bool isNameCharacter(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::string expandVariables(const std::string& text, const Variables& variable) {
    std::string out;
    std::size_t at = 0;
    if (text == "~" || text.starts_with("~/")) {
        out = valueOf("HOME", variable);
        at = 1;
    }
    while (at < text.size()) {
        if (text[at] != '$') {
            out += text[at++];
            continue;
        }
        const bool isBraced = text.compare(at + 1, 1, "{") == 0;
        const auto begin = at + (isBraced ? 2 : 1);
        auto end = begin;
        while (end < text.size() && isNameCharacter(text[end])) {
            ++end;
        }
        if (end == begin || (isBraced && text.compare(end, 1, "}") != 0)) {
            out += text[at++];  // no variable: the text itself
            continue;
        }
        out += valueOf(text.substr(begin, end - begin), variable);
        at = end + (isBraced ? 1 : 0);
    }
    return out;
}

std::string below(const std::string& directory, std::string_view name) {
    return cat(directory, directory.ends_with('/') ? "" : "/", name);
}

/// The length of the directory that all paths have in common, with its slash.
std::size_t commonDirectory(const std::vector<std::string>& paths) {
    auto length = paths.front().rfind('/') + 1;
    for (const auto& path : paths) {
        while (path.compare(0, length, paths.front(), 0, length) != 0) {
            length = paths.front().rfind('/', length - 2) + 1;
        }
    }
    return length;
}

std::vector<Placement> replaceStar(const Rule& rule, const std::vector<std::string>& sources) {
    if (std::count(rule.source.begin(), rule.source.end(), '*') != 1) {
        throw Error("a target with '*' needs a source with exactly one '*'");
    }
    const auto star = rule.source.find('*');
    const auto behind = rule.source.size() - star - 1;
    std::vector<Placement> placements;
    for (const auto& source : sources) {
        const auto matched = source.substr(star, source.size() - star - behind);
        std::string target;
        for (const char c : rule.target) {
            target += c == '*' ? matched : std::string(1, c);
        }
        placements.push_back({source, target.ends_with('/') ? below(target, fileNameOf(source)) : target});
    }
    return placements;
}

}  // namespace

Rule parseRule(const std::string& text, const std::string& directory, const Variables& variable) {
    const auto parts = split(text, ':');
    auto source = expandVariables(parts[0], variable);
    if (source.empty()) {
        throw Error("the source is missing");
    }
    Rule rule;
    rule.source = normalizePath(source.front() == '/' ? source : cat(directory, '/', source));
    if (parts.size() == 1) {
        if (source.front() != '/') {
            throw Error("a rule without a target needs an absolute source");
        }
        return rule;
    }
    rule.target = expandVariables(parts[1], variable);
    if (!rule.target.starts_with('/')) {
        throw Error("the target is not an absolute path");
    }
    return rule;
}

std::vector<Placement> placementsOf(const Rule& rule, const std::vector<std::string>& sources) {
    std::vector<Placement> placements;
    if (rule.target.find('*') != std::string::npos) {
        return replaceStar(rule, sources);
    }
    if (rule.target.empty()) {
        for (const auto& source : sources) {
            placements.push_back({source, source});
        }
    } else if (sources.size() > 1) {
        const auto common = commonDirectory(sources);
        for (const auto& source : sources) {
            placements.push_back({source, below(rule.target, source.substr(common))});
        }
    } else if (!sources.empty()) {
        const auto& source = sources.front();
        placements.push_back(
            {source, rule.target.ends_with('/') ? below(rule.target, fileNameOf(source)) : rule.target});
    }
    return placements;
}

}  // namespace sarus::podman_hpc
