#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/boolean.hpp"
#include "base/columns.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/repository_access.hpp"
#include "cli/starter_call.hpp"
#include "image/store/import_session.hpp"
#include "image/store/listing.hpp"

namespace sarus::cli {

namespace {

/// Whether a name has this part, or fulfils this pattern.
bool matches(const image::ImageReference& name, const std::string& pattern) {
    if (pattern.find_first_of("*?[") == std::string::npos) {
        return name.full().find(pattern) != std::string::npos;
    }
    const auto behindSlash = cat("*/", pattern);  // as Docker shows names: without registry
    const auto fulfils = [&](const std::string& text) {
        return ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0 ||
               ::fnmatch(behindSlash.c_str(), text.c_str(), 0) == 0;
    };
    return fulfils(name.full()) || fulfils(name.repository());
}

/// The images of the names: with a tag one, without a tag all of a repository.
std::vector<image::ImageRecord> selected(std::vector<image::ImageRecord> images, const Arguments& arguments) {
    for (const auto& filter : arguments.values("filter")) {
        const auto equals = filter.find('=');
        const auto key = equals == std::string::npos ? "reference" : filter.substr(0, equals);
        const auto value = equals == std::string::npos ? filter : filter.substr(equals + 1);
        const auto flag = parseBoolean(value);
        if (key != "reference" && (key != "dangling" || !flag)) {
            throw usageError(
                cat("Invalid value '", printable(filter), "' of --filter: expected part of a name"), "images")
                .addUsage(
                    "Known keys: reference=PATTERN, dangling=false. 'sarus images --json' prints all for jq");
        }
        std::erase_if(images, [&](const image::ImageRecord& image) {
            return key == "dangling" ? *flag : !matches(image.reference, value);
        });
    }
    const auto& names = arguments.positionals();
    if (names.empty()) {
        return images;
    }
    std::vector<image::ImageReference> wanted;
    for (const auto& name : names) {
        wanted.push_back(referenceArgument(name, "images").normalized());
        if (!fileNameOf(name).ends_with(":latest") && wanted.back().tag == "latest") {
            wanted.back().tag.clear();
        }
    }
    std::erase_if(images, [&](const image::ImageRecord& image) {
        return std::none_of(wanted.begin(), wanted.end(), [&](const image::ImageReference& name) {
            const auto& own = image.reference;
            const bool isLoaded = own.server == "load" && name.server == "docker.io" &&
                                  own.imageNamespace == name.imageNamespace && own.image == name.image;
            return (isLoaded || own.repository() == name.repository()) &&
                   ((name.tag.empty() && name.digest.empty()) ||
                    (own.tag == name.tag && own.digest == name.digest));
        });
    });
    return images;
}

int runImages(Context& context, const Arguments& arguments) {
    if (arguments.has("json") && arguments.has("verify")) {
        throw usageError("The options '--json' and '--verify' cannot be used together", "images");
    }
    auto repository = openRepository(context, arguments, image::RepositoryAccess::read);
    auto images = selected(repository.list(), arguments);
    image::refreshTimes(repository.paths(), images);
    if (arguments.has("sort")) {
        image::sortImages(repository.paths(), images, arguments.value("sort"));
    }
    if (repository.isSettled()) {
        image::removeAbandonedImports(repository.paths(), context.config().tempDir);
    }
    if (arguments.has("verify")) {
        const auto report = image::verifyImages(repository.paths(), images);
        writeAll(STDOUT_FILENO, report.text, "standard output");
        return report.allIntact ? 0 : 1;
    }
    if (arguments.has("quiet")) {
        for (const auto& image : images) {
            printLine(image.id);
        }
        return 0;
    }
    const auto ids = arguments.has("no-trunc") ? image::Ids::whole : image::Ids::shortened;
    const bool isShort =
        ::isatty(STDOUT_FILENO) == 1 && !arguments.has("digests") && ids == image::Ids::shortened;
    writeAll(STDOUT_FILENO,
             arguments.has("json") ? image::formatImageJson(repository.paths(), images)
             : isShort
                 ? image::formatShortImageTable(repository.paths(), images, terminalWidth(STDOUT_FILENO))
                 : image::formatImageTable(images, arguments.has("digests"), ids),
             "standard output");
    return 0;
}

}  // namespace

Subcommand imagesCommand() {
    return {
        .name = "images",
        .usage = "sarus images [OPTIONS]",
        .description = "List images",
        .note = "Note: With names of images, only those are listed.",
        .options = {centralizedRepositoryOption(),
                    {.longName = "digests", .help = "Show digests"},
                    jsonOption(),
                    {.longName = "filter",
                     .shortName = 'f',
                     .takesValue = true,
                     .repeatable = true,
                     .help = "List only images with this text in their names, or with 'reference=PATTERN'"},
                    {.longName = "no-trunc", .help = "Show whole image IDs, in the table for programs"},
                    {.longName = "sort",
                     .takesValue = true,
                     .help = "Sort by 'name', 'created' (newest first) or 'size' (largest first)"},
                    {.longName = "quiet", .shortName = 'q', .help = "Print only the image IDs"},
                    {.longName = "verify",
                     .help =
                         "Read all images and compare them with the digests recorded when they were stored"}},
        .maxPositionals = anyNumber,
        .usesRepository = true,
        .completions = {Completion::images},
        .aliases = {"image ls", "image list"},
        .run = runImages};
}

}  // namespace sarus::cli
