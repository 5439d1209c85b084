#pragma once

#include <array>
#include <string>
#include <string_view>

// What the plugin in Slurm and the helper program share.

namespace sarus::spank {

/// An option of srun, sbatch and salloc. The plugin registers it with Slurm; the helper gives it its meaning.
struct Option {
    const char* name;      ///< after the two dashes
    const char* argument;  ///< nullptr for a flag; in brackets if it may be left out
    const char* help;
};

inline constexpr std::array options{
    Option{"container-image", "IMAGE|PATH",
           "[sarus] run in a container of [USER@][REGISTRY#]IMAGE[:TAG], or of a squashfs file whose path "
           "begins "
           "with / or ./"},
    Option{"container-mounts", "SRC:DST[:FLAGS],...",
           "[sarus] directories and files of the host for the container; FLAGS: ro, rw, sqsh... joined by +"},
    Option{"container-workdir", "PATH",
           "[sarus] working directory in the container; a relative path begins at the image's"},
    Option{"container-name", "NAME[:auto|create|exec|no_exec]",
           "[sarus] join the running container NAME of the job on the node, or start it from what it has "
           "kept, or "
           "from the image"},
    Option{"container-env", "NAME,...",
           "[sarus] variables for which the value of the host wins over that of the image"},
    Option{"container-mount-home", nullptr, "[sarus] mount the home directory"},
    Option{"no-container-mount-home", nullptr, "[sarus] do not mount the home directory (default)"},
    Option{"container-writable", nullptr, "[sarus] let the container write to its root filesystem (default)"},
    Option{"container-readonly", nullptr, "[sarus] make the root filesystem of the container read-only"},
    Option{"container-entrypoint", nullptr, "[sarus] run the entrypoint of the image"},
    Option{"no-container-entrypoint", nullptr, "[sarus] do not run the entrypoint of the image (default)"},
    Option{"container-entrypoint-log", nullptr,
           "[sarus] accepted: the entrypoint prints to the output of the task"},
    Option{
        "container-mpi", "[TYPE]",
        "[sarus] replace the MPI library of the image with the host's (of this type, if there are several)"},
    Option{"container-unshare", "net,ipc,uts",
           "[sarus] what the container does not share with the node: network, shared memory and queues, host "
           "name"},
    Option{"container-remap-root", nullptr,
           "[sarus] be root in the container, to install packages; on the node, you stay yourself"},
    Option{"no-container-remap-root", nullptr, "[sarus] run as the user (default)"},
    Option{"container-save", "PATH",
           "[sarus] write the container of the first task to a squashfs file in the end"},
    Option{"environment", "FILE|NAME", "[sarus] run in the container of an environment definition file"},
    Option{"edf", "FILE|NAME", "[sarus] the same as --environment"},
};

constexpr bool mayLackArgument(const Option& option) {
    return option.argument == nullptr || option.argument[0] == '[';
}

/// The variable that stands for an option of srun: SARUS_CONTAINER_IMAGE for container-image.
inline std::string variableOf(std::string_view option) {
    std::string name = "SARUS_";
    for (const char c : option) {
        name += c == '-' ? '_' : static_cast<char>(c - 'a' + 'A');
    }
    return name;
}

/// The variables of Pyxis that stand for its options begin so.
inline constexpr std::string_view peerPrefix = "PYXIS_CONTAINER_";

/// Carries the request from srun or sbatch to the node. Slurm passes on variables with such a name whatever
/// --export says.
inline constexpr const char* requestVariable = "SLURM_SARUS_STEP";
// What the plugin tells the helper on the node.
/// The first word of the command.
inline constexpr const char* wordVariable = "SLURM_SARUS_WORD";
/// Set if the word is the path of a batch script.
inline constexpr const char* scriptVariable = "SLURM_SARUS_SCRIPT";
/// The number of a descriptor: a file in memory that the tasks of the step on this node share.
inline constexpr const char* sharedVariable = "SLURM_SARUS_SHARED";
/// How many tasks the step has on this node.
inline constexpr const char* tasksVariable = "SLURM_SARUS_TASKS";

/// In front of an option of the sbatch or salloc around the command that is called, for the helper.
inline constexpr char outerMark = '+';

/// argv[0] of the helper where a job is submitted: it prints the request of the options that follow. On the
/// node, Slurm starts the helper by its path.
inline constexpr const char* submitName = "sarus-spank-submit";

}  // namespace sarus::spank
