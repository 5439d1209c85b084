#include "base/log.hpp"
#include "cli/command.hpp"

namespace sarus::cli {

namespace {

int run(Context&, const Arguments&) {
    printLine(SARUS_VERSION);
    return 0;
}

}  // namespace

Command versionCommand() {
    return {.name = "version",
            .usage = "sarus version",
            .description = "Show the Sarus version information",
            .note = {},
            .options = {},
            .minPositionals = 0,
            .maxPositionals = 0,
            .acceptsOptions = false,
            .run = run};
}

}  // namespace sarus::cli
