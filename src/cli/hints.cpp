#include "cli/hints.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/text.hpp"

namespace sarus::cli {

namespace {

using Hint = std::pair<std::string_view, std::string_view>;

constexpr std::string_view network = "A container uses the network of the node: leave the option out";
constexpr std::string_view identity = "A container runs as you, with your groups: leave the option out";
constexpr std::string_view limitsOfTheJob =
    "The limits of the job hold for its containers: ask the workload manager (srun --mem, --cpus-per-task)";
constexpr std::string_view privileges =
    "Containers have no privileges here, for nobody: leave the option out";
constexpr std::string_view writable =
    "A container may write to its root filesystem, in memory, until it ends; to keep files, use --volume";
constexpr std::string_view background =
    "A container runs in the foreground: write '&' after the command, or submit a job";
constexpr std::string_view separation =
    "Home and working directory stay outside by default: use --cleanenv and --pid=private for the rest";
constexpr std::string_view build =
    "Build with podman, buildah or docker, write an archive, and 'sarus load FILE'";
constexpr std::string_view ended = "A container that has ended is gone: 'sarus run' starts a new one";
constexpr std::string_view noStop = "'sarus kill -TERM NAME' asks a container to end";

constexpr std::array options{
    Hint{"--net", network},
    Hint{"--network", network},
    Hint{"--add-host", network},
    Hint{"--dns", network},
    Hint{"--hostname", "A container has the name of the node"},
    Hint{"--uts", "A container has the name of the node"},
    Hint{"--ipc", "A container shares IPC and /dev/shm with the node: leave the option out"},
    Hint{"-P", "A container uses the network of the node: its ports are there without the option"},
    Hint{"-p", "A container uses the network of the node: its ports are there without the option"},
    Hint{"--publish", "A container uses the network of the node: its ports are there without the option"},
    Hint{"-u", identity},
    Hint{"--user", identity},
    Hint{"--group-add", identity},
    Hint{"--userns", identity},
    Hint{"--fakeroot", "Containers run as you, never as root; build images elsewhere, and 'sarus load' them"},
    Hint{"--privileged", privileges},
    Hint{"--cap-add", privileges},
    Hint{"--security-opt", privileges},
    Hint{"--cap-drop", "Containers have no capabilities: leave the option out"},
    Hint{"--memory", limitsOfTheJob},
    Hint{"--memory-swap", limitsOfTheJob},
    Hint{"--cpus", limitsOfTheJob},
    Hint{"--cpuset-cpus", limitsOfTheJob},
    Hint{"--pids-limit", limitsOfTheJob},
    Hint{"--ulimit", "A container has the limits of your shell: use ulimit before 'sarus run'"},
    Hint{"--shm-size", "A container uses the node's /dev/shm, with its size: leave the option out"},
    Hint{"-d", background},
    Hint{"--detach", background},
    Hint{"--writable", writable},
    Hint{"--writable-tmpfs", writable},
    Hint{"--overlay", writable},
    Hint{"--runtime", "Your site chooses the OCI runtime; GPUs come with --gpus or --rocm"},
    Hint{"--platform", "Choose the platform when you pull: sarus pull --platform"},
    Hint{"--label", "Use --annotation"},
    Hint{"--contain", separation},
    Hint{"--containall", separation},
    Hint{"--no-home", "The home directory is mounted only with --home, or if your site says so"},
    Hint{"--volumes-from", "Mount the same directories with --volume"},
    Hint{"--restart", "A container that has ended is gone: submit the job again"},
};

/// After the name of the command.
constexpr std::array optionsOfOthers{
    Hint{"save -o", "Name the file after the image: sarus save IMAGE FILE"},
    Hint{"save --output", "Name the file after the image: sarus save IMAGE FILE"},
    Hint{"load -i", "Name the file alone: sarus load FILE [NAME[:TAG]]"},
    Hint{"load --input", "Name the file alone: sarus load FILE [NAME[:TAG]]"},
    Hint{"pull --tls-verify",
         "Declare the registry as insecure in ~/.config/containers/registries.conf.d (user guide)"},
    Hint{"images --format", "'sarus images --json' prints JSON, for jq"},
    Hint{"inspect --format", "'sarus inspect --json' prints JSON, for jq"},
    Hint{"inspect -f", "'sarus inspect --json' prints JSON, for jq"},
    Hint{"images -a", "All images are listed without the option"},
    Hint{"images --all", "All images are listed without the option"},
};

constexpr std::array commandsOfOthers{
    Hint{"login", "'sarus pull --login' asks for a login; logins of podman, docker and skopeo are used too"},
    Hint{"logout", "Sarus keeps no login; 'skopeo logout REGISTRY' removes that of podman and skopeo"},
    Hint{"logs", "A container writes to the output of its 'sarus run': look in the output of the job"},
    Hint{"build", build},
    Hint{"commit", build},
    Hint{"stop", noStop},
    Hint{"start", ended},
    Hint{"restart", ended},
    Hint{"create", "'sarus run' creates a container and starts it"},
    Hint{"attach", "'sarus exec -t NAME sh' starts a shell in a running container"},
    Hint{"instance", "'sarus run --name NAME IMAGE sleep infinity &' starts one, 'sarus exec NAME' uses it"},
    Hint{"import", "'sarus load FILE' stores an archive as an image"},
    Hint{"export", "'sarus save IMAGE FILE' writes a stored image as a file"},
    Hint{"info", "'sarus doctor' describes the node, 'sarus version --json' the program"},
    Hint{"cache", "'sarus prune' empties the download cache"},
    Hint{"volume", "Mount directories with 'sarus run --volume SOURCE:DESTINATION'"},
    Hint{"stats", "Ask the workload manager (sstat), or run top on the node"},
    Hint{"top", "Ask the workload manager (sstat), or run top on the node"},
    Hint{"cp", "Mount a directory (sarus run --volume DIR) and copy inside of the container"},
    Hint{"push", "Push with skopeo; 'sarus save IMAGE FILE' writes a stored image as a file"},
    Hint{"search", "Search on the registry's web page, or with 'podman search'"},
};

std::optional<std::string_view> find(std::span<const Hint> table, std::string_view name) {
    const auto found =
        std::find_if(table.begin(), table.end(), [&](const Hint& hint) { return hint.first == name; });
    return found == table.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::optional<std::string_view> hintForOption(const std::string& command, bool isOfContainers,
                                              std::string_view option) {
    const auto own = find(optionsOfOthers, cat(command, ' ', option));
    return own || !isOfContainers ? own : find(options, option);
}

std::optional<std::string_view> hintForCommand(std::string_view name) {
    return find(commandsOfOthers, name);
}

}  // namespace sarus::cli
