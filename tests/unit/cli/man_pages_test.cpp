#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/habits.hpp"
#include "cli/help_text.hpp"

namespace sarus::cli::man_pages_test {
namespace {

bool isOptionCharacter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

/// Without roff's escapes for dashes and fonts.
std::string plain(const std::string& raw) {
    std::string text;
    for (std::size_t i = 0; i < raw.size(); ++i) {
        if (raw[i] != '\\' || i + 1 == raw.size()) {
            text += raw[i];
        } else if (raw[i + 1] == 'f') {
            i += 2;
        } else {
            ++i;
            text += raw[i];
        }
    }
    return text;
}

std::string manPage(const std::string& name) {
    return plain(readFile(cat(SARUS_SOURCE_DIR, "/docs/man/", name)));
}

/// All words of the form --name.
std::set<std::string> namedOptions(const std::string& text) {
    std::set<std::string> names;
    for (auto start = text.find("--"); start != std::string::npos; start = text.find("--", start)) {
        start += 2;
        auto end = start;
        while (end < text.size() && isOptionCharacter(text[end])) {
            ++end;
        }
        names.insert(text.substr(start, end - start));
        start = end;
    }
    return names;
}

std::set<std::string> knownOptions(const std::vector<Option>& options, bool hidden) {
    std::set<std::string> names;
    for (const auto& option : options) {
        if (hidden || !option.hidden) {
            names.insert(option.longName);
        }
        if (hidden) {
            names.insert(option.aliases.begin(), option.aliases.end());
        }
    }
    return names;
}

void expectPageMatchesTable(const std::string& page, const std::vector<Option>& options) {
    const auto named = namedOptions(manPage(page));
    const auto command = page.substr(page.find('-') + 1, page.rfind('.') - page.find('-') - 1);
    const bool startsContainers = findCommand(command) != nullptr && findCommand(command)->endsWithCommand();
    for (const auto& option : knownOptions(options, false)) {
        EXPECT_TRUE(named.contains(option)) << page << " lacks --" << option;
    }
    const auto known = knownOptions(options, true);
    for (const auto& option : named) {
        EXPECT_TRUE(known.contains(option) ||
                    findHabit(command, startsContainers, cat("--", option)) != nullptr)
            << page << " names --" << option << ", which does not exist";
    }
}

TEST(ManPages, ShortNamesStandInFrontOfTheLongOnes) {
    for (const auto& command : commands()) {
        for (const auto& option : command.options) {
            if (option.shortName != '\0') {
                const auto page = manPage(cat("sarus-", command.name, ".1"));
                const auto tag = page.find(cat("\n-", option.shortName, ", --", option.longName));
                const auto macro = page.find(cat("\n.BR -", option.shortName, " \", \" --", option.longName));
                EXPECT_TRUE(tag != std::string::npos || macro != std::string::npos)
                    << command.name << " -" << option.shortName;
            }
        }
    }
}

TEST(ManPages, NameTheOptionsOfTheirCommandsAndNoOthers) {
    for (const auto& command : commands()) {
        if (!command.hidden && command.acceptsOptions) {
            expectPageMatchesTable(cat("sarus-", command.name, ".1"), command.options);
        }
    }
}

TEST(ManPages, GeneralPageNamesTheGlobalOptionsAndAllCommands) {
    expectPageMatchesTable("sarus.1", globalOptions());
    const auto text = cat(manPage("sarus.1"), plain(commandManual()));
    for (const auto& command : commands()) {
        const bool named = text.find(cat("sarus-", command.name)) != std::string::npos ||
                           text.find(cat("sarus ", command.name)) != std::string::npos;
        EXPECT_TRUE(named) << command.name;
    }
}

TEST(ManPages, AllHaveTheUsualSections) {
    for (const auto& command : commands()) {
        if (command.hidden || !command.acceptsOptions) {
            continue;
        }
        const auto text = manPage(cat("sarus-", command.name, ".1"));
        for (const auto* section :
             {"NAME", "SYNOPSIS", "OPTIONS", "EXIT STATUS", "FILES", "ENVIRONMENT", "EXAMPLES"}) {
            EXPECT_NE(text.find(cat("\n.SH ", section, "\n")), std::string::npos)
                << command.name << ": " << section;
        }
    }
}

}  // namespace
}  // namespace sarus::cli::man_pages_test
