#include "image/prune.hpp"

#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/repository_access.hpp"

namespace sarus::cli {

namespace {

int run(Context& context, const Arguments& arguments) {
    auto repository = openRepository(context, arguments, image::RepositoryAccess::write);
    const bool dryRun = arguments.has("dry-run");
    const auto result = image::pruneCache(repository, context.config().tempDir, dryRun);
    printLine(cat(dryRun ? "would remove " : "removed ", result.files, result.files == 1 ? " file (" : " files (",
                  formatSize(result.bytes), ") from the cache \"", repository.paths().cache(), '"'));
    if (const auto copies = image::pruneUnpackedImages(context.config().tempDir, dryRun); copies > 0) {
        printLine(cat(dryRun ? "would remove " : "removed ", copies, copies == 1 ? " unpacked image" : " unpacked images",
                      " from \"", context.config().tempDir, '"'));
    }
    return 0;
}

}  // namespace

Command pruneCommand() {
    return {.name = "prune",
            .usage = "sarus prune [OPTIONS]",
            .description = "Remove downloaded data which is not needed to run images",
            .note = {},
            .options = {centralizedRepositoryOption(), {.longName = "dry-run", .help = "Only show how much would be removed"}},
            .minPositionals = 0,
            .maxPositionals = 0,
            .run = run};
}

}  // namespace sarus::cli
