#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/context.hpp"
#include "engine/hook_files.hpp"
#include "engine/hook_report.hpp"

namespace sarus::cli {

namespace {

constexpr int standardOutput = 1;

/// True if nothing is wrong with the file.
bool checkHook(int directory, const std::string& file) {
    std::vector<std::string> problems;
    try {
        const auto hook = engine::readHookFile(directory, file);
        problems = engine::suspiciousConditions(hook);
        const bool inContainer = hook.stages == std::vector<std::string>{"startContainer"};
        if (!inContainer && ::access(hook.hook.path.c_str(), X_OK) != 0) {
            problems.push_back(cat("the program ", printable(hook.hook.path), " cannot be run: ", std::strerror(errno)));
        }
        for (auto& problem : problems) {
            problem = cat(printable(file), ": ", problem);
        }
    } catch (const Error& error) {
        problems.emplace_back(error.what());
    }
    for (const auto& problem : problems) {
        printLine(problem);
    }
    return problems.empty();
}

int checkAll(int directory, const std::string& path) {
    std::size_t intact = 0;
    const auto files = engine::listHookFiles(directory, path);
    for (const auto& file : files) {
        intact += checkHook(directory, file) ? 1U : 0U;
    }
    printLine(cat(intact, " of ", files.size(), " hook files in ", printable(path), " without a problem"));
    return intact == files.size() ? 0 : 1;
}

int hooks(Context& context, const Arguments& arguments) {
    const auto& config = context.config();
    if (!config.hooksDir) {
        throw Error("No hooks are configured: the key `hooksDir` is missing from sarus.json");
    }
    const auto directory = openFile(*config.hooksDir, O_PATH | O_DIRECTORY);
    if (arguments.has("check")) {
        return checkAll(directory.get(), *config.hooksDir);
    }
    const auto all = engine::readHookFiles(directory.get(), *config.hooksDir);
    writeAll(standardOutput,
             arguments.has("mpi") ? engine::formatMpiHookTable(all, config.defaultMpiType) : engine::formatHookTable(all),
             "standard output");
    return 0;
}

}  // namespace

Command hooksCommand() {
    return {.name = "hooks",
            .usage = "sarus hooks [OPTIONS]",
            .description = "List configured hooks",
            .note = {},
            .options = {{.longName = "check", .help = "Look for mistakes in the hook files"},
                        {.longName = "mpi", .shortName = 'm', .help = "List MPI hooks and their types"}},
            .minPositionals = 0,
            .maxPositionals = 0,
            .run = hooks};
}

}  // namespace sarus::cli
