// The plugin for Slurm. It runs in srun, sbatch, salloc and, as root, in slurmstepd. It therefore interprets
// nothing and starts nothing as root, not even when a job has ended. It stores the options, has the helper
// program (src/spank/main.cpp) make a request of them where the job is submitted, and has Slurm start the
// helper in place of the user's command on the node. Sites compile it for their Slurm: it is C++17.

#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "spank/options.hpp"

extern "C" {  // spank.h declares the entry points without a language
#include <slurm/slurm.h>
#include <slurm/spank.h>
}

// What Slurm looks for; exports.map hides everything else. Slurm refuses a plugin whose version is not its
// own.
extern "C" {
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
const char plugin_name[] = "sarus";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;
const unsigned int spank_plugin_version = 1;
}

// `sarus doctor` looks for these words in the file of the plugin.
[[gnu::used, gnu::retain]] static const char builtFor[] = "spank_sarus for Slurm " SARUS_SLURM_RELEASE;

namespace {

using sarus::UniqueFd;
using namespace sarus::spank;

constexpr int failure = -1;  // Slurm takes positive numbers, which its own errors are, for success

/// Slurm ignores a failure of a plugin that plugstack.conf calls optional, and would run the command on the
/// host: the plugin itself ends srun, sbatch and salloc.
int endCallerUnlessGood(int result) noexcept {
    if (result < 0) {
        std::exit(EXIT_FAILURE);
    }
    return result;
}

/// The same for a task, which is a fork of slurmstepd.
int endTaskUnlessGood(int result) noexcept {
    if (result < 0) {
        ::_exit(EXIT_FAILURE);
    }
    return result;
}

/// The options of this process's command line, as the helper takes them.
std::vector<std::string>& givenOptions() {
    static std::vector<std::string> given;
    return given;
}

/// srun puts it in front of the command, and the plugin on the node removes it: a node that does not load the
/// plugin cannot execute such a command, instead of running it on the host.
constexpr std::string_view guard = "/spank_sarus.so/is/not/loaded/on/this/node/";

/// A file in memory for the tasks of this step on this node, or -1. Made in slurmstepd before the tasks.
int sharedFile = -1;

/// No exception crosses the border to Slurm.
template <typename Body>
int guarded(Body body) noexcept {
    try {
        return body();
    } catch (const std::exception& error) {
        slurm_error("sarus: %s", error.what());
    } catch (...) {
        slurm_error("sarus: unknown error");
    }
    return failure;
}

/// The options of the sbatch or salloc around this process, which Slurm gives to it in variables as if they
/// were its own: "container_image=tool".
std::vector<std::string>& outerOptions() {
    static std::vector<std::string> outer;
    return outer;
}

void findOuterOptions() {
    constexpr std::string_view start = "SLURM_SPANK_OPTION_sarus_";
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const auto at = text.substr(0, text.find('=')).find(start);
        if (at != std::string_view::npos) {
            outerOptions().emplace_back(text.substr(at + start.size()));
        }
    }
}

/// Whether this process has the option, NAME[=VALUE], from those. Slurm has its own words for flags there.
bool isOuter(std::string option) {
    const auto separator = std::min(option.find('='), option.size());
    std::replace(option.begin(), option.begin() + static_cast<std::ptrdiff_t>(separator), '-', '_');
    return std::any_of(outerOptions().begin(), outerOptions().end(), [&](const std::string& outer) {
        return separator == option.size() ? outer.substr(0, outer.find('=')) == option : outer == option;
    });
}

int storeOption(int number, const char* value, int remote) noexcept {
    return guarded([&] {
        if (remote == 0) {
            const auto& option = options.at(static_cast<std::size_t>(number));
            givenOptions().push_back(
                std::string(option.name) +
                (option.argument == nullptr || value == nullptr ? std::string() : '=' + std::string(value)));
        }
        return ESPANK_SUCCESS;
    });
}

/// <prefix>/libexec/sarus-spank; the plugin is <prefix>/lib/slurm/spank_sarus.so. "" if it cannot be told.
std::string helperPath() {
    Dl_info info{};
    if (::dladdr(&plugin_name, &info) == 0 || info.dli_fname == nullptr) {
        return {};
    }
    std::string path(info.dli_fname);
    for (int level = 0; level < 3; ++level) {
        const auto slash = path.rfind('/');
        if (slash == std::string::npos) {
            return {};
        }
        path.resize(slash);
    }
    return path + "/libexec/sarus-spank";
}

std::string readToEnd(int fd) {
    std::string text;
    std::array<char, 4096> buffer{};
    ssize_t count = 0;
    while ((count = ::read(fd, buffer.data(), buffer.size())) > 0 || (count < 0 && errno == EINTR)) {
        text.append(buffer.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
    }
    return text;
}

/// After fork: calls only what is safe there, and does not return.
[[noreturn]] void runChild(const char* path, char* const* argv, int out) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (::dup2(null, STDIN_FILENO) >= 0 && ::dup2(out, STDOUT_FILENO) >= 0) {
        ::execv(path, argv);
    }
    ::_exit(127);
}

/// All that the helper prints on its standard output; nullopt if it fails, which it has explained itself.
std::optional<std::string> askHelper(const std::vector<std::string>& words) {
    const auto path = helperPath();
    std::vector<char*> argv;
    for (const auto& word : words) {
        argv.push_back(const_cast<char*>(word.c_str()));  // execv does not write to them
    }
    argv.push_back(nullptr);
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        slurm_error("sarus: Failed to create a pipe: %s", std::strerror(errno));
        return std::nullopt;
    }
    const UniqueFd out(ends[0]);
    UniqueFd writer(ends[1]);
    const pid_t pid = ::fork();
    if (pid == 0) {
        runChild(path.c_str(), argv.data(), writer.get());
    }
    writer.reset();
    if (pid < 0) {
        slurm_error("sarus: Failed to create a process: %s", std::strerror(errno));
        return std::nullopt;
    }
    auto answer = readToEnd(out.get());
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        slurm_error("sarus: cannot execute %s: spank_sarus.so must stay in lib/slurm of the installation",
                    path.c_str());
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? std::optional(std::move(answer)) : std::nullopt;
}

/// After fork: becomes the user completely, calls only what is safe there, and does not return.
[[noreturn]] void runAsUser(const char* path, char* const* argv, uid_t uid, gid_t gid) {
    char* const environment[] = {nullptr};
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (::setgroups(1, &gid) == 0 && ::setresgid(gid, gid, gid) == 0 && ::setresuid(uid, uid, uid) == 0 &&
        ::chdir("/") == 0 && ::dup2(null, STDIN_FILENO) >= 0 && ::dup2(null, STDOUT_FILENO) >= 0 &&
        ::dup2(null, STDERR_FILENO) >= 0) {
        ::execve(path, argv, environment);
    }
    ::_exit(127);
}

/// Waits for the end of a child; kills it after a minute: Slurm waits for this process before it gives the
/// node to the next job.
void endWithin(pid_t pid) {
    constexpr int attempts = 1200;
    constexpr timespec pause{0, 50'000'000};
    for (int attempt = 0; attempt < attempts; ++attempt) {
        if (::waitpid(pid, nullptr, WNOHANG) != 0) {
            return;
        }
        ::nanosleep(&pause, nullptr);
    }
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
}

/// Removes what the user has kept in the job on this node: containers, copies of images.
void removeWhatWasKept(uid_t uid, uint32_t job) {
    const passwd* const account = ::getpwuid(uid);
    if (account == nullptr || uid == 0) {
        return;
    }
    const auto gid = account->pw_gid;
    auto path = helperPath();
    path.resize(path.rfind("/libexec/"));
    path += "/bin/sarus";
    const auto option = "--job=" + std::to_string(job);
    std::array<char*, 5> argv{const_cast<char*>("sarus"), const_cast<char*>("rm"), const_cast<char*>("--all"),
                              const_cast<char*>(option.c_str()), nullptr};
    const pid_t pid = ::fork();
    if (pid == 0) {
        runAsUser(path.c_str(), argv.data(), uid, gid);
    }
    if (pid > 0) {
        endWithin(pid);
    }
}

bool hasVariables() {
    for (const auto& option : options) {
        const auto name = variableOf(option.name);
        const char* value = ::getenv(name.c_str());
        if (value != nullptr && *value != '\0') {
            return true;
        }
    }
    for (char** entry = environ; *entry != nullptr; ++entry) {
        if (std::string_view(*entry).rfind(peerPrefix, 0) == 0) {
            return true;
        }
    }
    return false;
}

/// In srun, sbatch and salloc, as the user who called them.
int submitStep(bool local) {
    ::unsetenv(requestVariable);  // left over from another step: only options ask for a container
    const auto& given = givenOptions();
    if (given.empty() && !(local && hasVariables())) {
        return ESPANK_SUCCESS;
    }
    const bool isBatch = std::string_view(program_invocation_short_name) == "sbatch";
    std::vector<std::string> words{submitName, local ? "local" : isBatch ? "batch" : "allocator"};
    for (const auto& option : given) {
        words.push_back((isOuter(option) ? std::string(1, outerMark) : std::string()) + option);
    }
    const auto request = askHelper(words);
    if (!request) {
        return failure;
    }
    if (!request->empty()) {
        ::setenv(requestVariable, request->c_str(), 1);
    }
    return ESPANK_SUCCESS;
}

bool hasRequest(spank_t spank) {
    std::array<char, 2> start{};
    const auto result = spank_getenv(spank, requestVariable, start.data(), start.size());
    return result == ESPANK_SUCCESS || result == ESPANK_NOSPACE;
}

bool isStep(spank_t spank, uint32_t number) {
    uint32_t step = 0;
    return spank_get_item(spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS && step == number;
}

/// The shell of salloc may be a step too, but starts others, for which Slurm's programs must be there.
bool wantsContainer(spank_t spank) {
    return hasRequest(spank) && !isStep(spank, SLURM_INTERACTIVE_STEP);
}

/// In the process of the task, as the user, before TaskProlog, limits and the user's program. Slurm drains a
/// node on which a plugin fails before the tasks start, and srun returns 0: only the helper reports errors.
int replaceCommand(spank_t spank) {
    int count = 0;
    char** words = nullptr;
    if (spank_get_item(spank, S_JOB_ARGV, &count, &words) != ESPANK_SUCCESS || count < 1) {
        slurm_error("sarus: Slurm does not tell the command of the step");
        return failure;
    }
    words[0] += std::string_view(words[0]).rfind(guard, 0) == 0 ? guard.size() : 0;
    if (!wantsContainer(spank)) {
        return ESPANK_SUCCESS;
    }
    const auto set = [&](const char* name, const std::string& value) {
        return spank_setenv(spank, name, value.c_str(), 1) == ESPANK_SUCCESS;
    };
    spank_unsetenv(spank, scriptVariable);
    spank_unsetenv(spank, sharedVariable);
    spank_unsetenv(spank, tasksVariable);
    uint32_t tasks = 1;
    spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks);
    if (!set(wordVariable, words[0]) || (isStep(spank, SLURM_BATCH_SCRIPT) && !set(scriptVariable, "1")) ||
        (sharedFile >= 0 &&
         (!set(sharedVariable, std::to_string(sharedFile)) || !set(tasksVariable, std::to_string(tasks))))) {
        slurm_error("sarus: Slurm does not set variables of the step");
        return failure;
    }
    static std::string helper = helperPath();
    words[0] = helper.data();  // this process executes it: nobody frees it
    return ESPANK_SUCCESS;
}

/// Whether the words are a file for --multi-prog and its text: the latter is no word of srun's command line.
bool isMultiProg(int count, char** words) {
    if (count != 2) {
        return false;
    }
    const UniqueFd file(::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC));
    const auto line = '\0' + readToEnd(file.get());
    const std::string word = '\0' + std::string(words[1]) + '\0';
    return line.find(word) == std::string::npos;
}

}  // namespace

int slurm_spank_init(spank_t spank, int, char**) {
    return guarded([&] {
        const auto context = spank_context();
        if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE) {
            return static_cast<int>(ESPANK_SUCCESS);
        }
        findOuterOptions();
        for (std::size_t i = 0; i < options.size(); ++i) {
            const auto& option = options.at(i);
            spank_option registered{.name = const_cast<char*>(option.name),  // Slurm copies them
                                    .arginfo = const_cast<char*>(option.argument),
                                    .usage = const_cast<char*>(option.help),
                                    .has_arg = option.argument == nullptr ? 0
                                               : mayLackArgument(option)  ? 2
                                                                          : 1,
                                    .val = static_cast<int>(i),
                                    .cb = storeOption};
            if (const auto result = spank_option_register(spank, &registered); result != ESPANK_SUCCESS) {
                slurm_error("sarus: cannot register --%s: %s", option.name, spank_strerror(result));
                return failure;
            }
        }
        return static_cast<int>(ESPANK_SUCCESS);
    });
}

int slurm_spank_init_post_opt(spank_t, int, char**) {
    const auto context = spank_context();
    if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR) {
        return ESPANK_SUCCESS;
    }
    return endCallerUnlessGood(guarded([&] { return submitStep(context == S_CTX_LOCAL); }));
}

int slurm_spank_local_user_init(spank_t spank, int, char**) {
    return endCallerUnlessGood(guarded([&] {
        int count = 0;
        char** words = nullptr;
        if (::getenv(requestVariable) == nullptr ||
            spank_get_item(spank, S_JOB_ARGV, &count, &words) != ESPANK_SUCCESS || count < 1) {
            return static_cast<int>(ESPANK_SUCCESS);
        }
        if (isMultiProg(count, words)) {
            slurm_error(
                "sarus: --multi-prog cannot run programs in containers: start a script that chooses "
                "its program by SLURM_PROCID");
            return failure;
        }
        static std::deque<std::string> guardedWords;  // one for each component; srun sends them to the nodes
        words[0] = guardedWords.emplace_back(std::string(guard) + words[0]).data();
        return static_cast<int>(ESPANK_SUCCESS);
    }));
}

int slurm_spank_user_init(spank_t spank, int, char**) {
    return guarded([&] {
        if (wantsContainer(spank)) {
            sharedFile = ::memfd_create("sarus-step", 0);
        }
        return ESPANK_SUCCESS;
    });
}

int slurm_spank_task_init(spank_t spank, int, char**) {
    return endTaskUnlessGood(
        guarded([&] { return hasRequest(spank) ? replaceCommand(spank) : ESPANK_SUCCESS; }));
}

/// When the last step of the job has ended on this node. A failure would drain the node.
int slurm_spank_job_epilog(spank_t spank, int, char**) {
    guarded([&] {
        uid_t uid = 0;
        uint32_t job = 0;
        if (spank_get_item(spank, S_JOB_UID, &uid) == ESPANK_SUCCESS &&
            spank_get_item(spank, S_JOB_ID, &job) == ESPANK_SUCCESS) {
            removeWhatWasKept(uid, job);
        }
        return ESPANK_SUCCESS;
    });
    return ESPANK_SUCCESS;
}
