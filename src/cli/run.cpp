#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/path_in_root.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "cli/broadcast.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/container_options.hpp"
#include "cli/context.hpp"
#include "cli/edf.hpp"
#include "cli/edf_access.hpp"
#include "cli/help_text.hpp"
#include "cli/mount_options.hpp"
#include "cli/repository_access.hpp"
#include "cli/run_request.hpp"
#include "cli/slurm.hpp"
#include "cli/ssh.hpp"
#include "cli/starter_call.hpp"
#include "cli/stored_images.hpp"
#include "engine/cdi.hpp"
#include "engine/container_settings.hpp"
#include "engine/environment.hpp"
#include "engine/launch_request.hpp"
#include "engine/mount_rules.hpp"
#include "engine/run_options.hpp"
#include "image/store/image_file.hpp"
#include "image/store/repository_paths.hpp"
#include "image/store/usage.hpp"
#include "image/types/reference.hpp"
#include "oci/runtime/device_request.hpp"
#include "oci/runtime/mount_request.hpp"
#include "squashfs/identity.hpp"

namespace sarus::cli {

namespace {

constexpr const char* sshNeedsPrivatePid =
    "The use of '--ssh' is incompatible with '--pid=host'. The SSH hook requires the use of a private PID "
    "namespace";

/// Set by `sarus shell`: the words behind the image are those of a shell.
constexpr std::string_view startShell = "start-shell";

/// What --cleanenv leaves; '_' at the end: all variables that begin so.
constexpr std::array<std::string_view, 10> keptVariables{"HOME",
                                                         "USER",
                                                         "LOGNAME",
                                                         "TERM",
                                                         "XDG_RUNTIME_DIR",
                                                         "PMI_",
                                                         "PMIX_",
                                                         "SLURM_",
                                                         "CUDA_VISIBLE_DEVICES",
                                                         "ROCR_VISIBLE_DEVICES"};

/// Whether the container has a namespace of its own, because of the option's other value than "host".
bool isOwn(const Arguments& arguments, std::string_view option, std::string_view own = "private") {
    const auto value = arguments.value(option);
    if (arguments.has(option) && value != "host" && value != own) {
        throw usageError(cat("Incorrect value provided for --", option, " option: '", printable(value),
                             "'. Supported values: 'host', '", own, "'."),
                         "run");
    }
    return value == own;
}

/// For a container with SSH.
void checkSsh(const Arguments& arguments) {
    if (arguments.value("pid") == "host") {
        throw Error(sshNeedsPrivatePid);
    }
    if (arguments.value("network") == "none") {
        throw Error(
            "The option '--ssh' needs the network of the node: it cannot be used with "
            "'--network=none'");
    }
}

bool parsePid(const Arguments& arguments) {
    const bool isPrivate = isOwn(arguments, "pid");
    if (arguments.has("ssh")) {
        checkSsh(arguments);
    }
    return isPrivate || arguments.has("ssh");
}

/// The checks that need no file: a typing error is reported before anything is looked up.
void checkOptions(const engine::LaunchRequest& request) {
    for (const auto& annotation : request.annotations) {
        engine::parseAnnotation(annotation);
    }
    for (const auto& device : request.devices) {
        if (!engine::isCdiRequest(device)) {
            oci::parseDeviceRequest(device);
        }
    }
    if (request.mpiType) {
        engine::checkMpiType(*request.mpiType);
    }
    if (request.name) {
        engine::checkContainerName(*request.name);
    }
}

/// How many GPUs the job has; 0 if nothing says so.
std::size_t numberOfVisibleGpus() {
    const auto visible = hostVariable("CUDA_VISIBLE_DEVICES").value_or("");
    return visible.empty() || visible == "NoDevFiles" ? 0 : split(visible, ',').size();
}

/// `--gpus`, `--nv` and `--rocm` name CDI devices. A number of GPUs means all of the job if it has so many,
/// and outside of a job the first ones.
std::vector<std::string> deviceRequests(const Arguments& arguments) {
    auto requests = arguments.values("device");
    constexpr std::string_view nvidia = "nvidia.com/gpu=";
    if (arguments.has("nv")) {
        requests.push_back(cat(nvidia, "all"));
    }
    if (arguments.has("rocm")) {
        requests.emplace_back("amd.com/gpu=all");
    }
    constexpr std::string_view list = "device=";
    constexpr std::uint64_t mostGpus = 64;
    auto gpus = arguments.value("gpus");
    if (gpus.size() > 2 && gpus.starts_with('"') && gpus.ends_with('"')) {
        gpus = gpus.substr(1, gpus.size() - 2);  // Docker needs the quotes around a list
    }
    const auto count = parseNumber(gpus);
    if (gpus == "all" || (count && *count > 0 && *count == numberOfVisibleGpus())) {
        requests.push_back(cat(nvidia, "all"));
    } else if (count && *count > 0 && *count <= mostGpus && numberOfVisibleGpus() == 0) {
        for (std::uint64_t i = 0; i < *count; ++i) {
            requests.push_back(cat(nvidia, i));
        }
    } else if (gpus.starts_with(list) && gpus.size() > list.size()) {
        for (const auto& name : split(std::string_view(gpus).substr(list.size()), ',')) {
            requests.push_back(cat(nvidia, name));
        }
    } else if (arguments.has("gpus")) {
        auto error = usageError(
            cat("Invalid value '", printable(gpus), "' of --gpus: expected 'all', a number or 'device=0,1'"),
            "run");
        throw count ? error.addUsage(cat("CUDA_VISIBLE_DEVICES names ", numberOfVisibleGpus(), " GPUs"))
                    : error;
    }
    return requests;
}

/// Of the caller's environment, the container gets what a job and its session need.
void cleanEnvironment(engine::LaunchRequest& request) {
    for (auto& variable : request.env) {
        if (variable.find('=') == std::string::npos) {
            if (const auto value = hostVariable(variable)) {
                variable += cat('=', *value);
            }
        }
    }
    std::erase_if(request.hostEnvironment, [](const std::string& entry) {
        const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
        return std::none_of(keptVariables.begin(), keptVariables.end(), [&](std::string_view kept) {
            return kept.ends_with('_') ? name.starts_with(kept) : name == kept;
        });
    });
}

/// Directories of an operating system: the host's must not cover the image's.
bool isOfTheSystem(std::string_view directory) {
    constexpr std::array<std::string_view, 9> all{"/usr",    "/etc", "/lib",  "/lib32", "/lib64",
                                                  "/libx32", "/bin", "/sbin", "/dev"};
    return std::any_of(all.begin(), all.end(),
                       [&](std::string_view one) { return isSameOrBelow(directory, one); });
}

/// The mounts that the site wants in all containers of people who have such directories. They come first: any
/// other mount may cover them. Nobody has asked for them here, so one that is not possible is left out.
std::vector<oci::MountRequest> siteDefaults(const engine::SiteConfig& config, const Arguments& arguments) {
    std::vector<oci::MountRequest> requests;
    if (!config.allowMount) {
        return requests;
    }
    const auto add = [&](bool wanted, const std::string& directory) {
        if (wanted && directory.size() > 1 && directory.starts_with('/') && isDirectory(directory) &&
            !engine::whyNotMountable(config.userMounts, directory) &&
            !isOfTheSystem(normalizePath(directory))) {
            requests.push_back(oci::mountInPlace(directory));
        }
    };
    add(config.mountHome && !arguments.has("home"), hostVariable("HOME").value_or(""));
    add(config.mountWorkingDirectory && !arguments.has("cwd"), findWorkingDirectory());
    return requests;
}

engine::LaunchRequest readOptions(const engine::SiteConfig& config, const Arguments& arguments) {
    auto request = readCommonOptions<engine::LaunchRequest>(arguments, "run");
    if (arguments.has("entrypoint")) {
        request.entrypoint = splitWords(arguments.value("entrypoint"));
    }
    if (!arguments.has("join")) {
        request.mounts = siteDefaults(config, arguments);
    }
    for (auto& mount : mountRequests(arguments)) {
        request.mounts.push_back(std::move(mount));
    }
    if (const auto home = otherHome(arguments)) {
        request.env.insert(request.env.begin(), cat("HOME=", home->destination));
    }
    if (arguments.has("cwd") && !request.workdir) {
        request.workdir = workingDirectory();
    }
    request.devices = deviceRequests(arguments);
    if (arguments.has("cleanenv")) {
        cleanEnvironment(request);
    }
    request.annotations = arguments.values("annotation");
    const auto optional = [&](std::string_view option) {
        return arguments.has(option) ? std::optional(arguments.value(option)) : std::nullopt;
    };
    request.name = optional("name");
    request.keep = arguments.has("keep");
    request.hold = arguments.has("hold");
    if (request.keep && !request.name) {
        throw usageError("The option '--keep' needs a name for the container: --name=NAME", "run");
    }
    request.mpiType = optional("mpi-type");
    request.mpi = arguments.has("mpi") || request.mpiType;
    request.glibc = arguments.has("glibc");
    request.ssh = arguments.has("ssh");
    request.init = arguments.has("init");
    request.dryRun = arguments.has("dry-run");
    request.json = arguments.has("json");
    if (request.json && !request.dryRun) {
        throw usageError("The option '--json' requires '--dry-run'", "run");
    }
    request.readonlyRoot = arguments.has("read-only");
    request.remapRoot = arguments.has("remap-root");
    request.privatePid = parsePid(arguments);
    request.privateNetwork = isOwn(arguments, "network", "none");
    request.privateIpc = isOwn(arguments, "ipc");
    request.privateUts = isOwn(arguments, "uts");
    checkOptions(request);
    return request;
}

std::optional<EdfFile> readDefinition(Context& context, const Arguments& arguments) {
    return arguments.has("edf") ? std::optional(readEdf(context, arguments.value("edf"))) : std::nullopt;
}

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

/// The variables of a definition come from the image first, then from the caller.
void applyDefinition(const EdfFile& definition, engine::LaunchRequest& request) {
    const auto image = engine::parseEnvironment(request.metadata.env);
    const auto lookup = [&](const std::string& name) {
        const auto found = image.find(name);
        return found == image.end() ? hostVariable(name) : std::optional(found->second);
    };
    const bool entrypointIsOpen = !definition.entrypoint && !request.entrypoint;
    applyEdf(definition, lookup, findWorkingDirectory(), request);
    if (entrypointIsOpen && request.command.empty()) {
        // The user typed no command: the image says what runs, as without a definition.
        request.entrypoint.reset();
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

/// An annotation of the command line or of the definition that enables the SSH hook means the same as --ssh.
void applySshAnnotation(const Arguments& arguments, engine::LaunchRequest& request) {
    for (const auto& text : request.annotations) {
        const auto [key, value] = engine::parseAnnotation(text);
        request.ssh = request.ssh || (key == "com.hooks.ssh.enabled" && value == "true");
    }
    if (request.ssh) {
        checkSsh(arguments);
    }
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

/// What can be said of a command line before its job has a node.
void checkForLater(Context& context, const Arguments& arguments) {
    const auto definition = readDefinition(context, arguments);
    auto request = readOptions(context.config(), arguments);
    if (definition && definition->image && definition->image->text.find('$') != std::string::npos) {
        return;  // a variable of the node
    }
    auto words = arguments.positionals();
    const auto name = takeImage(definition, words);
    if (!image::isImageFile(name)) {
        image::parseReference(name).normalized();
    } else if (pathExists(name) || isOnAllNodes(name)) {
        openGivenFile(arguments, name, request);
    }
}

/// Finds what identifies the image. One that is not here may be that of the container all the same.
void identifyImage(Context& context, const Arguments& arguments, const std::string& name,
                   engine::LaunchRequest& request) {
    const bool isFile = image::isImageFile(name);
    request.imageReference = isFile ? name : referenceArgument(name, "run").normalized().full();
    try {
        const auto file =
            isFile ? openGivenFile(arguments, name, request)
                   : openFromRepository(context, arguments, referenceArgument(name, "run").normalized(),
                                        MayBroadcast::no, request);
        request.imageContent = squashfs::contentOf(file.get(), printable(name));
    } catch (const Error& error) {
        logInfo("CLI", error.what());
    }
}

/// Runs the command in the running container of the name, which must be what the options ask for.
[[noreturn]] void join(Context& context, const Arguments& arguments) {
    const auto definition = readDefinition(context, arguments);
    auto wanted = readOptions(context.config(), arguments);
    wanted.command = arguments.positionals();
    if (wanted.command.front() == "--") {
        wanted.command.erase(wanted.command.begin());
    }
    const auto image =
        (definition ? edfImage(*definition, hostVariable) : std::nullopt).value_or(arguments.value("join"));
    if (!image.empty()) {
        identifyImage(context, arguments, image, wanted);
    }
    if (definition) {
        applyDefinition(*definition, wanted);
    }
    const auto keeper = parseNumber(arguments.value("keeper"));
    if (keeper) {  // the container runs no entrypoint: each command of the step has it in front
        const auto& entrypoint = wanted.entrypoint ? *wanted.entrypoint : wanted.metadata.entrypoint;
        wanted.command.insert(wanted.command.begin(), entrypoint.begin(), entrypoint.end());
    }
    applySshAnnotation(arguments, wanted);
    auto settings = engine::settingsOf(wanted);
    for (const auto& option : arguments.values("join-without")) {
        settings[std::string(option == "read-only" ? engine::readonlyRootSetting
                                                   : engine::remapRootSetting)] = "";
    }
    execStarter(context, engine::ExecRequest{.name = wanted.name.value_or(""),
                                             .command = std::move(wanted.command),
                                             .hostEnvironment = std::move(wanted.hostEnvironment),
                                             .env = std::move(wanted.env),
                                             .workdir = std::move(wanted.workdir),
                                             .tty = wanted.tty,
                                             .ownStep = true,
                                             .keeper = keeper ? static_cast<int>(*keeper) : -1,
                                             .imageReference = std::move(wanted.imageReference),
                                             .imageContent = std::move(wanted.imageContent),
                                             .settings = std::move(settings),
                                             .stackLimit = wanted.stackLimit,
                                             .logLevel = wanted.logLevel});
}

std::vector<Option> runOptions() {
    std::vector<Option> options{
        {.longName = "annotation",
         .takesValue = true,
         .repeatable = true,
         .help = "Add an OCI annotation to the container"},
        {.longName = "bcast", .help = "Copy the image to all nodes of the Slurm job first"},
        {.longName = "centralized-repository",
         .help = "Use the centralized repository instead of the local one"},
        {.longName = "check-for-later",
         .hidden = true,
         .help = "Only check the options, for a job that starts later on another node"},
        {.longName = "cleanenv",
         .help = "Start from a clean environment: of yours, keep only the variables of the job and session"},
        {.longName = "device",
         .takesValue = true,
         .repeatable = true,
         .help = "Mount custom devices into the container: paths, or CDI devices "
                 "(vendor.com/class=name)"},
        {.longName = "dry-run",
         .help = "Show the planned container and the reason for each item without starting it"},
        {.longName = "edf",
         .takesValue = true,
         .help = "Read image and options from an environment definition file (also: '--environment')",
         .aliases = {"environment"},
         .completion = Completion::definitions},
        {.longName = "entrypoint",
         .takesValue = true,
         .help = "Overwrite the default ENTRYPOINT of the image"},
        environmentOption(),
        environmentFileOption(),
        {.longName = "glibc", .help = "Enable replacement of the container's GNU C libraries"},
        {.longName = "gpus",
         .takesValue = true,
         .help = "Add NVIDIA GPUs, the CDI devices nvidia.com/gpu: 'all', a number or 'device=0,1'"},
        {.longName = "hold",
         .hidden = true,
         .help =
             "Do not run the command: hold the container open for '--join' until the standard input ends. "
             "Write a byte to the standard output when it is"},
        {.longName = "init",
         .help = "Run an init process inside the container that forwards signals and reaps processes"},
        {.longName = "ipc",
         .takesValue = true,
         .help = "Set the IPC namespace mode, with /dev/shm: 'host' or 'private'. Default: 'host'"},
        {.longName = "join",
         .takesValue = true,
         .hidden = true,
         .help = "Run the command in the container that runs under the name, if that was started with this "
                 "image ('': any) and these options"},
        {.longName = "join-without",
         .takesValue = true,
         .repeatable = true,
         .hidden = true,
         .help = "With '--join': an option without which it must have been started, 'read-only' or "
                 "'remap-root'"},
        {.longName = "json", .help = "With '--dry-run': print JSON, for programs"},
        {.longName = "keep",
         .help =
             "Keep what the container writes to its root filesystem, on this node, for the next container "
             "with the same '--name'"},
        {.longName = "keeper",
         .takesValue = true,
         .hidden = true,
         .help = "With '--join': the descriptor of a socket to the process that holds the container open"},
        {.longName = "mpi", .shortName = 'm', .help = "Enable MPI support. Implies '--glibc'"},
        {.longName = "mpi-type",
         .takesValue = true,
         .help = "Enable MPI support for a specific MPI implementation"},
        {.longName = "name", .shortName = 'n', .takesValue = true, .help = "Assign a name to the container"},
        {.longName = "network",
         .takesValue = true,
         .help = "Set the network of the container: 'host', or 'none' but a loopback device. Default: 'host'",
         .aliases = {"net"}},
        {.longName = "pid",
         .takesValue = true,
         .help = "Set the PID namespace mode for the container. Supported values: 'host', 'private'. "
                 "Default: 'host'"},
        {.longName = "nv", .hidden = true, .help = "Like '--gpus=all'"},
        {.longName = "pull",
         .takesValue = true,
         .help = "Get the image first: 'always', 'missing' or 'never'. Default: 'never'"},
        {.longName = "rocm", .hidden = true, .help = "Add AMD GPUs, the CDI device amd.com/gpu=all"},
        {.longName = "read-only", .help = "Make the root filesystem of the container read-only"},
        {.longName = "remap-root",
         .help = "Be root in the container, to install packages; on the node, you stay yourself"},
        {.longName = "ssh", .help = "Enable SSH in the container. Implies '--pid=private'"},
        terminalOption(),
        {.longName = "uts",
         .takesValue = true,
         .help = "Set the UTS namespace mode, with the host name: 'host' or 'private'. Default: 'host'"},
        workdirOption(),
    };
    auto mounts = mountOptions();
    options.insert(options.end(), std::make_move_iterator(mounts.begin()),
                   std::make_move_iterator(mounts.end()));
    std::stable_sort(options.begin(), options.end(),
                     [](const Option& a, const Option& b) { return a.longName < b.longName; });
    return options;
}

/// A package manager of the image would fail at its first write.
void warnOfPackages(const std::vector<std::string>& command) {
    constexpr std::array programs{"apt", "apt-get", "yum", "dnf", "apk", "zypper", "sudo"};
    constexpr std::array actions{"install", "update", "upgrade", "add"};
    const auto is = [](const auto& all, std::string_view word) {
        return std::find(all.begin(), all.end(), word) != all.end();
    };
    if (command.size() > 1 && is(programs, fileNameOf(command[0])) &&
        std::any_of(command.begin() + 1, command.end(),
                    [&](const auto& word) { return is(actions, word); })) {
        logWarn("CLI",
                cat(printable(command[0]),
                    " needs root: --remap-root makes you root in the container, and --name=NAME --keep keeps "
                    "what it installs for the next container of that name"));
    }
}

int run(Context& context, const Arguments& arguments) {
    if (arguments.has("check-for-later")) {
        checkForLater(context, arguments);
        return 0;
    }
    if (arguments.has("join")) {
        join(context, arguments);
    }
    const auto request =
        makeRunRequest(context, arguments, arguments.has("dry-run") ? MayBroadcast::no : MayBroadcast::yes);
    if (request.launch.ssh) {
        checkSshKeys(context);
    }
    warnOfLauncher(request.launch);
    if (!request.launch.remapRoot) {
        warnOfPackages(request.launch.command);
    }
    warnOfMissingPmix(request.launch, context.config());
    checkErrno(::fcntl(request.image.get(), F_SETFD, 0), "Failed to hand over the image");
    logInfo("CLI", cat("Image ", printable(request.launch.imageReference), " is in ",
                       printable(request.launch.imagePath)));
    execStarter(context, request.launch);
}

}  // namespace

RunRequest makeRunRequest(Context& context, const Arguments& arguments, MayBroadcast mayBroadcast) {
    const auto definition = readDefinition(context, arguments);
    auto words = arguments.positionals();
    const auto name = takeImage(definition, words);
    checkImageWord(context, arguments, name);
    const auto reference =
        image::isImageFile(name) ? std::nullopt : std::optional(referenceArgument(name, "run").normalized());
    RunRequest request{.launch = readOptions(context.config(), arguments), .image = {}};
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
    request.image = reference
                        ? openFromRepository(context, arguments, *reference, mayBroadcast, request.launch)
                        : openGivenFile(arguments, name, request.launch);
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

Subcommand runCommand() {
    return {
        .name = "run",
        .usage = "sarus run [OPTIONS] REPOSITORY[:TAG] [COMMAND] [ARG...]",
        .description = "Run a command in a new container",
        .note =
            "Note: REPOSITORY[:TAG] has to be specified as\n      displayed by the \"sarus images\" command.",
        .options = runOptions(),
        .minPositionals = 1,
        .maxPositionals = anyNumber,
        .optionForPositionals = "edf",
        .completions = {Completion::images},
        .ownWords = 1,
        .run = run};
}

/// A shell in a container, with a terminal of its own if `sarus` has one.
Subcommand shellCommand() {
    auto command = runCommand();
    command.name = "shell";
    command.usage = "sarus shell [OPTIONS] REPOSITORY[:TAG] [ARG...]";
    command.description = "Start a shell in a new container";
    command.note =
        "Note: The shell is bash if the image has it, otherwise sh. It gets the words behind the image.\n"
        "      The options are those of \"sarus run\".";
    command.run = [](Context& context, const Arguments& arguments) {
        if (const auto& words = arguments.positionals(); words.size() > 1 && asksForHelp(words[1])) {
            printLine(commandHelp(*findCommand("shell")));
            return 0;
        }
        auto shell = arguments;
        shell.set(startShell);
        if (!shell.has("entrypoint")) {
            shell.set("entrypoint");
        }
        if (::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) {
            shell.set("tty");
        }
        return run(context, shell);
    };
    return command;
}

}  // namespace sarus::cli
