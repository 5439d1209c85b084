#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/text.hpp"
#include "oci/runtime/bundle_config.hpp"

namespace sarus::hook_contracts {

/// Where a rootless container finds the helper that becomes its program. config.json calls it as
/// `<helper> [--enter=FD] <uid> <gid> <command> [arguments]`: the program's ids are these, not those of
/// `process.user`.
inline constexpr const char* idMapHelperInside = "/dev/.sarus-idmap";

struct IdMapCall {
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::optional<int> payloadNamespace;  ///< a descriptor of the container's first process
};

/// What `process.args` says to the helper; nullopt if they begin with another program. The user of any
/// container may have typed such words, so they count only in the user namespace for which the engine uses
/// the helper: one that has the id 0 of the runtime alone.
inline std::optional<IdMapCall> findIdMapCall(const oci::BundleConfig& config) {
    constexpr std::string_view enter = "--enter=";
    const auto words = config.arguments();
    const auto mappings = config.uidMappings();
    if (words.empty() || words.front() != idMapHelperInside || mappings.size() != 1 ||
        mappings[0].containerId != 0 || mappings[0].hostId != 0 || mappings[0].size != 1) {
        return std::nullopt;
    }
    IdMapCall call;
    auto args = std::span(words).subspan(1);
    if (!args.empty() && args.front().starts_with(enter)) {
        const auto fd = parseNumber(std::string_view(args.front()).substr(enter.size()));
        call.payloadNamespace = fd ? std::optional(static_cast<int>(*fd)) : std::nullopt;
        args = args.subspan(1);
    }
    const auto uid = args.size() > 1 ? parseNumber(args[0]) : std::nullopt;
    const auto gid = args.size() > 1 ? parseNumber(args[1]) : std::nullopt;
    if (!uid || !gid) {
        return std::nullopt;
    }
    call.uid = static_cast<std::uint32_t>(*uid);
    call.gid = static_cast<std::uint32_t>(*gid);
    return call;
}

}  // namespace sarus::hook_contracts
