#include "cli/prune_limits.hpp"

#include <array>
#include <cctype>
#include <cstdint>
#include <ctime>
#include <exception>
#include <limits>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command_line.hpp"
#include "cli/context.hpp"
#include "cli/images_in_use.hpp"

namespace sarus::cli {

namespace {

constexpr std::time_t minute = 60;
constexpr std::time_t hour = 60 * minute;
constexpr std::time_t day = 24 * hour;
constexpr std::string_view digits = "0123456789";

[[noreturn]] void refuse(std::string_view option, const std::string& value, std::string_view expected) {
    throw usageError(cat("Invalid value '", printable(value), "' of --", option, ": expected ", expected),
                     "prune");
}

/// The number at the beginning of `text`, which is cut off; nullopt if there is none.
std::optional<std::uint64_t> takeNumber(std::string_view& text) {
    const auto end = std::min(text.find_first_not_of(digits), text.size());
    const auto number = parseNumber(text.substr(0, end));
    text.remove_prefix(end);
    return number;
}

std::time_t parseAge(std::string_view option, const std::string& value) {
    constexpr std::array units{std::pair{'m', minute}, std::pair{'h', hour}, std::pair{'d', day},
                               std::pair{'w', 7 * day}};
    constexpr std::uint64_t most = 1'000'000;
    std::string_view text = value;
    const auto number = takeNumber(text);
    for (const auto& [letter, seconds] : units) {
        if (number && *number <= most && text == std::string_view(&letter, 1)) {
            return static_cast<std::time_t>(*number) * seconds;
        }
    }
    refuse(option, value, "a number and a unit (m, h, d or w), such as 30d");
}

std::uint64_t parseSize(std::string_view option, const std::string& value) {
    constexpr std::string_view units = "KMGT";
    constexpr unsigned bitsOfUnit = 10;
    std::string_view text = value;
    const auto number = takeNumber(text);
    unsigned shift = 0;
    if (!text.empty()) {
        const auto unit = units.find(static_cast<char>(std::toupper(static_cast<unsigned char>(text[0]))));
        if (unit != std::string_view::npos) {
            shift = bitsOfUnit * (static_cast<unsigned>(unit) + 1);
            text.remove_prefix(1);
        }
    }
    const bool isUnit = text.empty() || text == "B" || (shift != 0 && text == "iB");
    if (!number || !isUnit || *number > std::numeric_limits<std::uint64_t>::max() >> shift) {
        refuse(option, value, "bytes, or a number and a unit (K, M, G or T), such as 20G");
    }
    return *number << shift;
}

/// As Docker and Podman name an age.
std::string ageOfFilter(const std::string& filter) {
    constexpr std::string_view name = "until=";
    if (!filter.starts_with(name)) {
        refuse("filter", filter, "'until=AGE', such as until=30d");
    }
    return filter.substr(name.size());
}

}  // namespace

std::optional<image::PruneLimits> readPruneLimits(const Arguments& arguments) {
    image::PruneLimits limits;
    if (arguments.has("filter")) {
        limits.olderThan = parseAge("filter", ageOfFilter(arguments.value("filter")));
    }
    if (arguments.has("older-than")) {
        limits.olderThan = parseAge("older-than", arguments.value("older-than"));
    }
    if (arguments.has("keep-bytes")) {
        limits.keepBytes = parseSize("keep-bytes", arguments.value("keep-bytes"));
    }
    return limits.olderThan || limits.keepBytes ? std::optional(limits) : std::nullopt;
}

void pruneAfterPull(Context& context, image::Repository& repository, const image::ImageReference& pulled,
                    bool quiet) noexcept {
    try {
        const auto& site = context.config().pruneAfterPull;
        image::PruneLimits limits;
        limits.keepBytes = site.keepBytes;
        limits.recent = day;
        if (site.olderThanDays) {
            limits.olderThan = static_cast<std::time_t>(*site.olderThanDays) * day;
        }
        if (!limits.olderThan && !limits.keepBytes) {
            return;
        }
        auto kept = imagesInUse(context);
        kept.insert(pulled.full());
        const auto plan = image::pruneToLimits(repository, context.config().tempDir, limits, kept, false);
        if (!plan) {
            logInfo("ImageStore",
                    "Another import is running: what exceeds pruneAfterPull stays until it ends");
            return;
        }
        for (const auto& image : plan->images) {
            if (!quiet) {
                printLine(cat("> removed ", describeUsage(image), ": the site limits repositories"));
            }
        }
        logInfo("ImageStore", cat("pruneAfterPull freed ", formatSize(plan->bytes)));
    } catch (const std::exception& error) {
        logWarn("ImageStore", cat("Failed to remove what exceeds pruneAfterPull: ", error.what()));
    }
}

std::string describeUsage(const image::ImageUsage& image) {
    return cat(image.reference.full(), " (", formatSize(image.bytes), ", last used ",
               formatAge(std::time(nullptr) - image.lastUse), " ago)");
}

}  // namespace sarus::cli
