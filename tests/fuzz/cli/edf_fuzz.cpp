// Environment definition files: what is accepted becomes options that the option parsers accept.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "cli/edf.hpp"
#include "engine/run_options.hpp"
#include "oci/runtime/mount_request.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const sarus::cli::VariableLookup lookup = [](const std::string& name) {
        return name == "UNSET" ? std::nullopt : std::optional<std::string>("/value $A");
    };
    sarus::engine::LaunchRequest request;
    try {
        const auto edf = sarus::cli::parseEdf({reinterpret_cast<const char*>(data), size}, "x.toml");
        sarus::cli::edfImage(edf, lookup);
        sarus::cli::applyEdf(edf, lookup, "/cwd", request);
    } catch (const sarus::Error&) {
        return 0;
    }
    for (const auto& mount : request.mounts) {
        sarus::oci::checkMountRequest(mount);
    }
    for (const auto& variable : request.env) {
        if (!sarus::engine::parseEnvironmentOption(variable).second) {
            std::abort();
        }
    }
    for (const auto& annotation : request.annotations) {
        sarus::engine::parseAnnotation(annotation);
    }
    return 0;
}
