#include "cli/run_options.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/container_options.hpp"
#include "cli/context.hpp"
#include "cli/edf.hpp"
#include "cli/edf_access.hpp"
#include "cli/mount_options.hpp"
#include "engine/cdi.hpp"
#include "engine/environment.hpp"
#include "engine/launch_request.hpp"
#include "engine/mount_rules.hpp"
#include "engine/run_options.hpp"
#include "oci/runtime/device_request.hpp"
#include "oci/runtime/mount_request.hpp"

namespace sarus::cli {

namespace {

constexpr const char* sshNeedsPrivatePid =
    "The use of '--ssh' is incompatible with '--pid=host'. The SSH hook requires the use of a private PID "
    "namespace";

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

}  // namespace

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

engine::LaunchRequest readRunOptions(const engine::SiteConfig& config, const Arguments& arguments) {
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
    if (request.keep) {
        request.keptDirectory = hostVariable("SARUS_CONTAINER_DIR").value_or("");
    }
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

void applySshAnnotation(const Arguments& arguments, engine::LaunchRequest& request) {
    for (const auto& text : request.annotations) {
        const auto [key, value] = engine::parseAnnotation(text);
        request.ssh = request.ssh || (key == "com.hooks.ssh.enabled" && value == "true");
    }
    if (request.ssh) {
        checkSsh(arguments);
    }
}

}  // namespace sarus::cli
