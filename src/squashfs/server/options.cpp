#include "squashfs/server/options.hpp"

#include <array>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::squashfs {

namespace {

constexpr const char* seeHelp = "See 'sarus-squashfs --help'";

std::uint32_t number(std::string_view name, std::string_view text, std::uint32_t least, std::uint32_t most) {
    const auto value = parseNumber(text);
    if (!value || *value < least || *value > most) {
        throw Error(cat("The option ", name, " needs a number from ", least, " to ", most, ", not '",
                        printable(text), "'"))
            .addUsage(seeHelp);
    }
    return static_cast<std::uint32_t>(*value);
}

void applyMountOption(Options& options, std::string_view option) {
    // Every mount has these.
    constexpr std::array<std::string_view, 4> implied{"ro", "nosuid", "nodev", "default_permissions"};
    for (const auto one : implied) {
        if (option == one) {
            return;
        }
    }
    constexpr auto anyId = std::numeric_limits<std::uint32_t>::max() - 1;
    constexpr std::uint32_t mostMegabytes = 16384;
    const auto equals = option.find('=');
    const auto name = option.substr(0, equals);
    const auto value = equals == std::string_view::npos ? std::string_view() : option.substr(equals + 1);
    const auto valueWithin = [&](std::uint32_t least, std::uint32_t most) {
        return number(name, value, least, most);
    };
    if (option == "allow_other") {
        options.allowOther = true;
    } else if (name == "uid") {
        options.uid = valueWithin(0, anyId);
    } else if (name == "gid") {
        options.gid = valueWithin(0, anyId);
    } else if (name == "cache") {
        options.caches.blocks = std::size_t{valueWithin(1, mostMegabytes)} << 20U;
    } else if (name == "metadata_cache") {
        options.caches.metadata = std::size_t{valueWithin(1, mostMegabytes)} << 20U;
    } else if (name == "threads") {
        options.threads = valueWithin(1, 64);
    } else if (name == "readahead") {
        options.readahead = valueWithin(0, 32);
    } else if (name == "ready_fd") {
        options.readyFd = static_cast<int>(valueWithin(3, 65535));
    } else {
        throw Error(cat("Unknown mount option '", printable(option), "'")).addUsage(seeHelp);
    }
}

}  // namespace

std::optional<int> descriptorOf(std::string_view path) {
    for (const std::string_view prefix : {"/dev/fd/", "/proc/self/fd/"}) {
        if (path.starts_with(prefix)) {
            const auto value = parseNumber(path.substr(prefix.size()));
            if (value && *value <= static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
                return static_cast<int>(*value);
            }
        }
    }
    return std::nullopt;
}

Options parseOptions(std::span<char* const> arguments) {
    Options options;
    std::vector<std::string> places;
    bool optionsAreOver = false;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string_view argument = arguments[i];
        if (optionsAreOver || !argument.starts_with('-') || argument.size() == 1) {
            places.emplace_back(argument);
        } else if (argument == "--") {
            optionsAreOver = true;
        } else if (argument == "-f") {
            options.foreground = true;
        } else if (argument == "-h" || argument == "--help") {
            options.help = true;
        } else if (argument == "-V" || argument == "--version") {
            options.version = true;
        } else if (argument.starts_with("-o")) {
            auto list = argument.substr(2);
            if (list.empty()) {
                if (++i == arguments.size()) {
                    throw Error("The option -o needs a value").addUsage(seeHelp);
                }
                list = arguments[i];
            }
            for (const auto& option : split(list, ',')) {
                applyMountOption(options, option);
            }
        } else {
            throw Error(cat("Unknown option '", printable(argument), "'")).addUsage(seeHelp);
        }
    }
    if (options.help || options.version) {
        return options;
    }
    if (places.size() != 2) {
        throw Error("sarus-squashfs needs an image and a mount point").addUsage(seeHelp);
    }
    options.image = places[0];
    options.mountPoint = places[1];
    options.fuseFd = descriptorOf(options.mountPoint).value_or(-1);
    return options;
}

}  // namespace sarus::squashfs
