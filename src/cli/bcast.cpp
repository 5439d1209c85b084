#include <sys/utsname.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/fsverity.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/broadcast.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/repository_access.hpp"
#include "cli/stored_images.hpp"
#include "image/broadcast/local_copy.hpp"

namespace sarus::cli {

namespace {

SlurmJob requireJob() {
    const auto job = findSlurmJob();
    if (!job) {
        throw Error("There is no Slurm job: SLURM_JOB_ID is not set",
                    "Run 'sarus bcast' in a batch script, or in the shell of salloc");
    }
    return *job;
}

/// What `sarus bcast` asks each node to do, by `srun`: `--stage=STAGE DIGEST SIZE IDENTITY`.
int runStage(Context& context, const Arguments& arguments) {
    const auto directory = copiesDirectory(context, requireJob());
    const auto& words = arguments.positionals();
    const auto size = words.size() == 3 ? parseNumber(words[1]) : std::nullopt;
    const auto suffix = arguments.value("suffix");
    if (!size || !fsverity::isDigest(words[0]) || !(suffix.empty() || image::isSuffix(suffix))) {
        throw usageError("'--stage' expects DIGEST SIZE IDENTITY", "bcast");
    }
    image::StoreInfo info;
    info.squashfsDigest = words[0];
    info.squashfsSize = *size;
    info.identity = words[2];
    try {
        const auto stage = arguments.value("stage");
        if (stage == "prepare") {
            printLine(image::prepareForCopy(directory, info) ? "ready" : "present");
        } else if (stage == "complete") {
            image::completeCopy(directory, info, suffix);
        } else {
            image::abandonCopy(directory, info);
        }
    } catch (const Error& error) {
        utsname host{};
        ::uname(&host);
        throw Error(cat(static_cast<const char*>(host.nodename), ": ", error.what()), error.hint());
    }
    return 0;
}

int runBcast(Context& context, const Arguments& arguments) {
    if (arguments.has("stage")) {
        return runStage(context, arguments);
    }
    if (arguments.positionals().size() != 1) {
        throw tooManyArguments("bcast");
    }
    const auto job = requireJob();
    const auto reference = referenceArgument(arguments.positionals().front(), "bcast").normalized();
    const auto found = findStoredImage(context, arguments, reference);
    const auto done = broadcastImage(context, job, found, WhileBusy::wait);
    printLine(cat(found.reference.full(), " (", formatSize(found.info->squashfsSize), ") ",
                  done.wasNeeded ? "copied to " : "is already on ", done.nodes,
                  done.nodes == 1 ? " node: " : " nodes: ", copiesDirectory(context, job)));
    return 0;
}

}  // namespace

Subcommand bcastCommand() {
    return {.name = "bcast",
            .usage = "sarus bcast [OPTIONS] REPOSITORY[:TAG]",
            .description = "Copy an image to all nodes of the Slurm job",
            .options = {centralizedRepositoryOption(),
                        {.longName = "stage",
                         .takesValue = true,
                         .hidden = true,
                         .help = "What each node does: 'prepare', 'complete' or 'abandon'"},
                        {.longName = "suffix",
                         .takesValue = true,
                         .hidden = true,
                         .help = "Ending of the name of the unfinished copy"}},
            .minPositionals = 1,
            .maxPositionals = 3,
            .usesRepository = true,
            .completions = {Completion::images},
            .run = runBcast};
}

}  // namespace sarus::cli
