#include <unistd.h>

#include <algorithm>
#include <climits>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/begin_process.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/line_writer.hpp"
#include "base/log.hpp"
#include "base/said_once.hpp"
#include "base/text.hpp"
#include "starter/entry/audit.hpp"
#include "starter/entry/credentials.hpp"
#include "starter/entry/entry.hpp"
#include "starter/entry/installation.hpp"
#include "starter/entry/request_channel.hpp"
#include "starter/image/user_repository.hpp"
#include "starter/runtime/runtime.hpp"
#include "starter/verbs/containers.hpp"
#include "starter/verbs/dry_run.hpp"
#include "starter/verbs/exec.hpp"
#include "starter/verbs/launch.hpp"
#include "starter/verbs/save.hpp"

namespace sarus::starter {

namespace {

struct Answer {
    int status = 0;
    std::string text{};  ///< for standard output
};

/// Messages are as the caller of a container wants them.
template <typename Request>
void begin(const Request& request) {
    setLogLevel(request.logLevel);
    speakForTask([&](const std::string& name) -> std::optional<std::string> {
        const auto prefix = cat(name, '=');
        const auto& entries = request.hostEnvironment;
        const auto found = std::find_if(entries.begin(), entries.end(),
                                        [&](const auto& entry) { return entry.starts_with(prefix); });
        return found == entries.end() ? std::nullopt : std::optional(found->substr(prefix.size()));
    });
}

/// The verbs of engine::StarterRequest.
struct Verbs {
    Session& session;

    Answer operator()(const engine::LaunchRequest& request) const {
        begin(request);
        return request.dryRun ? Answer{.text = describeContainer(session, request)}
                              : Answer{launch(session, request)};
    }
    Answer operator()(const engine::ExecRequest& request) const {
        begin(request);
        return {execInContainer(session, request)};
    }
    Answer operator()(const engine::ListRequest& request) const {
        return {.text = listContainers(session, request)};
    }
    Answer operator()(const engine::InspectRequest& request) const {
        return {.text = inspectContainer(session, request)};
    }
    Answer operator()(const engine::KillRequest& request) const {
        killContainer(session, request);
        return {};
    }
    Answer operator()(const engine::RemoveRequest& request) const {
        auto removal = removeContainers(session, request);
        return {.status = removal.complete ? 0 : 1, .text = std::move(removal.names)};
    }
    Answer operator()(const engine::SaveRequest& request) const {
        if (request.imageFd < 0) {
            return {.text = describeKept(session, request)};
        }
        saveContainer(session, request);
    }
    Answer operator()(const engine::CreateRepositoryRequest&) const {
        createUserRepository(session.config, session.credentials, *session.paths);
        return {};
    }
};

/// Removes the caller's directory in /run/sarus if it is empty, after a command that starts no container. (A
/// container removes its own.)
class EmptyDirectories {
public:
    EmptyDirectories() = default;
    EmptyDirectories(const EmptyDirectories&) = delete;
    EmptyDirectories& operator=(const EmptyDirectories&) = delete;
    ~EmptyDirectories() {
        if (::geteuid() == 0) {
            removeEmptyRuntimeRoots();
        }
    }
};

/// The number of the request's descriptor: the last argument.
int parseArgument(std::string_view argument) {
    const auto number = parseNumber(argument);
    if (!number || *number > INT_MAX) {
        throw Error(cat("Unknown argument '", printable(argument), "'"),
                    "This program is started by `sarus`");
    }
    return static_cast<int>(*number);
}

/// For failures before the configuration is known.
AuditLog earlyLog(bool privileged, uid_t caller) {
    return privileged ? AuditLog(engine::SiteConfig{}.auditLog, caller) : AuditLog();
}

/// Runs `work` and records its failure.
template <typename Work>
auto recording(AuditLog& audit, Work&& work) {
    try {
        return work();
    } catch (const Error& error) {
        audit.refused(error);
        throw;
    }
}

bool startsSomething(const engine::StarterRequest& request) {
    const auto* const launched = std::get_if<engine::LaunchRequest>(&request);
    return launched != nullptr ? !launched->dryRun : std::holds_alternative<engine::ExecRequest>(request);
}

Answer serve(Entry entry, const Credentials& credentials, int channel) {
    const EmptyDirectories empty;
    auto early = earlyLog(credentials.privileged(), credentials.uid());
    auto session = recording(early, [&] { return openSession(std::move(entry), credentials); });
    return recording(session.audit, [&] {
        const auto request = receiveRequest(channel, session.entry.descriptors);
        if (!startsSomething(request)) {
            session.audit = AuditLog();
        }
        return std::visit(Verbs{session}, request);
    });
}

int run(int argc, char** argv) {
    const bool givesUp = argc == 3 && std::string_view(argv[1]) == withoutPrivileges;
    auto early = givesUp ? AuditLog() : earlyLog(::geteuid() == 0, ::getuid());
    auto entry =
        recording(early, [&] { return sanitizeEntry(givesUp ? Privileges::giveUp : Privileges::keep); });
    if (argc != 2 && !givesUp) {
        throw Error("sarus-starter was called with a wrong number of arguments",
                    "This program is started by `sarus`");
    }
    const auto credentials = Credentials::acquire(entry.mode);
    printAsCaller(credentials);
    const auto answer = serve(std::move(entry), credentials, parseArgument(argv[argc - 1]));
    if (!answer.text.empty()) {
        // A stalled reader must not block a root process that the user cannot kill.
        dropToMonitor(credentials);
        unblockSignals();
        writeAll(STDOUT_FILENO, answer.text, "standard output");
    }
    return answer.status;
}

}  // namespace

}  // namespace sarus::starter

int main(int argc, char** argv) {
    sarus::beginProcess(sarus::BlockedSignals::keep);
    sarus::setProgramName("sarus");
    sarus::neverColour();  // the caller's NO_COLOR is not known here
    try {
        return sarus::starter::run(argc, argv);
    } catch (const sarus::Error& error) {
        sarus::printError(error);
        return error.exitStatus();
    } catch (const std::exception& error) {
        sarus::printError(error.what());
        return 1;
    }
}
