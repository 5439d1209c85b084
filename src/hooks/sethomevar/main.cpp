#include "base/log.hpp"
#include "base/text.hpp"
#include "hooks/kit/container_user.hpp"
#include "hooks/kit/run_hook.hpp"
#include "hooks/sethomevar/account_home.hpp"
#include "oci/runtime/bundle_config.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;

constexpr std::string_view usage =
    "Usage: sethomevar_hook              (a precreate hook: reads the container's config.json and writes the "
    "changed one)\n"
    "       sethomevar_hook --check      (looks for mistakes in its configuration)\n"
    "       sethomevar_hook --explain    (shows what it would set for a container of the caller)\n"
    "\n"
    "Sets HOME to the home directory that the container's caller has on this node.\n"
    "PASSWD_FILE names a file with the accounts; otherwise they are those of /etc/passwd and getent(1).\n";

void check(const HookSetup& setup, Findings& findings) {
    if (const auto settings = sethomevar::readSettings(setup.environment); !settings.passwdFile.empty()) {
        findings.requireFile("PASSWD_FILE", settings.passwdFile);
    }
}

void explain(const HookSetup& setup, const ExplainRequest&) {
    const auto settings = sethomevar::readSettings(setup.environment);
    printLine(cat("variable HOME=", printable(sethomevar::homeOf(callersUid(), settings))));
}

void filter(const HookSetup& setup, const std::string& input, const HookLogger&) {
    auto config = oci::BundleConfig::parse(input, "standard input");
    const auto settings = sethomevar::readSettings(setup.environment);
    const auto uid = callersUid(config);
    becomeContainerUser(config);
    config.setVariable("HOME", sethomevar::homeOf(uid, settings));
    answerWith(config);
}

}  // namespace

int main(int argc, char** argv) {
    return hookMain(argc, argv,
                    {.program = "sethomevar_hook",
                     .logName = "sethomevar hook",
                     .usage = usage,
                     .variables = {"PASSWD_FILE", "PATH"},
                     .check = check,
                     .explain = explain,
                     .filter = filter});
}
