#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/columns.hpp"
#include "base/config_files.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/edf.hpp"
#include "cli/edf_access.hpp"
#include "cli/starter_call.hpp"
#include "oci/json/json_writer.hpp"

namespace sarus::cli {

namespace {

/// Keys without a value are null. Variables stay unexpanded.
std::string asJson(const EdfFile& edf) {
    oci::JsonWriter json;
    json.beginObject();
    for (const auto& [key, value] : {std::pair{"image", &edf.image}, {"workdir", &edf.workdir}}) {
        *value ? json.member(key, (*value)->text) : json.key(key).raw("null");
    }
    for (const auto& [key, value] : {std::pair{"entrypoint", edf.entrypoint}, {"writable", edf.writable}}) {
        json.key(key).raw(!value ? "null" : *value ? "true" : "false");
    }
    for (const auto& [key, values] : {std::pair{"mounts", &edf.mounts}, {"devices", &edf.devices}}) {
        json.key(key).beginArray();
        for (const auto& value : *values) {
            json.value(value.text);
        }
        json.endArray();
    }
    for (const auto& [key, values] : {std::pair{"env", &edf.env}, {"annotations", &edf.annotations}}) {
        json.key(key).beginObject();
        for (const auto& [name, value] : *values) {
            json.member(name, value.text);
        }
        json.endObject();
    }
    return json.endObject().text();
}

/// The whole definition as one file: what the user sees now is what runs later on another node.
int show(Context& context, const std::vector<std::string>& words, bool json) {
    auto definition = readEdf(context, words[1]);
    if (words.size() == 3) {
        definition = inheritFrom(std::move(definition), parseEdf(words[2], "the options"));
    }
    if (!definition.image) {
        throw Error(cat("The environment definition '", printable(words[1]), "' names no image"),
                    "Add the key 'image' to it, or name an image on the command line");
    }
    if (json) {
        printLine(asJson(definition));
        return 0;
    }
    const auto text = tomlText(definition);
    if (text.size() > maxEdfSize) {
        throw Error(cat("The environment definition '", printable(words[1]),
                        "', together with what it inherits, is larger than ", formatSize(maxEdfSize)));
    }
    writeAll(STDOUT_FILENO, text, "standard output");
    return 0;
}

/// Reads a definition as `run` does, without an image. Returns the unknown keys, which `run` ignores.
std::vector<std::string> check(Context& context, const std::string& name) {
    const auto definition = loadDefinition(context, name);
    if (!edfImage(definition, hostVariable)) {
        throw Error(cat("The environment definition '", printable(name), "' names no image"));
    }
    engine::LaunchRequest request;
    applyEdf(definition, hostVariable, findWorkingDirectory(), request);
    return definition.warnings;
}

/// An unknown key is a mistake here: the user asks for mistakes, and it is most likely a misspelt one.
int validate(Context& context, const std::vector<std::string>& names) {
    int status = 0;
    for (const auto& name : names) {
        try {
            const auto unknownKeys = check(context, name);
            for (const auto& line : unknownKeys) {
                printError(line);
                status = 1;
            }
            if (unknownKeys.empty()) {
                printLine(cat(printable(name), ": valid"));
            }
        } catch (const Error& error) {
            printError(error);
            status = 1;
        }
    }
    return status;
}

/// Each name once, in the order of the search path: a later file of a name is never read.
int list(Context& context, bool json) {
    std::vector<std::string> seen;
    oci::JsonWriter array;
    array.beginArray();
    std::vector<std::vector<std::string>> rows{{"NAME", "FILE"}};
    for (const auto& directory : edfSearchPath(hostVariable, context.config().edfSystemSearchPath)) {
        const UniqueFd opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!opened) {
            continue;  // most users have no directory of their own
        }
        for (const auto& file : listFiles(opened.get(), directory, {".toml"})) {
            const auto name = file.substr(file.rfind('/') + 1, file.size() - file.rfind('/') - 6);
            if (std::find(seen.begin(), seen.end(), name) == seen.end()) {
                seen.push_back(name);
                array.beginObject().member("name", name).member("file", file).endObject();
                rows.push_back({printable(name), printable(file)});
            }
        }
    }
    constexpr std::size_t gap = 3;
    writeAll(STDOUT_FILENO,
             json ? cat(array.endArray().text(), '\n')
                  : formatColumns(std::move(rows), gap, 0, terminalWidth(STDOUT_FILENO)),
             "standard output");
    return 0;
}

int runEdf(Context& context, const Arguments& arguments) {
    const auto& words = arguments.positionals();
    const bool json = arguments.has("json");
    if (words[0] == "list" && words.size() == 1) {
        return list(context, json);
    }
    if (words[0] == "validate" && words.size() > 1 && !json) {
        return validate(context, {words.begin() + 1, words.end()});
    }
    if (words[0] == "show" && (words.size() == 2 || words.size() == 3)) {
        return show(context, words, json);
    }
    throw usageError("Expected 'list', 'validate FILE|NAME...' or 'show FILE|NAME [TOML]'", "edf");
}

}  // namespace

Subcommand edfCommand() {
    return {.name = "edf",
            .usage = "sarus edf list|validate|show [--json] [FILE|NAME...]",
            .description = "List, check or print environment definition files",
            .note =
                "      sarus edf list                     the definitions that can be named\n"
                "      sarus edf validate FILE|NAME...    look for mistakes\n"
                "      sarus edf show FILE|NAME [TOML]    print it and what it inherits as one file,\n"
                "                                         with the keys of TOML over it",
            .options = {jsonOption()},
            .minPositionals = 1,
            .maxPositionals = anyNumber,
            .acceptsOptions = false,
            .completions = {Completion::definitions},
            .run = runEdf};
}

}  // namespace sarus::cli
