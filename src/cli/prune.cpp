#include "image/store/prune.hpp"

#include "base/error.hpp"
#include "base/host_variable.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/images_in_use.hpp"
#include "cli/prune_limits.hpp"
#include "cli/repository_access.hpp"
#include "cli/starter_call.hpp"
#include "image/store/repository_scan.hpp"
#include "oci/json/json_writer.hpp"

namespace sarus::cli {

namespace {

int emptyCache(Context& context, image::Repository& repository, const Arguments& arguments) {
    const bool dryRun = arguments.has("dry-run");
    const auto result = image::pruneCache(repository, context.config().tempDir, dryRun);
    if (arguments.has("json")) {
        oci::JsonWriter out;
        out.beginObject();
        out.member("dryRun", dryRun);
        out.key("files").raw(cat(result.files));
        out.key("bytes").raw(cat(result.bytes));
        out.key("unpackedImages").raw(cat(image::pruneUnpackedImages(context.config().tempDir, dryRun)));
        out.member("cache", repository.paths().cache());
        out.endObject();
        printLine(out.text());
        return 0;
    }
    printLine(cat(dryRun ? "would remove " : "removed ", result.files,
                  result.files == 1 ? " file (" : " files (", formatSize(result.bytes), ") from the cache \"",
                  repository.paths().cache(), '"'));
    if (const auto copies = image::pruneUnpackedImages(context.config().tempDir, dryRun); copies > 0) {
        printLine(cat(dryRun ? "would remove " : "removed ", copies,
                      copies == 1 ? " unpacked image" : " unpacked images", " from \"",
                      context.config().tempDir, '"'));
    }
    return 0;
}

void printRemovals(const image::Repository& repository, const image::PrunePlan& plan, bool dryRun) {
    const std::string_view verb = dryRun ? "would remove " : "removed ";
    for (const auto& image : plan.images) {
        printLine(cat(verb, "image ", describeUsage(image)));
    }
    const auto images = plan.images.size();
    const auto files = plan.blobs.size();
    printLine(cat(verb, images, images == 1 ? " image and " : " images and ", files,
                  files == 1 ? " file" : " files", " (", formatSize(plan.bytes), ") of \"",
                  repository.paths().root, '"'));
}

std::string formatRemovals(const image::Repository& repository, const image::PrunePlan& plan, bool dryRun) {
    oci::JsonWriter out;
    out.beginObject().member("dryRun", dryRun);
    out.member("files", plan.blobs.size());
    out.member("bytes", plan.bytes);
    out.key("images").beginArray();
    for (const auto& image : plan.images) {
        out.beginObject().member("reference", image.reference.full());
        out.member("bytes", image.bytes);
        out.member("lastUse", formatUtcTime(image.lastUse)).endObject();
    }
    return out.endArray().member("cache", repository.paths().cache()).endObject().text();
}

int keepLimits(Context& context, image::Repository& repository, const Arguments& arguments,
               const image::PruneLimits& limits) {
    const bool dryRun = arguments.has("dry-run");
    const auto plan =
        image::pruneToLimits(repository, context.config().tempDir, limits, imagesInUse(context), dryRun);
    if (!plan) {
        throw image::cacheInUse();
    }
    if (arguments.has("json")) {
        printLine(formatRemovals(repository, *plan, dryRun));
    } else {
        printRemovals(repository, *plan, dryRun);
    }
    return 0;
}

/// Of containers that were kept in jobs that are over.
void removeOldContainers(Context& context, const Arguments& arguments) {
    if (arguments.has("dry-run") || arguments.has("centralized-repository")) {
        return;
    }
    const engine::RemoveRequest request{.job = hostVariable("SLURM_JOB_ID").value_or(""),
                                        .ofEndedJobs = true};
    try {
        for (const auto& name : split(askStarter(context, request), '\n')) {
            if (!name.empty() && !arguments.has("json")) {
                printLine(cat("removed the container ", name, ": its job is over"));
            }
        }
    } catch (const Error& error) {
        logInfo("CLI", error.what());  // freeing the cache needs no working starter
    }
}

int runPrune(Context& context, const Arguments& arguments) {
    const auto limits = readPruneLimits(arguments);
    if (limits && arguments.has("centralized-repository")) {
        throw usageError(
            "The centralized repository does not know when users last used its images: "
            "--older-than and --keep-bytes cannot be used with it",
            "prune");
    }
    auto repository = openRepository(context, arguments, image::RepositoryAccess::write);
    removeOldContainers(context, arguments);
    return limits ? keepLimits(context, repository, arguments, *limits)
                  : emptyCache(context, repository, arguments);
}

}  // namespace

Subcommand pruneCommand() {
    return {
        .name = "prune",
        .usage = "sarus prune [OPTIONS]",
        .description = "Remove downloaded data that is not needed to run images",
        .note =
            "Note: With a limit, unused images are removed too, the least recently used first, but none\n"
            "      that a container of this node uses.",
        .options = {centralizedRepositoryOption(),
                    {.longName = "dry-run",
                     .help = "Show the size of what would be removed without removing it"},
                    {.longName = "filter",
                     .takesValue = true,
                     .hidden = true,
                     .help = "'until=AGE' means '--older-than=AGE'"},
                    jsonOption(),
                    {.longName = "keep-bytes",
                     .takesValue = true,
                     .help = "Remove only downloads and images until they take at most this space, such as "
                             "20G"},
                    {.longName = "older-than",
                     .takesValue = true,
                     .help = "Remove only downloads and images that were not used for this time, such as "
                             "30d, 12h or 2w"}},
        .usesRepository = true,
        .aliases = {"image prune", "system prune"},
        .run = runPrune};
}

}  // namespace sarus::cli
