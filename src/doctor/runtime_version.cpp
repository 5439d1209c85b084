#include "doctor/runtime_version.hpp"

#include <array>
#include <compare>
#include <optional>

#include "base/text.hpp"
#include "doctor/node_checks.hpp"

namespace sarus::doctor {

namespace {

/// Candidates for a release come before it.
struct Version {
    std::uint64_t major = 0;
    std::uint64_t minor = 0;
    std::uint64_t patch = 0;
    bool isRelease = true;
    auto operator<=>(const Version&) const = default;
};

struct Vulnerability {
    std::string_view program;
    Version first;  ///< affected
    Version corrected;
    std::string_view name;
};

constexpr Version any{};

constexpr std::array vulnerabilities{
    Vulnerability{"runc", any, {1, 0, 0}, "CVE-2021-30465"},
    Vulnerability{"runc", any, {1, 1, 2}, "CVE-2022-29162"},
    Vulnerability{"runc", any, {1, 1, 5}, "CVE-2023-27561"},
    Vulnerability{"runc", any, {1, 1, 12}, "CVE-2024-21626"},
    Vulnerability{"runc", any, {1, 1, 14}, "CVE-2024-45310"},
    Vulnerability{"runc", any, {1, 2, 8}, "CVE-2025-31133, CVE-2025-52565, CVE-2025-52881"},
    Vulnerability{"runc", {1, 3, 0, false}, {1, 3, 3}, "CVE-2025-31133, CVE-2025-52565, CVE-2025-52881"},
    Vulnerability{"crun", any, {0, 10, 5}, "CVE-2019-18837"},
    Vulnerability{"crun", any, {1, 4, 4}, "CVE-2022-27650"},
};

std::optional<Version> parseVersion(std::string_view text) {
    const auto end = text.find_first_not_of("0123456789.");
    const auto rest = end == std::string_view::npos ? std::string_view() : text.substr(end);
    const auto parts = split(text.substr(0, end), '.');
    Version version{.isRelease = !rest.starts_with("-rc") && !rest.starts_with("~rc")};
    const std::array numbers{&version.major, &version.minor, &version.patch};
    for (std::size_t i = 0; i < parts.size() && i < numbers.size(); ++i) {
        const auto number = parseNumber(parts[i]);
        if (!number) {
            return std::nullopt;
        }
        *numbers[i] = *number;
    }
    return parts.size() < 2 ? std::nullopt : std::optional(version);
}

}  // namespace

RuntimeVersion parseRuntimeVersion(std::string_view output) {
    RuntimeVersion version;
    for (const auto& line : split(output, '\n')) {
        const auto words = splitWords(line);
        if (version.program.empty() && words.size() == 3 && words[1] == "version" &&
            (words[0] == "crun" || words[0] == "runc")) {
            version.program = words[0];
            version.text = words[2];
        }
    }
    const auto& text = version.text;
    const auto end = text.find_first_not_of("0123456789.");
    version.isOfDistribution = end != std::string::npos && text.compare(end, 3, "-rc") != 0;
    return version;
}

std::vector<std::string> knownVulnerabilities(const RuntimeVersion& version) {
    std::vector<std::string> names;
    const auto parsed = parseVersion(version.text);
    for (const auto& vulnerability : vulnerabilities) {
        if (parsed && version.program == vulnerability.program && *parsed < vulnerability.corrected &&
            *parsed >= vulnerability.first) {
            names.emplace_back(vulnerability.name);
        }
    }
    return names;
}

Finding checkRuntime(const std::string& program, const std::string& cure, const std::string& cureIfOther) {
    const auto output = askVersion(program, cure);
    const auto version = parseRuntimeVersion(output);
    const auto found = cat(printable(program), ", ", printable(split(output, '\n').front()));
    if (version.program.empty()) {
        return warning(cat(found, ": neither crun nor runc"), cureIfOther);
    }
    const auto names = knownVulnerabilities(version);
    const auto known = cat(found, ": known are ", join(names, ", "));
    return names.empty()              ? ok(found)
           : version.isOfDistribution ? note(cat(known, ", which the distribution may have corrected"),
                                             cat("apt-get changelog ", version.program,
                                                 " | grep CVE # or: rpm -q --changelog ", version.program))
                                      : warning(known, cat("Install a newer ", version.program));
}

}  // namespace sarus::doctor
