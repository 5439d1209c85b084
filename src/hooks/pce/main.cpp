#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "hooks/kit/namespaces.hpp"
#include "hooks/kit/run_hook.hpp"
#include "oci/bundle_config.hpp"
#include "oci/precreate_edits.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;

constexpr std::size_t kMaxConfigSize = 16U << 20U;

std::vector<oci::ContainerEdits> readEdits(const std::string& path) {
    try {
        return oci::parsePrecreateEdits(readFile(path), path);
    } catch (const Error& error) {
        throw Error(cat("PCE_INPUT: ", error.what()), error.hint());
    }
}

void run(const HookEnvironment& environment, const HookLog&) {
    auto config = oci::BundleConfig::parse(readAll(STDIN_FILENO, kMaxConfigSize, "standard input"), "standard input");
    if (const auto path = environment.find("PCE_INPUT")) {
        // A relative path would depend on the engine's working directory.
        if (!path->starts_with('/')) {
            throw Error(cat("PCE_INPUT: not an absolute path: '", printable(*path), "'"));
        }
        oci::applyPrecreateEdits(readEdits(*path), !isInitialUserNamespace(), config);
    }
    // In one piece and only now: after a failure there is no output that an engine could take for a configuration.
    auto text = config.serialize();
    text += '\n';
    writeAll(STDOUT_FILENO, text, "standard output");
    // To take the tree apart, value by value, would cost as much as to write it; the kernel frees it all at once.
    ::_exit(0);
}

}  // namespace

int main() {
    return runHookProgram("pce hook", run);
}
