#include "base/log.hpp"
#include "hooks/kit/run_hook.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;

/// Says something on both streams and at every level, so that an administrator sees what becomes of hooks' output.
void runAsHook(HookContext&, const HookEnvironment&, const HookLog& log) {
    printLine("hook's stdout");
    printError("hook's stderr");
    log.debug("hook's DEBUG log message");
    log.info("hook's INFO log message");
    log.warn("hook's WARN log message");
    log.error("hook's ERROR log message");
}

}  // namespace

int main() {
    return runHook("stdout_stderr_test_hook", runAsHook);
}
