#include "base/log.hpp"
#include "hooks/kit/run_hook.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;

/// Writes to both streams and at every level, to show an administrator where the output of hooks goes.
void runAsHook(const HookSetup&, HookContext&, const HookLogger& log) {
    printLine("hook's stdout");
    printError("hook's stderr");
    log.debug("hook's DEBUG log message");
    log.info("hook's INFO log message");
    log.warn("hook's WARN log message");
    log.error("hook's ERROR log message");
}

constexpr std::string_view usage =
    "Usage: stdout_stderr_test_hook              (an OCI hook: reads the container's state)\n"
    "       stdout_stderr_test_hook --check      (looks for mistakes in its configuration)\n"
    "       stdout_stderr_test_hook --explain    (shows what it would do)\n"
    "\n"
    "Writes a line to standard output, one to standard error, and a message of each level.\n";

void explain(const HookSetup&, const ExplainRequest&) {
    printLine("write a line to standard output, one to standard error, and a message of each level");
}

}  // namespace

int main(int argc, char** argv) {
    return hookMain(argc, argv,
                    {.program = "stdout_stderr_test_hook",
                     .logName = "stdout_stderr_test_hook",
                     .usage = usage,
                     .explain = explain,
                     .run = runAsHook});
}
