#include "cli/run_request.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/log.hpp"
#include "base/path_in_root.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "cli/broadcast.hpp"
#include "cli/command_line.hpp"
#include "cli/context.hpp"
#include "cli/edf.hpp"
#include "cli/mount_options.hpp"
#include "cli/repository_access.hpp"
#include "cli/run_options.hpp"
#include "cli/slurm.hpp"
#include "cli/stored_images.hpp"
#include "engine/launch_request.hpp"
#include "image/store/image_file.hpp"
#include "image/store/repository_paths.hpp"
#include "image/store/usage.hpp"
#include "image/types/reference.hpp"
#include "squashfs/identity.hpp"

namespace sarus::cli {

namespace {

/// The image comes from the environment definition, otherwise from the first word. The other words are the
/// command. If no word is the image, "--" separates options from a command that begins with a dash.
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

/// In other engines, two options take a word that this engine takes for the image.
void checkImageWord(Context& context, const Arguments& arguments, const std::string& name) {
    const auto isSize = name.size() > 1 && parseNumber(std::string_view(name).substr(0, name.size() - 1)) &&
                        std::string_view("bkmgBKMG").find(name.back()) != std::string_view::npos;
    if (arguments.has("mpi") && isSize) {
        const auto reference =
            referenceArgument(cat(name.substr(0, name.size() - 1), static_cast<char>(name.back() | 0x20)),
                              "run")
                .normalized();
        const image::RepositoryPaths paths{
            context.repositoryDirectory(arguments.has("centralized-repository"))};
        if (!pathExists(paths.squashfs(reference))) {
            throw usageError(cat("'", name, "' is no image: the option '-m' is '--mpi' here"), "run")
                .addUsage(
                    "The limits of the job hold for its containers: ask the workload manager (srun --mem)");
        }
    }
    if (image::isImageFile(name) && arguments.has("home") && arguments.value("home").empty() &&
        isDirectory(name)) {
        throw usageError(cat(printable(name), " is a directory and no image"), "run")
            .addUsage(cat("To mount it as home directory, write --home=", printable(name)));
    }
}

/// The value of --pull; "never" without the option.
std::string pullPolicy(const Arguments& arguments) {
    auto policy = arguments.has("pull") ? arguments.value("pull") : "never";
    policy = policy == "newer" ? "always" : policy == "ifnotpresent" ? "missing" : policy;  // as Podman says
    if (policy != "always" && policy != "missing" && policy != "never") {
        throw usageError(cat("Incorrect value provided for --pull option: '", printable(policy),
                             "'. Supported values: 'always', 'missing', 'never'."),
                         "run");
    }
    return policy;
}

/// Runs `sarus pull` as a program of its own: it has another umask and handles signals, and its output must
/// not be mixed with the container's.
void pullBefore(Context& context, const Arguments& arguments, const std::string& image,
                const std::string& policy) {
    Command pull{.path = cat(context.prefix(), "/bin/sarus"),
                 .args = {"sarus", "pull", "--quiet"},
                 .stdinFd = STDIN_FILENO,
                 .stdoutFd = STDERR_FILENO};
    if (policy == "missing") {
        pull.args.emplace_back("--missing");
    }
    if (arguments.has("centralized-repository")) {
        pull.args.emplace_back("--centralized-repository");
    }
    pull.args.push_back(image);
    if (const auto status = start(pull).wait(); !status.ok()) {
        throw Error(cat("Failed to get the image ", printable(image), " (--pull=", policy, ")"))
            .setExitStatus(status.shellStatus());
    }
}

/// Records for `sarus prune` when an image of the user's was used. Of a job step, only the first task does.
void noteUse(const image::FoundImage& image) {
    const auto job = findSlurmJob();
    if (!job || job->isFirstTask) {
        image::recordUse(image.path);
    }
}

// Images are opened with the caller's rights. The starter gets only the descriptor.

UniqueFd openGivenFile(const Arguments& arguments, const std::string& path, engine::LaunchRequest& request) {
    for (const auto* const option : {"bcast", "centralized-repository"}) {
        if (arguments.has(option)) {
            throw usageError(
                cat("The option '--", option, "' cannot be used with the file ", printable(path)), "run");
        }
    }
    request.imagePath = path;
    request.imageReference = path;
    auto file = image::openImageFile(path);
    request.metadata = image::metadataOfImageFile(path, file.get());
    return file;
}

UniqueFd openFromRepository(Context& context, const Arguments& arguments,
                            const image::ImageReference& reference, MayBroadcast mayBroadcast,
                            engine::LaunchRequest& request) {
    auto found = findStoredImage(context, arguments, reference);
    if (!request.dryRun && !arguments.has("centralized-repository")) {
        noteUse(found);
    }
    // A rule for the stored file does not hold for a user's copy.
    if (context.config().imagePolicy.isEmpty()) {
        useLocalCopy(context, arguments, mayBroadcast, found);
    } else if (arguments.has("bcast")) {
        logWarn("CLI", "The option '--bcast' has no effect: this site has rules for images (`imagePolicy`)");
    }
    if (found.info) {
        request.imageDigest = found.info->squashfsDigest;
    }
    request.imagePath = found.path;
    request.imageReference = found.reference.full();
    request.metadata = std::move(found.metadata);
    return std::move(found.file);
}

UniqueFd openImage(Context& context, const Arguments& arguments, const std::string& name,
                   const std::optional<image::ImageReference>& reference, MayBroadcast mayBroadcast,
                   engine::LaunchRequest& request) {
    return reference ? openFromRepository(context, arguments, *reference, mayBroadcast, request)
                     : openGivenFile(arguments, name, request);
}

/// Empty for a file.
std::optional<image::ImageReference> referenceOf(const std::string& name) {
    return image::isImageFile(name) ? std::nullopt
                                    : std::optional(referenceArgument(name, "run").normalized());
}

bool hasVariable(const EdfText& value) {
    return value.text.find('$') != std::string::npos;
}

/// What the variables of another node cannot change.
EdfFile withoutVariables(EdfFile definition) {
    std::erase_if(definition.mounts, hasVariable);
    std::erase_if(definition.devices, hasVariable);
    std::erase_if(definition.annotations,
                  [](const auto& annotation) { return hasVariable(annotation.second); });
    definition.env.clear();
    if (definition.workdir && hasVariable(*definition.workdir)) {
        definition.workdir.reset();
    }
    return definition;
}

/// "--" in front of the command. An entrypoint gets it, as every word.
void dropTwoDashes(engine::LaunchRequest& request) {
    const auto& entrypoint = request.entrypoint ? *request.entrypoint : request.metadata.entrypoint;
    if (entrypoint.empty() && !request.command.empty() && request.command.front() == "--") {
        request.command.erase(request.command.begin());
    }
}

/// Whether the file can be seen from here if it is anywhere: homes and what jobs are submitted from are on
/// all nodes, other places may be a node's own.
bool isOnAllNodes(const std::string& path) {
    constexpr std::array<std::string_view, 3> local{"/tmp", "/var/tmp", "/dev/shm"};
    const auto place = normalizePath(path);
    const auto isBelow = [&](std::string_view directory) {
        return directory.size() > 1 && directory.starts_with('/') &&
               isSameOrBelow(place, normalizePath(directory));
    };
    return std::none_of(local.begin(), local.end(), isBelow) &&
           (isBelow(workingDirectory()) || isBelow(hostVariable("HOME").value_or("")));
}

}  // namespace

RunRequest makeRunRequest(Context& context, const Arguments& arguments, MayBroadcast mayBroadcast) {
    const auto definition = readDefinition(context, arguments);
    auto words = arguments.positionals();
    const auto name = takeImage(definition, words);
    checkImageWord(context, arguments, name);
    const auto reference = referenceOf(name);
    RunRequest request{.launch = readRunOptions(context.config(), arguments), .image = {}};
    const auto policy = pullPolicy(arguments);
    if (reference && mayBroadcast == MayBroadcast::yes && policy != "never") {
        pullBefore(context, arguments, name, policy);
    }
    if (arguments.has(startShell)) {
        words.insert(
            words.begin(),
            {"/bin/sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash \"$@\"; exec sh \"$@\"", "sh"});
    }
    request.launch.command = std::move(words);
    request.image = openImage(context, arguments, name, reference, mayBroadcast, request.launch);
    request.launch.imageFd = request.image.get();
    if (request.launch.name) {
        request.launch.imageContent =
            squashfs::contentOf(request.image.get(), printable(request.launch.imagePath));
    }
    if (context.config().enablePmixV3Support.value_or(true)) {
        request.launch.workloadDirectories = findSlurmPmixDirectories();
    }
    if (definition) {
        applyDefinition(*definition, request.launch);
    }
    applySshAnnotation(arguments, request.launch);
    dropTwoDashes(request.launch);
    return request;
}

void checkForLater(Context& context, const Arguments& arguments) {
    const auto definition = readDefinition(context, arguments);
    auto request = readRunOptions(context.config(), arguments);
    if (definition) {
        applyDefinition(withoutVariables(*definition), request);
    }
    if (definition && definition->image && hasVariable(*definition->image)) {
        return;  // a variable of the node
    }
    auto words = arguments.positionals();
    const auto name = takeImage(definition, words);
    if (!image::isImageFile(name)) {
        referenceOf(name);
    } else if (pathExists(name) || isOnAllNodes(name)) {
        openGivenFile(arguments, name, request);
    }
}

void identifyImage(Context& context, const Arguments& arguments, const std::string& name,
                   engine::LaunchRequest& request) {
    const auto reference = referenceOf(name);
    request.imageReference = reference ? reference->full() : name;
    try {
        const auto file = openImage(context, arguments, name, reference, MayBroadcast::no, request);
        request.imageContent = squashfs::contentOf(file.get(), printable(name));
    } catch (const Error& error) {
        logInfo("CLI", error.what());
    }
}

}  // namespace sarus::cli
