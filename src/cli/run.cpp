#include <fcntl.h>

#include <climits>
#include <cstdlib>
#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/context.hpp"
#include "cli/edf.hpp"
#include "cli/launch_channel.hpp"
#include "cli/run_request.hpp"
#include "cli/slurm.hpp"
#include "cli/ssh.hpp"
#include "cli/starter_call.hpp"
#include "engine/cdi.hpp"
#include "engine/environment.hpp"
#include "engine/launch_request.hpp"
#include "image/image_file.hpp"
#include "image/lookup.hpp"
#include "image/reference.hpp"

namespace sarus::cli {

namespace {

bool parsePid(const Arguments& arguments) {
    const auto value = arguments.value("pid");
    if (arguments.has("pid") && value != "host" && value != "private") {
        throw Error(cat("Incorrect value provided for --pid option: '", printable(value),
                        "'. Supported values: 'host', 'private'.\n", seeHelp("run")));
    }
    if (arguments.has("ssh") && value == "host") {
        throw Error(
            "The use of '--ssh' is incompatible with '--pid=host'. The SSH hook requires the use of a private PID namespace");
    }
    return value == "private" || arguments.has("ssh");
}

engine::LaunchRequest readOptions(const Arguments& arguments) {
    auto request = commonRequest(arguments);
    if (arguments.has("entrypoint")) {
        request.entrypoint = splitWords(arguments.value("entrypoint"));
    }
    request.mounts = arguments.values("mount");
    request.devices = arguments.values("device");
    request.annotations = arguments.values("annotation");
    const auto optional = [&](std::string_view option) {
        return arguments.has(option) ? std::optional(arguments.value(option)) : std::nullopt;
    };
    request.name = optional("name");
    request.mpiType = optional("mpi-type");
    request.mpi = arguments.has("mpi") || request.mpiType;
    request.glibc = arguments.has("glibc");
    request.ssh = arguments.has("ssh");
    request.init = arguments.has("init");
    request.dryRun = arguments.has("dry-run");
    request.json = arguments.has("json");
    if (request.json && !request.dryRun) {
        throw Error(cat("The option '--json' needs '--dry-run': a container prints what its command prints\n", seeHelp("run")));
    }
    request.readonlyRoot = arguments.has("read-only");
    request.privatePid = parsePid(arguments);
    checkOptions(request, "run");
    return request;
}

std::optional<std::string> hostVariable(const std::string& name) {
    const char* value = ::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::optional<EdfFile> readDefinition(Context& context, const Arguments& arguments) {
    if (!arguments.has("edf")) {
        return std::nullopt;
    }
    auto definition =
        loadEdf(arguments.value("edf"), edfSearchPath(hostVariable, context.config().edfSystemSearchPath), hostVariable);
    for (const auto& warning : definition.warnings) {
        logWarn("CLI", warning);
    }
    return definition;
}

/// The image comes from the environment definition, or else is the first word; the rest is the command. Where the image is no
/// word, "--" separates options from a command that begins with a dash.
std::string takeImage(const std::optional<EdfFile>& definition, std::vector<std::string>& words) {
    if (const auto image = definition ? edfImage(*definition, hostVariable) : std::nullopt) {
        if (!words.empty() && words.front() == "--") {
            words.erase(words.begin());
        }
        return *image;
    }
    if (words.empty()) {
        throw Error("Neither the environment definition nor the command line names an image");
    }
    auto image = std::move(words.front());
    words.erase(words.begin());
    return image;
}

std::string workingDirectory() {
    std::string path(PATH_MAX, '\0');
    if (::getcwd(path.data(), path.size()) == nullptr) {
        throwErrno("Failed to find out the working directory");
    }
    path.resize(path.find('\0'));
    return path;
}

/// Variables of the definition mean those of the image first, then those of the caller.
void applyDefinition(const EdfFile& definition, engine::LaunchRequest& request) {
    const auto image = engine::parseEnvironment(request.metadata.env);
    const auto lookup = [&](const std::string& name) {
        const auto found = image.find(name);
        return found == image.end() ? hostVariable(name) : std::optional(found->second);
    };
    applyEdf(definition, lookup, workingDirectory(), request);
}

/// Opens the image with the caller's rights: the descriptor is all that the starter gets to see of it.
UniqueFd openImage(Context& context, const std::string& image, bool centralized,
                   const std::optional<image::ImageReference>& reference, engine::LaunchRequest& request) {
    if (!reference) {
        if (centralized) {
            throw Error(cat("The option '--centralized-repository' has no meaning for the file ", printable(image), "\n",
                            seeHelp("run")));
        }
        request.imagePath = image;
        request.imageReference = image;
        return image::openImageFile(image);
    }
    auto found = image::findImage(context.repositoryDirectory(centralized), *reference);
    request.imagePath = found.path;
    request.imageReference = found.reference.full();
    request.metadata = std::move(found.metadata);
    return std::move(found.file);
}

int run(Context& context, const Arguments& arguments) {
    const auto request = makeRunRequest(context, arguments);
    if (request.launch.ssh) {
        checkSshKeys(context);
    }
    checkErrno(::fcntl(request.image.get(), F_SETFD, 0), "Failed to hand over the image");
    const auto channel = writeRequest(request.launch);
    logInfo("CLI", cat("Image ", printable(request.launch.imageReference), " is in ", printable(request.launch.imagePath)));
    execStarter(context, {cat(channel.get())});
}

}  // namespace

RunRequest makeRunRequest(Context& context, const Arguments& arguments) {
    const auto definition = readDefinition(context, arguments);
    auto words = arguments.positionals();
    const auto name = takeImage(definition, words);
    const auto reference = image::isImageFile(name) ? std::nullopt : std::optional(image::parseReference(name).normalized());
    RunRequest request{.launch = readOptions(arguments), .image = {}};
    request.launch.command = std::move(words);
    request.image = openImage(context, name, arguments.has("centralized-repository"), reference, request.launch);
    request.launch.imageFd = request.image.get();
    if (context.config().enablePmixV3Support) {
        request.launch.workloadDirectories = findSlurmPmixDirectories();
    }
    if (definition) {
        applyDefinition(*definition, request.launch);
    }
    return request;
}

Command runCommand() {
    return {
        .name = "run",
        .usage = "sarus run [OPTIONS] REPOSITORY[:TAG] [COMMAND] [ARG...]",
        .description = "Run a command in a new container",
        .note = "Note: REPOSITORY[:TAG] has to be specified as\n      displayed by the \"sarus images\" command.",
        .options =
            {
                {.longName = "annotation",
                 .takesValue = true,
                 .repeatable = true,
                 .help = "Add an OCI annotation to the container"},
                {.longName = "centralized-repository", .help = "Use centralized repository instead of the local one"},
                {.longName = "device",
                 .takesValue = true,
                 .repeatable = true,
                 .help = "Mount custom devices into the container: paths, or CDI devices (vendor.com/class=name)"},
                {.longName = "dry-run", .help = "Print what the container would have, and why; start nothing"},
                {.longName = "edf",
                 .takesValue = true,
                 .help = "Take image and options from an environment definition file (also: '--environment')",
                 .aliases = {"environment"}},
                {.longName = "entrypoint", .takesValue = true, .help = "Overwrite the default ENTRYPOINT of the image"},
                environmentOption(),
                environmentFileOption(),
                {.longName = "glibc", .help = "Enable replacement of the container's GNU C libraries"},
                {.longName = "init",
                 .help = "Run an init process inside the container that forwards signals and reaps processes"},
                {.longName = "json", .help = "With '--dry-run': print JSON, for programs"},
                {.longName = "mount",
                 .takesValue = true,
                 .repeatable = true,
                 .help = "Mount custom directories into the container"},
                {.longName = "mpi", .shortName = 'm', .help = "Enable MPI support. Implies '--glibc'"},
                {.longName = "mpi-type", .takesValue = true, .help = "Enable MPI support for a specific MPI implementation"},
                {.longName = "name", .shortName = 'n', .takesValue = true, .help = "Assign a name to the container"},
                {.longName = "pid",
                 .takesValue = true,
                 .help = "Set the PID namespace mode for the container. Supported values: 'host', 'private'. Default: 'host'"},
                {.longName = "read-only", .help = "Make the root filesystem of the container read-only"},
                {.longName = "ssh", .help = "Enable SSH in the container. Implies '--pid=private'"},
                terminalOption(),
                workdirOption(),
            },
        .minPositionals = 1,
        .maxPositionals = anyNumber,
        .optionForPositionals = "edf",
        .run = run};
}

}  // namespace sarus::cli
