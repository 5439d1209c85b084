#include "base/file_io.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/repository_access.hpp"
#include "image/import_session.hpp"
#include "image/listing.hpp"

namespace sarus::cli {

namespace {

constexpr int standardOutput = 1;

int run(Context& context, const Arguments& arguments) {
    auto repository = openRepository(context, arguments, image::RepositoryAccess::read);
    const auto images = repository.list();
    image::removeAbandonedImports(repository.paths(), context.config().tempDir);
    if (arguments.has("verify")) {
        const auto report = image::verifyImages(repository.paths(), images);
        writeAll(standardOutput, report.text, "standard output");
        return report.allIntact ? 0 : 1;
    }
    writeAll(standardOutput, image::formatImageTable(images, arguments.has("digests")), "standard output");
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
                        {.longName = "verify",
                         .help = "Read all images and compare them with the digests recorded when they were stored"}},
            .minPositionals = 0,
            .maxPositionals = 0,
            .run = run};
}

}  // namespace sarus::cli
