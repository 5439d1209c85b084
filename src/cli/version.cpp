#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/starter_call.hpp"
#include "oci/json/json_writer.hpp"

namespace sarus::cli {

namespace {

/// The build tells names and versions of libraries as "NAME=VERSION NAME=VERSION".
std::string asJson() {
    oci::JsonWriter json;
    json.beginObject().member("version", SARUS_VERSION).member("commit", SARUS_COMMIT);
    json.member("compiler", SARUS_COMPILER).member("buildType", SARUS_BUILD_TYPE);
    json.key("libraries").beginObject();
    for (const auto& library : splitWords(SARUS_LIBRARIES)) {
        const auto equal = library.find('=');
        json.member(library.substr(0, equal), library.substr(equal + 1));
    }
    return json.endObject().endObject().text();
}

int runVersion(Context&, const Arguments& arguments) {
    printLine(arguments.has("json") ? asJson() : SARUS_VERSION);
    return 0;
}

}  // namespace

Subcommand versionCommand() {
    return {.name = "version",
            .usage = "sarus version",
            .description = "Show the Sarus version information",
            .options = {jsonOption()},
            .acceptsOptions = false,
            .run = runVersion};
}

}  // namespace sarus::cli
