#include "spank/step_decision.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "oci/json/json_node.hpp"
#include "spank/sarus_call.hpp"

namespace sarus::spank {

namespace {

/// A container on this node.
struct Listed {
    std::string name;
    std::string status;
};

/// The container of this name, or of the first task of the step that the name means.
std::optional<Listed> findContainer(const std::string& name) {
    const auto output = runAndCapture({.path = sarusPath(), .args = {"sarus", "ps", "--all", "--json"}});
    if (!output.status.ok()) {
        throw Error(std::string(trim(output.err)));
    }
    const auto step = stepOfName(name);
    std::optional<Listed> found;
    auto first = std::numeric_limits<std::uint64_t>::max();
    for (const auto& container : oci::parseJson<nlohmann::json>(output.out, "the list of containers")) {
        const auto task = parseNumber(container.value("task", "")).value_or(0);  // none if tasks share it
        const bool isMeant = step ? container.value("job", "") == step->job &&
                                        container.value("step", "") == step->step && task < first
                                  : container.value("name", "") == name;
        if (isMeant && container.value("status", "") != "stopped") {
            found = {container.value("name", ""), container.value("status", "")};
            first = task;
        }
    }
    return found;
}

/// The name of the container if it runs, or soon does; its program may have ended although it is not removed
/// yet.
std::optional<std::string> findRunning(const std::string& name) {
    constexpr timespec pause{.tv_sec = 0, .tv_nsec = 50'000'000};
    for (;;) {
        const auto found = findContainer(name);
        if (!found || found->status != "creating") {
            return found ? std::optional(found->name) : std::nullopt;
        }
        ::nanosleep(&pause, nullptr);
    }
}

/// False if the pull fails, which has told the user why.
bool obtainImage(const StepRequest& request) {
    if (request.edf.empty() && request.image.starts_with('/')) {
        return true;
    }
    const DefinitionFile definition(request.edf);
    std::vector<std::string> words{"sarus", "pull", "--quiet", "--missing"};
    words.push_back(request.edf.empty() ? request.image : cat("--edf=", definition.path()));
    Command command{.path = sarusPath(), .args = std::move(words)};
    if (definition.fd() >= 0) {
        command.keepFds = {definition.fd()};
    }
    const AllCpus allCpus;
    return start(command).wait().ok();
}

/// The image of a container that was kept; nullopt if there is none.
std::optional<std::string> imageOfKept(const std::string& container) {
    const auto output = runAndCapture(
        {.path = sarusPath(), .args = {"sarus", "inspect", "--type=container", "--json", container}});
    if (!output.status.ok()) {
        return std::nullopt;
    }
    const auto details = oci::parseJson<nlohmann::json>(output.out, "the details of the container");
    return details.value("image", "");
}

/// Before the command, whose work would be lost.
void checkPlace(const StepRequest& request) {
    if (request.save.empty()) {
        return;
    }
    const auto directory = directoryOf(request.save);
    checkErrno(::access(directory.c_str(), W_OK | X_OK),
               cat("--container-save: Failed to write to ", printable(directory)));
}

/// A file that the tasks of a step on a node share: the first one decides, the others wait for that. If the
/// first one is killed, the next one decides.
class SharedDecision {
public:
    explicit SharedDecision(int descriptor) : file(descriptor) {
        struct flock lock {};
        lock.l_type = F_WRLCK;
        lock.l_whence = SEEK_SET;
        while (::fcntl(file.get(), F_SETLKW, &lock) != 0) {
            if (errno != EINTR) {
                throwErrno("Failed to wait for the other tasks of the step");
            }
        }
    }

    std::optional<Decision> get() const {
        checkErrno(::lseek(file.get(), 0, SEEK_SET), problem);
        const auto text = readAll(file.get(), maxRequestSize, "the decision of the first task");
        return text.empty() ? std::nullopt : std::optional(parse(text));
    }
    void set(const Decision& decision) const {
        const auto text = cat(static_cast<char>(decision.action), decision.target, '\n', decision.image);
        checkErrno(::pwrite(file.get(), text.data(), text.size(), 0), problem);
    }

private:
    static Decision parse(const std::string& text) {
        const auto end = std::min(text.find('\n'), text.size() - 1);
        return {static_cast<Action>(text.front()), text.substr(end + 1), text.substr(1, end - 1)};
    }

    static constexpr const char* problem = "Failed to share a decision with the other tasks of the step";
    UniqueFd file;  // closing it ends the lock
};

}  // namespace

bool namesImage(const StepRequest& request) {
    return !request.image.empty() || !request.edf.empty();
}

Decision decide(const StepRequest& request, const std::string& container, const std::string& job,
                bool script) {
    checkPlace(request);
    const auto use = request.nameUse;
    const auto step = stepOfName(request.name);
    const bool isOfJob = container != request.name;
    const auto shown = cat("'", request.name, isOfJob ? "' on this node in this job" : "' on this node");
    if (step && step->job != job) {
        throw Error(cat("--container-name: the step ", request.name, " belongs to another job"),
                    cat("A command joins containers of its own job: srun --jobid=", step->job,
                        " --overlap --container-name=", request.name));
    }
    const bool mayJoin = !script && (use == NameUse::automatic || use == NameUse::exec);
    if (const auto running = container.empty() || !mayJoin ? std::nullopt : findRunning(container)) {
        if (!request.save.empty()) {
            throw Error(cat("--container-save: the container with the name ", shown, " runs in another step"),
                        "A container is saved by the step that starts it");
        }
        return {Action::join, "", *running};
    }
    if (step) {
        throw Error(cat("There is no running container of the step ", shown), "See 'squeue --steps'");
    }
    if (use == NameUse::exec) {
        throw Error(cat("There is no running container with the name ", shown),
                    "Without ':exec' it would be started");
    }
    const bool isAsked = !container.empty() && (use == NameUse::create || !namesImage(request));
    const auto kept = isAsked ? imageOfKept(container) : std::nullopt;
    if (kept && use == NameUse::create) {
        throw Error(cat("There is a container with the name ", shown, " already"),
                    cat("Leave ':create' out to use it, or remove it: sarus rm ", container));
    }
    if (kept) {
        return {Action::run, *kept};
    }
    if (!namesImage(request)) {
        throw Error(cat("There is no container with the name ", shown, ", and no image to start it from"),
                    "Add --container-image or --environment");
    }
    return {obtainImage(request) ? Action::run : Action::failed};
}

Decision agree(int descriptor, const std::function<Decision()>& decideForAll) {
    const SharedDecision shared(descriptor);
    if (const auto decision = shared.get()) {
        return *decision;
    }
    try {
        auto decision = decideForAll();
        shared.set(decision);
        return decision;
    } catch (const Error&) {
        shared.set({});
        throw;
    }
}

}  // namespace sarus::spank
