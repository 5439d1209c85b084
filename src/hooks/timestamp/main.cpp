#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "hook_contracts/callers_settings.hpp"
#include "hooks/kit/container_namespaces.hpp"
#include "hooks/kit/container_user.hpp"
#include "hooks/kit/run_hook.hpp"
#include "hooks/timestamp/log_file.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;

constexpr std::string_view usage =
    "Usage: timestamp_hook                                               (an OCI hook: reads the container's "
    "state)\n"
    "       timestamp_hook --check                                       (looks for mistakes in its "
    "configuration)\n"
    "       timestamp_hook --explain [--root=DIRECTORY] [--env=NAME=VALUE]...  (shows what it would do)\n"
    "\n"
    "Appends the time and TIMESTAMP_HOOK_MESSAGE to the file that the container's variable "
    "TIMESTAMP_HOOK_LOGFILE names.\n"
    "--env gives the container of --explain a variable.\n";

/// Empty if the container requests nothing.
std::string logFileOf(const HookContext& context) {
    auto path = context.callersVariable("TIMESTAMP_HOOK_LOGFILE").value_or("");
    if (!path.empty() && (path.front() != '/' || path.find('\0') != std::string::npos)) {
        throw Error(cat("TIMESTAMP_HOOK_LOGFILE is not an absolute path: ", printable(path)));
    }
    return path;
}

void explain(const HookSetup& setup, const ExplainRequest& request) {
    const auto path = logFileOf(request.container());
    const auto message = setup.environment.find("TIMESTAMP_HOOK_MESSAGE").value_or("");
    printLine(path.empty() ? "nothing: the container's caller has not set TIMESTAMP_HOOK_LOGFILE"
                           : cat("append a line to ", printable(path),
                                 ", as the container's user: ", printable(message)));
}

void runAsHook(const HookSetup& setup, HookContext& context, const HookLogger& log) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const auto path = logFileOf(context);
    if (path.empty()) {
        if (context.containerVariable("TIMESTAMP_HOOK_LOGFILE")) {
            log.info(
                cat("Writes nothing: the image may have set TIMESTAMP_HOOK_LOGFILE. To trust images, add ",
                    hook_contracts::trustVariable, "=true to \"env\" in the hook's JSON file"));
        }
        return;
    }
    utsname host{};
    ::uname(&host);
    const auto message = setup.environment.find("TIMESTAMP_HOOK_MESSAGE").value_or("");
    const auto line = timestamp::formatLine(now, printable(host.nodename), ::getpid(), message);
    becomeContainerUser(context);
    timestamp::appendLine(path, line, ::geteuid() == 0 && isInitialUserNamespace());
}

}  // namespace

int main(int argc, char** argv) {
    return hookMain(argc, argv,
                    {.program = "timestamp_hook",
                     .logName = "Timestamp hook",
                     .usage = usage,
                     .variables = {"TIMESTAMP_HOOK_MESSAGE"},
                     .containerVariables = {"TIMESTAMP_HOOK_LOGFILE"},
                     .explain = explain,
                     .run = runAsHook});
}
