#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/repository_access.hpp"
#include "cli/starter_call.hpp"
#include "image/import_session.hpp"
#include "image/listing.hpp"

namespace sarus::cli {

namespace {

constexpr int standardOutput = 1;

int run(Context& context, const Arguments& arguments) {
    if (arguments.has("json") && arguments.has("verify")) {
        throw Error(cat("The options '--json' and '--verify' cannot be used together\n", seeHelp("images")));
    }
    auto repository = openRepository(context, arguments, image::RepositoryAccess::read);
    const auto images = repository.list();
    image::removeAbandonedImports(repository.paths(), context.config().tempDir);
    if (arguments.has("verify")) {
        const auto report = image::verifyImages(repository.paths(), images);
        writeAll(standardOutput, report.text, "standard output");
        return report.allIntact ? 0 : 1;
    }
    writeAll(standardOutput,
             arguments.has("json") ? image::formatImageJson(repository.paths(), images)
                                   : image::formatImageTable(images, arguments.has("digests")),
             "standard output");
    return 0;
}

}  // namespace

Command imagesCommand() {
    return {.name = "images",
            .usage = "sarus images [OPTIONS]",
            .description = "List images",
            .note = {},
            .options = {centralizedRepositoryOption(),
                        {.longName = "digests", .help = "Show digests"},
                        jsonOption(),
                        {.longName = "verify",
                         .help = "Read all images and compare them with the digests recorded when they were stored"}},
            .minPositionals = 0,
            .maxPositionals = 0,
            .run = run};
}

}  // namespace sarus::cli
