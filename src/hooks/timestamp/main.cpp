#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "hooks/kit/container_user.hpp"
#include "hooks/kit/namespaces.hpp"
#include "hooks/kit/run_hook.hpp"
#include "hooks/timestamp/log_file.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;

void runAsHook(HookContext& context, const HookEnvironment& environment, const HookLog&) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const auto path = context.containerVariable("TIMESTAMP_HOOK_LOGFILE").value_or("");
    if (path.empty()) {
        return;
    }
    if (path.front() != '/' || path.find('\0') != std::string::npos) {
        throw Error(cat("TIMESTAMP_HOOK_LOGFILE is not an absolute path: ", printable(path)));
    }
    utsname host{};
    ::uname(&host);
    const auto message = environment.find("TIMESTAMP_HOOK_MESSAGE").value_or("");
    const auto line = timestamp::formatLine(now, printable(host.nodename), ::getpid(), message);
    becomeContainerUser(context);
    timestamp::appendLine(path, line, ::geteuid() == 0 && isInitialUserNamespace());
}

}  // namespace

int main() {
    return runHook("Timestamp hook", runAsHook);
}
