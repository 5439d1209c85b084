#include "cli/help_text.hpp"

#include <algorithm>

#include "base/columns.hpp"
#include "base/text.hpp"
#include "cli/command_line.hpp"
#include "engine/site_config_reference.hpp"

namespace sarus::cli {

namespace {

constexpr std::size_t lineWidth = 80;
constexpr std::size_t minimumHelpColumn = 24;
constexpr std::size_t maximumHelpColumn = 40;

std::string optionColumn(const Option& option) {
    const std::string names = option.shortName == '\0'
                                  ? cat("--", option.longName)
                                  : cat("-", option.shortName, " [ --", option.longName, " ]");
    return cat("  ", names, option.takesValue ? " arg" : "");
}

/// Breaks `text` at blanks; the lines after the first are indented.
std::string wrap(const std::string& text, std::size_t indentation) {
    std::string out;
    std::size_t column = indentation;
    for (const auto& word : splitWords(text)) {
        if (column > indentation && column + 1 + word.size() > lineWidth) {
            out += cat("\n", std::string(indentation, ' '));
            column = indentation;
        } else if (column > indentation) {
            out += ' ';
            ++column;
        }
        out += word;
        column += word.size();
    }
    return out;
}

}  // namespace

std::string formatOptions(const std::vector<Option>& options) {
    std::size_t helpColumn = minimumHelpColumn;
    for (const auto& option : options) {
        if (!option.hidden) {
            helpColumn = std::max(helpColumn, optionColumn(option).size() + 2);
        }
    }
    helpColumn = std::min(helpColumn, maximumHelpColumn);
    std::string out = "Options:\n";
    for (const auto& option : options) {
        if (option.hidden) {
            continue;
        }
        auto left = optionColumn(option);
        if (left.size() + 1 >= helpColumn) {
            left += cat("\n", std::string(helpColumn, ' '));
        } else {
            left = padded(left, helpColumn);
        }
        out += cat(left, wrap(option.help, helpColumn), "\n");
    }
    return out;
}

std::string generalHelp() {
    constexpr std::size_t nameWidth = 13;
    std::string out = cat("Usage: sarus COMMAND\n\n", formatOptions(globalOptions()), "\nCommands:\n");
    for (const auto& command : commands()) {
        if (!command.hidden) {
            out += cat("   ", padded(command.name, nameWidth), command.description, "\n");
        }
    }
    out += "\nRun 'sarus help COMMAND' for more information about a command.";
    return out;
}

std::string commandHelp(const Subcommand& command) {
    auto out = cat("Usage: ", command.usage, "\n\n", command.description, "\n");
    if (!command.note.empty()) {
        out += cat("\n", command.note, "\n");
    }
    const bool anyVisible = std::any_of(command.options.begin(), command.options.end(),
                                        [](const Option& option) { return !option.hidden; });
    if (anyVisible) {
        out += cat("\n", formatOptions(command.options));
    }
    out.pop_back();
    return out;
}

std::string commandManual() {
    std::string out;
    for (const auto& command : commands()) {
        if (!command.hidden) {
            // Commands without options have no page of their own.
            const auto name = command.acceptsOptions
                                  ? cat(".BR ", engine::roff(cat("sarus-", command.name)), " (1)")
                                  : cat(".B ", engine::roff(command.usage));
            out += cat(".TP\n", name, '\n', engine::roff(command.description), ".\n");
        }
    }
    return out;
}

}  // namespace sarus::cli
