#include "cli/habits.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <span>
#include <utility>

#include "base/text.hpp"

namespace sarus::cli {

// The files of this room are compiled together: a namespace keeps the short names of the tables in here.
namespace habit_tables {
namespace {

constexpr std::string_view network = "A container uses the network of the node: leave the option out";
constexpr std::string_view ports =
    "A container uses the network of the node: its ports are there without the option";
constexpr std::string_view hostName = "A container has the name of the node";
constexpr std::string_view identity = "A container runs as you, with your groups: leave the option out";
constexpr std::string_view limitsOfTheJob =
    "The limits of the job hold for its containers: ask the workload manager (srun --mem, --cpus-per-task)";
constexpr std::string_view privileges =
    "Containers have no privileges here, for nobody: leave the option out";
constexpr std::string_view writable =
    "A container may write to its root filesystem, in memory, until it ends; to keep files, use --volume, or "
    "--name and --keep";
constexpr std::string_view background =
    "A container runs in the foreground: write '&' after the command, or submit a job";
constexpr std::string_view separation =
    "Home and working directory stay outside by default: use --cleanenv and --pid=private for the rest";
constexpr std::string_view namespaces = "A container shares this with the node: leave the option out";
constexpr std::string_view ended =
    "A container that has ended is gone, unless 'sarus run --name NAME --keep' made it: that goes on with "
    "'sarus run --name NAME'";
constexpr std::string_view output =
    "A container writes to the output of its 'sarus run': look in the output of the job";
constexpr std::string_view password =
    "Everybody sees words of a command line: use --username, which asks, or --password-stdin";
constexpr std::string_view platformOfPull = "Choose the platform when you pull: sarus pull --platform";

bool isCallersId(std::string_view value, unsigned own) {
    const auto number = parseNumber(value);
    return number && *number == own;
}

/// UID[:GID] of the caller.
bool isCaller(std::string_view value) {
    const auto colon = value.find(':');
    return isCallersId(value.substr(0, colon), ::geteuid()) &&
           (colon == std::string_view::npos || isCallersId(value.substr(colon + 1), ::getegid()));
}

bool isThisNode(std::string_view value) {
    std::array<char, HOST_NAME_MAX + 1> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 && value == name.data();
}

constexpr auto flag = Habit::Takes::flag;
constexpr auto word = Habit::Takes::word;

// Of the commands that start processes in containers.
constexpr std::array containerHabits{
    Habit{"-i --interactive", flag, "true", "A container keeps standard input: write '< /dev/null'"},
    Habit{"--rm", flag, "true", "To keep a container that has ended, use --keep and --name"},
    Habit{"-a --attach", word, "stdin stdout stderr STDIN STDOUT STDERR", output},
    Habit{"--sig-proxy", flag, "true", "Signals reach the command in the container"},
    Habit{"-d --detach", flag, "false", background},
    Habit{"--add-host", word, "", network},
    Habit{"--dns", word, "", network},
    Habit{"--expose", word, "*", network},
    Habit{"-p --publish", word, "", ports},
    Habit{"-P --publish-all", flag, "false", ports},
    Habit{"--hostname", word, "", hostName, "", isThisNode},
    Habit{"--cgroupns", word, "host", namespaces},
    Habit{"--userns", word, "host keep-id", identity},
    Habit{"-u --user", word, "", identity, "", isCaller},
    Habit{"--group-add", word, "keep-groups", identity},
    Habit{"-f --fakeroot", flag, "false",
          "With --remap-root you are root in the container, to install packages"},
    Habit{"--privileged", flag, "false", privileges},
    Habit{"--cap-add", word, "", privileges},
    Habit{"--cap-drop", word, "*", privileges},
    Habit{"--security-opt", word,
          "no-new-privileges no-new-privileges:true no-new-privileges=true label=disable label:disable",
          privileges},
    Habit{"--memory", word, "", limitsOfTheJob},
    Habit{"--memory-swap", word, "", limitsOfTheJob},
    Habit{"-c --cpu-shares", word, "", limitsOfTheJob},
    Habit{"--cpus", word, "", limitsOfTheJob},
    Habit{"--cpuset-cpus", word, "", limitsOfTheJob},
    Habit{"--pids-limit", word, "", limitsOfTheJob},
    Habit{"--ulimit", word, "host",
          "A container has the limits of your shell: use ulimit before 'sarus run'"},
    Habit{"--shm-size", word, "",
          "A container uses the node's /dev/shm, with its size: leave the option out; with --ipc=private, "
          "--tmpfs /dev/shm:size=SIZE gives it one of its own"},
    Habit{"--log-driver", word, "none passthrough", output},
    Habit{"--restart", word, "no", "A container that has ended is gone: submit the job again"},
    Habit{"--writable", flag, "false", writable},
    Habit{"--writable-tmpfs", flag, "true false", writable},
    Habit{"--overlay", word, "", writable},
    Habit{"--runtime", word, "", "Your site chooses the OCI runtime; GPUs come with --gpus or --rocm"},
    Habit{"--platform", word, "", platformOfPull},
    Habit{"-l --label", word, "", "Use --annotation"},
    Habit{"--contain", flag, "false", separation},
    Habit{"-C --containall", flag, "false", separation},
    Habit{"-H", word, "*", "", "home"},
    Habit{"--no-home", flag, "false",
          "The home directory is mounted only with --home, or if your site says so"},
    Habit{"--no-privs", flag, "true", privileges},
    Habit{"--volumes-from", word, "", "Mount the same directories with --volume"},
};

// Of one command; "": of all with the option that it stands for.
using Of = std::pair<std::string_view, Habit>;
constexpr std::array otherHabits{
    Of{"pull", Habit{"--tls-verify", flag, "true",
                     "Declare the registry as insecure in ~/.config/containers/registries.conf.d "
                     "(user guide)"}},
    Of{"pull", Habit{"--creds", word, "", password}},
    Of{"pull", Habit{"-p --password", word, "", password}},
    Of{"prune", Habit{"-f --force", flag, "true", "Nothing is asked"}},
    Of{"prune", Habit{"--volumes", flag, "true false", "There are no volumes"}},
    Of{"prune",
       Habit{"-a --all", flag, "false", "Unused images go with a limit: sarus prune --older-than 30d"}},
    Of{"container prune", Habit{"-f --force", flag, "true", "Nothing is asked"}},
    Of{"container prune", Habit{"--filter", word, "*", ""}},
    Of{"ps", Habit{"--no-trunc", flag, "true false", ""}},
    Of{"images", Habit{"-a --all", flag, "true", "All images are listed: leave the option out"}},
    Of{"images", Habit{"--format", word, "json", "'sarus images --json' prints JSON, for jq", "json"}},
    Of{"inspect", Habit{"-f --format", word, "json", "'sarus inspect --json' prints JSON, for jq", "json"}},
    Of{"", Habit{"--format", word, "json", "The option '--json' prints JSON, for jq", "json"}},
};

constexpr std::string_view build =
    "Build with podman, buildah, docker or podman-hpc, write an archive, and 'sarus load FILE'";
constexpr std::string_view top = "Ask the workload manager (sstat), or run top on the node";

using Hint = std::pair<std::string_view, std::string_view>;

constexpr std::string_view signatures =
    "The site's policy.json says which signatures a pull needs; 'skopeo' signs and copies images";

constexpr std::array commandsOfOthers{
    Hint{"login", "'sarus pull --login' asks for a login; logins of podman, docker and skopeo are used too"},
    Hint{"logout", "Sarus keeps no login; 'skopeo logout REGISTRY' removes that of podman and skopeo"},
    Hint{"logs", output},
    Hint{"build", build},
    Hint{"buildx", build},
    Hint{"commit", "'sarus save NAME FILE' writes a container that was kept (sarus run --keep) as a file"},
    Hint{"stop", "'sarus kill -TERM NAME' asks a container to end"},
    Hint{"start", ended},
    Hint{"restart", ended},
    Hint{"create", "'sarus run' creates a container and starts it"},
    Hint{"attach", "'sarus exec -t NAME sh' starts a shell in a running container"},
    Hint{"instance", "'sarus run --name NAME IMAGE sleep infinity &' starts one, 'sarus exec NAME' uses it"},
    Hint{"import", "'sarus load FILE' stores an archive as an image"},
    Hint{"export", "'sarus save NAME FILE' writes a container that was kept, or a stored image, as a file"},
    Hint{"info", "'sarus doctor' describes the node, 'sarus version --json' the program"},
    Hint{"cache", "'sarus prune' empties the download cache"},
    Hint{"volume", "Mount directories with 'sarus run --volume SOURCE:DESTINATION'"},
    Hint{"stats", top},
    Hint{"top", top},
    Hint{"cp", "Mount a directory (sarus run --volume DIR) and copy inside of the container"},
    Hint{"push", "Push with skopeo; 'sarus save IMAGE FILE' writes a stored image as a file"},
    Hint{"search", "Search on the registry's web page, or with 'podman search'"},
    Hint{"history",
         "'sarus inspect IMAGE' shows an image; 'skopeo inspect --config docker://IMAGE' its history"},
    Hint{"manifest", "'skopeo inspect --raw docker://IMAGE' shows the manifest of an image"},
    Hint{"wait", "A container ends with its 'sarus run': the shell's wait waits for those behind '&'"},
    Hint{"pause", "Send a signal: sarus kill -STOP NAME"},
    Hint{"unpause", "Send a signal: sarus kill -CONT NAME"},
    Hint{"network", "A container uses the network of the node: there is nothing to create or connect"},
    Hint{"port", "A container uses the network of the node: its ports are those of the node"},
    Hint{"compose", "Start each container with 'sarus run'; they share the network of the node"},
    Hint{"pod", "Start each container with 'sarus run'; they share the network of the node"},
    Hint{"list", "'sarus images' lists images, 'sarus ps' containers"},
    Hint{"remove", "'sarus rmi IMAGE' removes an image; a container goes when it ends"},
    Hint{"delete", "'sarus rmi IMAGE' removes an image; a container goes when it ends"},
    Hint{"sif", "'sarus load FILE.sif' stores a SIF file as an image, 'sarus inspect IMAGE' shows it"},
    Hint{"remote", "Name the registry in front of the image: sarus pull registry.example.org/tool:1.0"},
    Hint{"registry", "Name the registry in front of the image: sarus pull registry.example.org/tool:1.0"},
    Hint{"key", signatures},
    Hint{"verify",
         "'sarus images --verify' compares images with their digests; the site's policy.json says "
         "which signatures a pull needs"},
    Hint{"sign", signatures},
};

/// Whether a list of names separated by blanks has this one.
bool has(std::string_view list, std::string_view name) {
    const auto all = splitWords(list);
    return std::find(all.begin(), all.end(), name) != all.end();
}

}  // namespace
}  // namespace habit_tables

bool Habit::isAlreadySo(std::string_view value) const {
    return same == "*" || habit_tables::has(same, value) || (alsoSame != nullptr && alsoSame(value));
}

const Habit* findHabit(std::string_view command, bool startsContainers, std::string_view option) {
    for (const auto& [of, habit] : habit_tables::otherHabits) {
        if ((of == command || of.empty()) && habit_tables::has(habit.names, option)) {
            return &habit;
        }
    }
    const auto found =
        std::find_if(habit_tables::containerHabits.begin(), habit_tables::containerHabits.end(),
                     [&](const Habit& habit) { return habit_tables::has(habit.names, option); });
    return startsContainers && found != habit_tables::containerHabits.end() ? found : nullptr;
}

std::optional<std::string_view> hintForCommand(std::string_view name, std::string_view next) {
    const bool isGroup = name == "container" || name == "image" || name == "system";
    const auto found =
        std::find_if(habit_tables::commandsOfOthers.begin(), habit_tables::commandsOfOthers.end(),
                     [&](const habit_tables::Hint& hint) { return hint.first == (isGroup ? next : name); });
    return found == habit_tables::commandsOfOthers.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace sarus::cli
