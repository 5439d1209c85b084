#include "engine/annotations.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "engine/run_options.hpp"
#include "hook_contracts/callers_settings.hpp"
#include "hook_contracts/hook_wrapper.hpp"

namespace sarus::engine {

namespace {

bool steersRuntime(std::string_view key) {
    constexpr std::array<std::string_view, 4> prefixes{"run.oci.", "org.criu.", "org.systemd.",
                                                       "module.wasm."};
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](auto prefix) { return key.starts_with(prefix); });
}

void applyEngine(const SiteConfig& config, const LaunchRequest& request,
                 std::map<std::string, std::string>& annotations) {
    const bool mpi = request.mpi || request.mpiType.has_value();
    if (mpi || request.glibc) {
        annotations["com.hooks.glibc.enabled"] = "true";
    }
    if (mpi) {
        annotations["com.hooks.mpi.enabled"] = "true";
        if (const auto& type = request.mpiType ? request.mpiType : config.defaultMpiType) {
            annotations["com.hooks.mpi.type"] = *type;
        }
    }
    if (request.ssh) {
        annotations["com.hooks.ssh.enabled"] = "true";
        annotations["com.hooks.slurm-global-sync.enabled"] = "true";
    }
    const auto level = std::min(request.logLevel, LogLevel::error);
    annotations["com.hooks.logging.level"] = cat(static_cast<int>(level));
}

}  // namespace

std::map<std::string, std::string> makeAnnotations(const SiteConfig& config, const LaunchRequest& request,
                                                   const HostFacts& facts) {
    auto annotations = request.metadata.labels;
    const auto& allowed = config.imageAnnotations;
    std::erase_if(annotations, [&](const auto& label) {
        return steersRuntime(label.first) ||
               (hook_contracts::isCallersAnnotation(label.first) &&
                std::find(allowed.begin(), allowed.end(), label.first) == allowed.end());
    });
    applyEngine(config, request, annotations);
    for (const auto& option : request.annotations) {
        auto [key, value] = parseAnnotation(option);
        if (steersRuntime(key)) {
            throw Error(cat("Invalid annotation requested from CLI: '", printable(key),
                            "' is reserved for the administrator"),
                        "It would change what the OCI runtime does with the rights of the container engine");
        }
        annotations[key] = std::move(value);
    }
    // Hooks open these with the engine's rights, so nobody else may choose them.
    for (const auto& [key, suffix] :
         {std::pair("com.hooks.logging.stdoutfd", hook_contracts::wrapper::outputSuffix),
          std::pair("com.hooks.logging.stderrfd", "")}) {
        annotations.erase(key);
        if (!facts.hookOutput.empty()) {
            annotations[key] = cat(facts.hookOutput, suffix);
        }
    }
    // Hooks look for the user's files by it.
    annotations.erase(hook_contracts::callersUidAnnotation);
    if (facts.nodeUid) {
        annotations[hook_contracts::callersUidAnnotation] = cat(*facts.nodeUid);
    }
    return annotations;
}

}  // namespace sarus::engine
