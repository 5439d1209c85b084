#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "oci/hooks/hook_config.hpp"

/// An accepted hook file names a program by its absolute path and a stage to run it in, and its conditions
/// can be judged.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sarus::oci;
    try {
        const auto config = parseHookConfig({reinterpret_cast<const char*>(data), size}, "10-hook.json");
        if (!config.hook.path.starts_with('/') || config.stages.empty()) {
            std::abort();
        }
        const std::map<std::string, std::string> annotations{{"com.hooks.mpi.enabled", "true"}};
        hookFires(config.when, {.annotations = annotations, .command = "/bin/sh"});
        mpiTypePattern(config.when);
    } catch (const sarus::Error&) {
        return 0;  // refused, as most inputs should be
    }
    return 0;
}
