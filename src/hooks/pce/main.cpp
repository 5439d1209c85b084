#include "base/error.hpp"
#include "base/text.hpp"
#include "base/trusted_file.hpp"
#include "hooks/kit/container_namespaces.hpp"
#include "hooks/kit/run_hook.hpp"
#include "hooks/pce/precreate_edits.hpp"
#include "oci/runtime/bundle_config.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;

constexpr std::size_t maxEditsSize = 16U << 20U;

constexpr std::string_view usage =
    "Usage: pce_hook              (a precreate hook: reads the container's config.json and writes the "
    "changed one)\n"
    "       pce_hook --check      (looks for mistakes in its configuration)\n"
    "       pce_hook --explain    (shows the edits)\n"
    "\n"
    "Edits config.json as the file says that the variable PCE_INPUT names.\n";

/// None without PCE_INPUT. Edits can make root mount, create and run anything.
std::vector<oci::ContainerEdits> readEdits(const HookEnvironment& environment) {
    const auto path = environment.find("PCE_INPUT");
    if (!path) {
        return {};
    }
    // A relative path would depend on the engine's working directory.
    if (!path->starts_with('/')) {
        throw Error(cat("PCE_INPUT: not an absolute path: '", printable(*path), "'"));
    }
    const bool mustBeRoots = ::geteuid() == 0 && isInitialUserNamespace();
    const auto slash = path->rfind('/');
    try {
        const auto directory = openTrustedDirectory(path->substr(0, slash + 1), mustBeRoots);
        const auto text =
            readTrustedFile(directory.get(), path->substr(slash + 1), *path, maxEditsSize, mustBeRoots);
        return pce::parsePrecreateEdits(text, *path);
    } catch (Error& error) {
        error.addContext("PCE_INPUT");
        throw;
    }
}

void check(const HookSetup& setup, Findings& findings) {
    if (!setup.environment.find("PCE_INPUT")) {
        findings.problem("env: PCE_INPUT is not set, so the hook changes nothing");
    }
    for (const auto& edits : readEdits(setup.environment)) {
        for (const auto& mount : edits.mounts) {
            if (mount.source.starts_with('/')) {
                findings.requireFile("PCE_INPUT: hostPath", mount.source);
            }
        }
        for (const auto& node : edits.deviceNodes) {
            findings.requireFile("PCE_INPUT: deviceNodes", node.hostPath.empty() ? node.path : node.hostPath);
        }
    }
}

void explainEdits(const oci::ContainerEdits& edits) {
    for (const auto& node : edits.deviceNodes) {
        printLine(cat("device ", printable(node.hostPath.empty() ? node.path : node.hostPath), " on ",
                      printable(node.path), " (", oci::deviceAccess(node), ')'));
    }
    for (const auto& mount : edits.mounts) {
        printLine(cat("mount ", printable(mount.source), " on ", printable(mount.destination), " (",
                      printable(join(mount.options.value_or(std::vector<std::string>()), ",")), ')'));
    }
    for (const auto& [name, value] : edits.env) {
        printLine(cat("variable ", printable(name), '=', printable(value)));
    }
    for (const auto& hook : edits.hooks) {
        printLine(cat("hook ", printable(hook.hook.path), " (", hook.stage, ')'));
    }
    for (const auto gid : edits.additionalGids) {
        printLine(cat("group ", gid));
    }
    if (edits.intelRdt) {
        printLine("intelRdt");
    }
}

void explain(const HookSetup& setup, const ExplainRequest&) {
    for (const auto& edits : readEdits(setup.environment)) {
        explainEdits(edits);
    }
}

void filter(const HookSetup& setup, const std::string& input, const HookLogger&) {
    auto config = oci::BundleConfig::parse(input, "standard input");
    if (const auto edits = readEdits(setup.environment); !edits.empty()) {
        pce::applyPrecreateEdits(edits, !isInitialUserNamespace(), config);
    }
    answerWith(config);
}

}  // namespace

int main(int argc, char** argv) {
    return hookMain(argc, argv,
                    {.program = "pce_hook",
                     .logName = "pce hook",
                     .usage = usage,
                     .variables = {"PCE_INPUT"},
                     .check = check,
                     .explain = explain,
                     .filter = filter});
}
