#include "engine/run_options.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "engine/mount_rules.hpp"

namespace sarus::engine {

namespace {

/// Splits "key=value" at the first '='. The documented messages differ in one word: `parsing` appears in the
/// one for empty keys.
std::pair<std::string, std::optional<std::string>> splitPair(std::string_view option, std::string_view what,
                                                             std::string_view parsing) {
    if (option.empty()) {
        throw Error(cat("Invalid ", what, " requested from CLI: empty option value"));
    }
    if (option.find('\0') != std::string_view::npos) {
        throw Error(
            cat("Invalid ", what, " requested from CLI: '", printable(option), "' holds a NUL character"));
    }
    const auto separator = option.find('=');
    if (separator == 0) {
        const auto quoted = printable(option);
        throw Error(cat("Error parsing ", parsing, " from CLI '", quoted,
                        "': Failed to parse key-value pair '", quoted, "': key is empty"));
    }
    if (separator == std::string_view::npos) {
        return {std::string(option), std::nullopt};
    }
    return {std::string(option.substr(0, separator)), std::string(option.substr(separator + 1))};
}

}  // namespace

std::pair<std::string, std::string> parseAnnotation(std::string_view option) {
    auto [key, value] = splitPair(option, "annotation", "annotation");
    return {std::move(key), std::move(value).value_or("")};
}

std::pair<std::string, std::optional<std::string>> parseEnvironmentOption(std::string_view option) {
    return splitPair(option, "environment variable", "environment variable requested");
}

std::string resolveWorkdir(std::string_view workdir, std::string_view base) {
    const auto first = workdir.substr(0, workdir.find('/'));
    return first == "." || first == ".." ? cat(base, '/', workdir) : std::string(workdir);
}

void checkWorkdir(std::string_view workdir) {
    const auto invalid = [&](std::string_view why) {
        return Error(cat("The working directory '", printable(workdir), "' is invalid, ", why));
    };
    if (!workdir.starts_with('/')) {
        throw invalid("it needs to be an absolute path.");
    }
    if (workdir.find('\0') != std::string_view::npos) {
        throw invalid("it holds a NUL character.");
    }
    // A path such as /proc/self/fd/7 can lead to a directory of the host.
    if (isSameOrBelow(normalizePath(workdir), "/proc")) {
        throw invalid("it must not be below /proc.");
    }
}

void checkContainerName(std::string_view name) {
    constexpr std::size_t longest = 128;
    const auto isAlphanumeric = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    const auto isAllowed = [&](char c) { return isAlphanumeric(c) || c == '_' || c == '.' || c == '-'; };
    if (name.empty() || name.size() > longest || !isAlphanumeric(name[0]) ||
        !std::all_of(name.begin(), name.end(), isAllowed)) {
        throw Error(
            cat("Invalid container name '", printable(name), "'"),
            "A name has 1 to 128 of the characters A-Z a-z 0-9 _ . - and starts with a letter or digit");
    }
}

void checkMpiType(std::string_view type) {
    if (type.empty()) {
        throw Error("Empty value provided for --mpi-type option");
    }
}

}  // namespace sarus::engine
