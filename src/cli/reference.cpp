#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/help_text.hpp"
#include "engine/site_config_reference.hpp"

namespace sarus::cli {

namespace {

/// The page with the lines `.\" COMMANDS` and `.\" KEYS` replaced by what the tables of this program hold.
std::string manualPage(const std::string& path) {
    std::string page;
    for (const auto& line : split(readFile(path), '\n')) {
        page += line == R"(.\" COMMANDS)" ? commandManual()
                : line == R"(.\" KEYS)"   ? engine::siteConfigManual()
                                          : line + '\n';
    }
    page.pop_back();
    return page;
}

int runReference(Context&, const Arguments& arguments) {
    const auto& what = arguments.positionals();
    if (what[0] != "schema" && (what[0] != "manual" || what.size() != 2)) {
        throw Error(cat("There is no reference '", printable(what[0]), "'"),
                    "Known references: schema, manual PAGE");
    }
    writeAll(STDOUT_FILENO, what[0] == "schema" ? engine::siteConfigSchema() : manualPage(what[1]),
             "standard output");
    return 0;
}

}  // namespace

Subcommand referenceCommand() {
    return {
        .name = "reference",
        .usage = "sarus reference schema|manual PAGE",
        .description =
            "Print the JSON schema of sarus.json, or complete a manual page from the tables of the program",
        .minPositionals = 1,
        .maxPositionals = 2,
        .hidden = true,
        .run = runReference};
}

}  // namespace sarus::cli
