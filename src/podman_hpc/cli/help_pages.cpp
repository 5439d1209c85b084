#include "podman_hpc/cli/help_pages.hpp"

#include "base/columns.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "podman_hpc/cli/commands.hpp"
#include "podman_hpc/cli/podman.hpp"

namespace sarus::podman_hpc {

namespace {

std::string moduleOptions(const std::vector<Module>& modules) {
    std::string out;
    for (const auto& module : modules) {
        if (!module.hidden && !module.flag.empty()) {
            out += cat("  ", padded(cat("--", module.flag), 20), module.help, '\n');
        }
    }
    return out;
}

std::string indented(const std::string& text) {
    std::string out;
    for (const auto& line : split(text, '\n')) {
        out += line.empty() ? "\n" : cat("  ", line, '\n');
    }
    out.pop_back();
    return out;
}

}  // namespace

std::string podmanHelpPage(const std::string& page, const std::vector<Module>& modules) {
    auto out = renamePodman(page);
    constexpr std::string_view heading = "\nOptions:\n";
    if (const auto found = out.find(heading); found != std::string::npos) {
        const auto options = moduleOptions(modules);
        out.replace(found, heading.size(),
                    cat(options.empty() ? "" : cat("\nPodman-hpc Options:\n", options),
                        "\nPodman options follow:\n"));
    }
    return out;
}

int printPodmanHelp(const Settings& settings, const std::vector<std::string>& command,
                    const std::vector<Module>& modules) {
    std::vector<std::string> arguments{requirePodman(settings)};
    arguments.insert(arguments.end(), command.begin(), command.end());
    arguments.emplace_back("--help");
    const auto output = capturePodman(arguments);
    if (!output.out.empty()) {
        printLine(trim(podmanHelpPage(output.out, modules)));
    }
    if (!output.err.empty()) {
        printError(trim(renamePodman(output.err)));
    }
    return output.status.shellStatus();
}

void printGeneralHelp(const Surroundings& from) {
    std::string out =
        "Manage pods, containers and images ... on HPC!\n\n"
        "Description:\n"
        "  podman-hpc runs Podman with the configuration of this site: stores, hooks and modules.\n"
        "  Every command and option of Podman works.\n\n"
        "Usage: podman-hpc [options] COMMAND [ARGS]...\n\n"
        "Options:\n";
    for (const auto& option : groupOptions) {
        if (!option.help.empty()) {
            out += cat("  ", padded(cat("--", option.name, option.takesValue ? " TEXT" : ""), 26),
                       option.help, '\n');
        }
    }
    out += "\nCommands:\n";
    for (const auto& command : ownCommands()) {
        if (!command.hidden) {
            out += cat("  ", padded(std::string(command.name), 12), command.summary, '\n');
        }
    }
    if (const auto podman = loadSettings(from).text(Key::podmanBin); !podman.empty()) {
        const auto page = capturePodman({podman, "--help"}).out;
        if (const auto commands = page.find("Available Commands"); commands != std::string::npos) {
            out += cat("\nPodman help page follows:\n", indented(page.substr(commands)));
        }
    }
    printLine(trim(out));
}

void printOwnHelp(const OwnCommand& command, const std::vector<Module>& modules) {
    printLine(trim(cat(command.summary, "\n\nUsage: podman-hpc ", command.usage, "\n\nOptions:\n",
                       moduleOptions(modules), command.options)));
}

}  // namespace sarus::podman_hpc
