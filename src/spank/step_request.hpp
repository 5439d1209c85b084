#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sarus::spank {

/// What a name of --container-name asks for.
enum class NameUse {
    automatic,  ///< join the running container, else go on with the kept one, else make it
    create,     ///< make it: it must not exist
    exec,       ///< join the running container
    noExec,     ///< as automatic, but join nothing
};

/// The container of a job step, as options of `sarus`. It goes from the submitting to the executing node in a
/// variable of the user's environment.
struct StepRequest {
    std::string image{};  ///< for the command line of sarus; "" if the definition names it or there is none
    std::string edf{};    ///< the text of an environment definition, "" for none
    std::string name{};   ///< of the container, "" for none
    NameUse nameUse = NameUse::automatic;
    std::string
        save{};  ///< absolute path of the file for the container of the step's first task, "" for none
    std::vector<std::string> options{};  ///< of `sarus run`
    /// Flags of `sarus run` that a container must not have been started with if the step joins it.
    std::vector<std::string> refused{};

    bool operator==(const StepRequest&) const = default;
};

/// Limit of a serialised request, in bytes: the kernel refuses variables from 128 KiB on.
constexpr std::size_t maxRequestSize = 120'000;

/// Throws Error for a request that is too large.
std::string serialize(const StepRequest& request);
/// Throws Error for a text that serialize() has not made.
StepRequest parseRequest(std::string_view text);

/// The words of a job step: the first is what the user typed, or the batch script's path.
struct StepCommand {
    std::string word;
    std::vector<std::string> arguments;
};

/// A name of --container-name that stands for a job step: "7.0". It means the container of the first task of
/// this step on the node, whatever it is called. nullopt for other names.
struct JobStep {
    std::string job;
    std::string step;
};
std::optional<JobStep> stepOfName(std::string_view name);

/// The longest name of --container-name, in characters: `sarus` takes 128, and the largest number of a job
/// needs its part of them.
constexpr std::size_t longestName = 128 - std::string_view(".job4294967295").size();

/// The name of the container for `sarus`: a name of --container-name belongs to its job. `job` is the job's
/// number, "" outside of jobs. "" without a name. That of a step stays as it is.
std::string containerName(const std::string& name, const std::string& job);

/// The same for a container without a name: that by which other steps join it.
std::string nameForStep(const std::string& job, const std::string& step);

/// The flags of --container-name, with their texts.
inline constexpr std::array nameUses{std::pair<std::string_view, NameUse>{"auto", NameUse::automatic},
                                     std::pair<std::string_view, NameUse>{"create", NameUse::create},
                                     std::pair<std::string_view, NameUse>{"exec", NameUse::exec},
                                     std::pair<std::string_view, NameUse>{"no_exec", NameUse::noExec}};

/// nullopt for another text.
std::optional<NameUse> parseNameUse(std::string_view text);

/// argv of `sarus` that runs the command in a new container. `edfPath` is where the text of the definition
/// can be read. `container`: its name, "" for none. `script`: whether the word is a file of the host, which
/// the container gets at a place of its own.
std::vector<std::string> runArguments(const StepRequest& request, const StepCommand& command,
                                      std::string_view edfPath, bool terminal, const std::string& container,
                                      bool script);

/// argv of `sarus` that holds the container open, for commands which join it. `command`: of one of them.
std::vector<std::string> holdArguments(const StepRequest& request, const StepCommand& command,
                                       std::string_view edfPath, const std::string& container);

/// argv of `sarus` that runs the command in the running container of that name, as a task of its own step, if
/// the container is what the request asks for. `keeper`: the descriptor of the connection to the process that
/// holds it open for this step; -1: none.
std::vector<std::string> joinArguments(const StepRequest& request, const StepCommand& command,
                                       std::string_view edfPath, bool terminal, const std::string& container,
                                       int keeper = -1);

}  // namespace sarus::spank
